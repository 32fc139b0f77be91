"""Which hostile values go where: every family of values reaches every floating argument, in few inputs.

A family alone in an input is seen by every kernel, but there are more families than inputs that can be afforded. So
they are laid out as a *mosaic*: each row of a tensor (each index of the dimension that only this tensor has; each
stretch of a vector) holds another family, and a kernel whose programs work on rows meets them all at once. A kernel
that reduces over everything would see only the worst of a mosaic. For it, those families that wrong reductions differ
on also fill whole tensors, one family to an input. NaN and infinities, which hide what they meet, have mosaics of their
own in which one tensor is poisoned and the others are not, and are put alone into tensors too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tritonforge.domain.launch import Call, Distribution, Family, Hostile, Tensor, ValuePolicy
from tritonforge.verify.resizing import Path, Place, is_floating, is_unset, leaves, with_leaves

FINITE: tuple[Family, ...] = (
    "mixed-magnitudes",
    "offset",
    "constant",
    "small",
    "ascending",
    "cancellation",
    "large-maxima",
    "ties",
    "negative",
    "zeros",
    "signed-zeros",
    "subnormal",
    "powers-of-two",
    "descending",
    "normal",
)
POISONED: tuple[Family, ...] = (
    "one-nan",
    "negative-inf-block",
    "normal",
    "one-inf",
    "one-negative-inf",
    "all-negative-inf",
    "nan-block",
    "inf-block",
    "all-nan",
    "all-inf",
    "normal",
)
"""A mosaic's families in the order of its pieces: what tells most comes first, for tensors of few rows."""

ALONE: tuple[Family, ...] = (
    "descending",
    "large-maxima",
    "offset",
    "cancellation",
    "mixed-magnitudes",
    "small",
    "subnormal",
    "negative",
    "ties",
    "constant",
    "zeros",
)
"""Families that fill whole tensors in inputs of their own."""

ALONE_AGAIN: tuple[Family, ...] = ("large-maxima", "offset", "cancellation", "subnormal")
"""Those of them that differ from dtype to dtype."""

ALONG: tuple[Family, ...] = ("ascending", "powers-of-two")
"""Families that fill whole tensors in inputs that are there for their sizes: tails and strides show with them, too."""

POISONED_ALONE: tuple[Family, ...] = (
    "one-nan",
    "all-negative-inf",
    "one-inf",
    "one-negative-inf",
    "negative-inf-block",
    "normal",
)
"""Neighbours in this order meet in tensors that are neighbours: +Inf and -Inf in sums and products, for one."""

IN_WORDS: Mapping[Family, str] = {
    "normal": "normal values",
    "mixed-magnitudes": "large and small magnitudes",
    "small": "small values",
    "subnormal": "subnormals",
    "signed-zeros": "signed zeros",
    "zeros": "all zeros",
    "constant": "all the same value",
    "ascending": "sorted, ascending",
    "descending": "sorted, descending",
    "offset": "large common offset",
    "cancellation": "huge terms that cancel",
    "large-maxima": "large maxima",
    "ties": "few distinct values",
    "negative": "all far below zero",
    "powers-of-two": "powers of two and rounding ties",
    "one-nan": "a NaN",
    "one-inf": "a +Inf",
    "one-negative-inf": "a -Inf",
    "nan-block": "a block of NaN",
    "inf-block": "a block of +Inf",
    "negative-inf-block": "a block of -Inf",
    "all-nan": "NaN only",
    "all-inf": "+Inf only",
    "all-negative-inf": "-Inf only",
}
_DULL: frozenset[Family] = frozenset({"zeros", "subnormal", "signed-zeros"})
"""Values that hide what they are multiplied with: other arguments get them only where all do."""
_STRIDE = 3


def floating(call: Call) -> tuple[tuple[Path, Tensor], ...]:
    """Return the floating tensors of `call` that hold values, the largest first, those of zeros (accumulators) last."""
    found = [
        (path, value)
        for path, value in leaves(call)
        if isinstance(value, Tensor) and is_floating(value) and not is_unset(value)
    ]
    return tuple(sorted(found, key=lambda one: (_is_zeros(one[1]), -one[1].elements)))


