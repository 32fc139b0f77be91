"""A wider key for an autotuner that takes launches with different winners for one.

An autotuner tunes on whichever launch comes first, and gives what it found to all that have the same values of its key
and the same types of tensors. Another parameter in the key makes it tune anew where that changes, which costs a tuning
at each new value; so the fewest parameters are added that tell the launches apart, sizes before strides.

Preconditions: the key is a list or tuple of names that is written out in the decorator; one or two parameters that are
numbers differ between every two launches with different winners.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations

from tritonforge.domain.kernel import Kernel, Parameter
from tritonforge.domain.launch import Launch, Scalar
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.autotuned import told_apart
from tritonforge.rewrite.rules.keyword_arguments import insert_items
from tritonforge.rewrite.rules.launch_values import Refused, called_name, kernel_function
from tritonforge.rewrite.scopes import Scopes, read

NAME = "autotune-key"
_ROLES = ("scalar", "meaning", "stride")
_MOST = 2


def wider_key(
    kernel: Kernel, text: str, found: Sequence[tuple[Launch, Hashable]]
) -> tuple[str, tuple[str, ...]] | Refusal:
    """Return the text of the kernel's file with a key that tells launches apart, and the names that it has more.

    `found`: every launch with its winner; those with the same one need not be told apart.
    """
    try:
        source, scopes = read(kernel.file, text)
        key = _key_of(scopes, kernel)
        names = _names(kernel, found)
    except Refused as refused:
        return Refusal(f"{refused}.", NAME)
    except SyntaxError as error:
        return Refusal(f"{kernel.file} cannot be parsed: {error.msg} at line {error.lineno}.", NAME)
    quote = "'" if key.elts and source.segment(key.elts[0]).startswith("'") else '"'
    edits = insert_items(source, key, key.elts, [f"{quote}{name}{quote}" for name in names])
    return apply_edits(text, tuple(edits)), names


def _key_of(scopes: Scopes, kernel: Kernel) -> ast.List:
    function = kernel_function(scopes, kernel)
    decorators = function.decorator_list if function is not None else ()
    calls = [d for d in decorators if isinstance(d, ast.Call) and called_name(d) == "autotune"]
    if not calls:
        raise Refused(f"{kernel.name} is not autotuned in a decorator")
    given = next((k.value for k in calls[0].keywords if k.arg == "key"), None)
    given = given if given is not None else (calls[0].args[1] if len(calls[0].args) > 1 else None)
    if not isinstance(given, ast.List) or not all(isinstance(one, ast.Constant) for one in given.elts):
        raise Refused("the autotuner's key is not written out as a list")
    return given


def _names(kernel: Kernel, found: Sequence[tuple[Launch, Hashable]]) -> tuple[str, ...]:
    alike = [
        (one, other)
        for (one, winner), (other, another) in combinations(found, 2)
        if winner != another and not told_apart(kernel, one, other)
    ]
    if not alike:
        raise Refused("the autotuner tells the launches apart already")
    known = [p for role in _ROLES for p in kernel.parameters if p.role == role]
    for names in _choices(known):
        if all(any(_number(one, name) != _number(other, name) for name in names) for one, other in alike):
            return names
    raise Refused("no number that is passed to the kernel tells the launches apart")


def _choices(known: Sequence[Parameter]) -> Iterator[tuple[str, ...]]:
    for count in range(1, _MOST + 1):
        for chosen in combinations(known, count):
            yield tuple(p.name for p in chosen)


def _number(launch: Launch, name: str) -> object:
    value = dict((*launch.problem.arguments, *launch.problem.constexprs)).get(name)
    return value.value if isinstance(value, Scalar) else None
