"""Recipes: how the values of a tensor are made, `~name(arguments)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from tritonforge.domain.launch import Distribution, ValuePolicy
from tritonforge.workload.specs.dtypes import bounds, is_floating, largest, pack
from tritonforge.workload.specs.errors import nearest
from tritonforge.workload.specs.expressions import Number, Scope, number
from tritonforge.workload.specs.syntax import Constant, Name, Node, Recipe

_MAX_VALUES = 1 << 16
_MOST_COUNTED = (1 << 62) - 1
"""The worker counts in 64-bit integers."""


@dataclass(frozen=True)
class _Row:
    """One simple recipe: how many numbers it takes, for which dtypes it is (`any`, `floating`, `integer`)."""

    written: str
    takes: tuple[int, ...]
    kinds: str
    make: Callable[[list[Number]], Distribution]


def _uniform(low: Number, high: Number) -> Distribution:
    return Distribution("uniform", low=low, high=high)


_SIMPLE: dict[str, _Row] = {
    "normal": _Row(
        "normal(mean, std)", (0, 2), "floating",
        lambda n: Distribution("normal", mean=n[0], std=n[1]) if n else Distribution(),
    ),
    "uniform": _Row("uniform(low, high)", (0, 2), "any", lambda n: _uniform(*(n or (0, 1)))),
    "randint": _Row("randint(low, high)", (1, 2), "integer", lambda n: _uniform(*([0, *n][-2:]))),
    "zeros": _Row("zeros", (0,), "any", lambda _: Distribution("zeros")),
    "ones": _Row("ones", (0,), "any", lambda _: Distribution("constant", low=1.0)),
    "full": _Row("full(value)", (1,), "any", lambda n: Distribution("constant", low=n[0], high=n[0])),
    "empty": _Row("empty", (0,), "any", lambda _: Distribution("uninitialised")),
    "arange": _Row("arange(start)", (0, 1), "any", lambda n: Distribution("arange", low=n[0] if n else 0)),
    "randperm": _Row("randperm", (0,), "integer", lambda _: Distribution("permutation", low=0)),
    "offsets": _Row(
        "offsets(total)", (1, 2), "integer", lambda n: Distribution("offsets", low=[0, *n][-2], high=n[-1])
    ),
    "mask": _Row("mask(share)", (0, 1), "any", lambda n: Distribution("bernoulli", mean=n[0] if n else 0.5)),
}  # fmt: skip
WRITTEN = (
    *(row.written for row in _SIMPLE.values()),
    "sorted(recipe)", "sorted(recipe, descending)", "sparse(share of zeros)", "values(0, 3, 7)",
)  # fmt: skip
NAMES = (*_SIMPLE, "sorted", "sparse", "values")


def default_policy(dtype: str) -> ValuePolicy:
    """Return the values of a tensor without a recipe: normal, or small integers."""
    if is_floating(dtype):
        return Distribution()
    return _uniform(0, 1 if dtype == "bool" else 7)


def policy_of(recipe: Recipe | None, dtype: str, elements: int, scope: Scope) -> ValuePolicy:
    """Return the values that a recipe describes for a tensor of `dtype` with `elements` elements.

    Raises:
        SpecError: at the recipe's name, or at the argument that does not fit.
    """
    if recipe is None:
        return default_policy(dtype)
    if recipe.name == "values":
        return _values(recipe, dtype, elements, scope)
    if recipe.name == "sorted":
        return _sorted(recipe, dtype, elements, scope)
    if recipe.name == "sparse":
        return _sparse(recipe, dtype, scope)
    row = _SIMPLE.get(recipe.name)
    if row is None:
        mend = nearest(recipe.name, NAMES, "Known recipes")
        raise scope.place.error(recipe.at, f"there is no recipe {recipe.name!r}.", mend)
    if (row.kinds == "floating") != is_floating(dtype) and row.kinds != "any":
        mend = f"Use {'randint(low, high)' if row.kinds == 'floating' else 'uniform(low, high)'} for it."
        raise scope.place.error(recipe.at, f"cannot use the recipe {recipe.name!r} for {dtype}.", mend)
    numbers = [number(argument, scope) for argument in recipe.arguments]
    if len(numbers) not in row.takes:
        wanted = " or ".join(map(str, row.takes))
        raise scope.place.error(
            recipe.at, f"{recipe.name} takes {wanted} numbers, not {len(numbers)}.", f"As in {row.written}."
        )
    return _checked(recipe, row.make(numbers), dtype=dtype, elements=elements, scope=scope)


def _checked(recipe: Recipe, made: Distribution, *, dtype: str, elements: int, scope: Scope) -> Distribution:
    place = scope.place
    last = recipe.arguments[-1].at if recipe.arguments else recipe.at
    if recipe.name == "randint":
        if made.high <= made.low:
            raise place.error(last, f"randint needs a high above its low, not {made.low} and {made.high}.")
        made = dataclasses.replace(made, high=made.high - 1)
    if recipe.name == "normal" and made.std < 0:
        raise place.error(last, "a standard deviation cannot be negative.")
    if recipe.name == "mask" and not 0 <= made.mean <= 1:
        raise place.error(last, f"a share is between 0 and 1, not {made.mean}.")
    if recipe.name in ("uniform", "offsets") and made.high < made.low:
        raise place.error(last, f"{recipe.name} needs a high that is not below its low.")
    limits = bounds(dtype)
    if limits is not None and made.kind in ("uniform", "constant", "offsets", "arange", "permutation"):
        top = made.low + max(elements - 1, 0) if made.kind in ("arange", "permutation") else made.high
        top = made.low if made.kind == "constant" else top
        if made.low < limits[0] or top > limits[1]:
            raise place.error(last, f"{dtype} holds {limits[0]} to {limits[1]}, not {made.low:g} to {top:g}.")
    _check_floats(recipe, made, dtype=dtype, elements=elements, scope=scope)
    return made


def _check_floats(recipe: Recipe, made: Distribution, *, dtype: str, elements: int, scope: Scope) -> None:
    """Refuse what a floating dtype holds as infinity alone, and what the worker cannot draw on the way to it."""
    if not is_floating(dtype):
        return
    for argument in recipe.arguments:
        _check_float(argument, number(argument, scope), dtype, scope)
    last = recipe.arguments[-1].at if recipe.arguments else recipe.at
    if made.kind == "arange":
        top = min(largest(dtype), _MOST_COUNTED)
        if max(abs(made.low), made.low + max(elements - 1, 0)) > top:
            found = f"{made.low:g} to {made.low + max(elements - 1, 0):g}"
            raise scope.place.error(last, f"arange of {dtype} counts from {-top:g} to {top:g}, not {found}.")
    if made.kind == "uniform":  # drawn as a share of high - low, in float64 or float32
        widest = largest("float64" if dtype == "float64" else "float32")
        if made.high - made.low > widest:
            raise scope.place.error(last, f"uniform over {dtype} spans at most {widest:g}.")


def _check_float(node: Node, found: Number, dtype: str, scope: Scope) -> None:
    top = largest(dtype)
    if abs(found) > top:
        raise scope.place.error(node.at, f"{dtype} holds {-top:g} to {top:g}, not {found:g}.")


def _sorted(recipe: Recipe, dtype: str, elements: int, scope: Scope) -> ValuePolicy:
    order = "ascending"
    arguments = recipe.arguments
    if len(arguments) == 2 and isinstance(arguments[1], Name) and arguments[1].name in ("ascending", "descending"):
        order = arguments[1].name
        arguments = arguments[:1]
    if len(arguments) > 1:
        raise scope.place.error(arguments[1].at, "sorted takes a recipe and, after it, 'descending'.")
    inner = policy_of(_as_recipe(arguments[0], scope), dtype, elements, scope) if arguments else default_policy(dtype)
    if not isinstance(inner, Distribution):
        raise scope.place.error(arguments[0].at, "exact values are written in the order that they have.")
    return dataclasses.replace(inner, order=order)


def _sparse(recipe: Recipe, dtype: str, scope: Scope) -> ValuePolicy:
    if len(recipe.arguments) != 1:
        raise scope.place.error(recipe.at, "sparse takes one number, the share of zeros.", "As in sparse(0.9).")
    share = number(recipe.arguments[0], scope)
    if not 0 <= share <= 1:
        raise scope.place.error(recipe.arguments[0].at, f"a share is between 0 and 1, not {share}.")
    if not is_floating(dtype):
        raise scope.place.error(recipe.at, f"cannot use the recipe 'sparse' for {dtype}.", "Use mask(share) for it.")
    return Distribution(zero_fraction=share)


def _values(recipe: Recipe, dtype: str, elements: int, scope: Scope) -> ValuePolicy:
    place = scope.place
    count = len(recipe.arguments)
    if count != elements:
        raise place.error(recipe.at, f"values gives {count} numbers for {elements} elements.", "Give one for each.")
    if count > _MAX_VALUES:
        raise place.error(recipe.at, f"values takes at most {_MAX_VALUES} numbers.")
    numbers: list[Number] = []
    limits = bounds(dtype)
    for argument in recipe.arguments:
        found: Number
        if dtype == "bool" and isinstance(argument, Constant) and isinstance(argument.value, bool):
            found = int(argument.value)
        else:
            found = number(argument, scope)
        if limits is not None and not isinstance(found, int):
            raise place.error(argument.at, f"{dtype} holds whole numbers, not {found}.")
        if limits is not None and not limits[0] <= found <= limits[1]:
            raise place.error(argument.at, f"{dtype} holds {limits[0]} to {limits[1]}, not {found}.")
        _check_float(argument, found, dtype, scope)
        numbers.append(found)
    packed = pack(dtype, numbers)
    if packed is None:
        raise place.error(recipe.at, f"values cannot be written out for {dtype}.", "Use full(value) or uniform.")
    return packed


def _as_recipe(node: Node, scope: Scope) -> Recipe:
    if isinstance(node, Name):
        return Recipe(node.at, node.name, ())
    function = getattr(node, "function", None)
    if function is None:
        raise scope.place.error(node.at, "expected a recipe here.", "As in sorted(randint(0, 512)).")
    return Recipe(node.at, function, node.arguments)  # type: ignore[union-attr]