def with_values(call: Call, policies: Mapping[Path, ValuePolicy]) -> Call:
    """Return `call` with the policies of those tensors that `policies` names."""
    return with_leaves(
        call,
        lambda path, v: (
            dataclasses.replace(v, values=policies[path]) if isinstance(v, Tensor) and path in policies else v
        ),
    )


def mosaic(call: Call, groups: Sequence[Sequence[Place]], *, tile: int) -> dict[Path, Hostile]:
    """Lay every finite family out over every floating tensor; what meets in one row differs from tensor to tensor."""
    found = floating(call)
    out = {}
    for index, (path, tensor) in enumerate(found):
        shift = index * _STRIDE % len(FINITE)
        families = FINITE[shift:] + FINITE[:shift]
        out[path] = _laid_out(families, path, tensor, groups, tile=tile, several=len(found) > 1)
    return out


def poisoned(call: Call, at: int, groups: Sequence[Sequence[Place]], *, tile: int) -> dict[Path, Hostile]:
    """Lay NaN and infinities out over the floating tensor number `at`; the others hold normal values."""
    found = floating(call)
    normal = Hostile(("normal",))
    return {
        path: _laid_out(POISONED, path, tensor, groups, tile=tile, several=len(found) > 1) if index == at else normal
        for index, (path, tensor) in enumerate(found)
    }


def alone(call: Call, family: Family) -> dict[Path, Hostile]:
    """Fill the largest tensors (all of one shape) with `family`, and the others with one that does not hide it."""
    found = floating(call)
    others = [one for one in FINITE if one not in _DULL]
    first = found[0][1].shape if found else ()
    out = {}
    for index, (path, tensor) in enumerate(found):
        if tensor.shape == first or family in _DULL:
            chosen = family
        else:
            chosen = others[(FINITE.index(family) + index * _STRIDE) % len(others)]
        # Each row of small values has a magnitude of its own.
        out[path] = Hostile((chosen,), "rows" if family == "small" else "whole")
    return out


def poisoned_alone(call: Call, turn: int, *, tile: int) -> dict[Path, Hostile]:
    """Put one kind of NaN or infinity into each tensor as a whole; over all turns each tensor gets each kind."""
    n = len(POISONED_ALONE)
    return {
        path: Hostile((POISONED_ALONE[(turn + index) % n],), run=tile) for index, (path, _) in enumerate(floating(call))
    }


def turns(call: Call) -> int:
    """Return how many turns `poisoned_alone` has: none that would be normal values only."""
    found = len(floating(call))
    return len(POISONED_ALONE) - (found == 1) if found else 0


def in_words(policies: Mapping[Path, Hostile]) -> str:
    """Name the families that fill whole tensors, each once, in the order of the tensors."""
    said = [IN_WORDS[policy.families[0]] for policy in policies.values()]
    return "; ".join(dict.fromkeys(said))


def _laid_out(
    families: tuple[Family, ...],
    path: Path,
    tensor: Tensor,
    groups: Sequence[Sequence[Place]],
    *,
    tile: int,
    several: bool,
) -> Hostile:
    long = [axis for axis, extent in enumerate(tensor.shape) if extent > 1]
    if len(long) < 2:
        run = max(2, min(tile, tensor.elements // len(families)))
        return Hostile(families, "runs", run=run)
    run = tile if tensor.shape[-1] > tile else max(1, min(tile, tensor.shape[-1] // 2))
    if several:
        # A dimension that no other tensor has is none that is reduced over: its families stay apart.
        own = [place.axis for group in groups for place in group if place.path == path and _only(group, path)]
        own = [axis for axis in own if tensor.shape[axis] > 1]
        if own:
            return Hostile(families, "axis", axis=own[0], run=run)
    return Hostile(families, "rows", run=run)


def _only(group: Sequence[Place], path: Path) -> bool:
    return all(place.path == path or place.axis < 0 for place in group)


def _is_zeros(tensor: Tensor) -> bool:
    return isinstance(tensor.values, Distribution) and tensor.values.kind == "zeros"
