"""Extents too small to count as sizes (channels, heads, taps): other ones, of which the original is asked.

Those of one extent change together, as one meaning does. But a batch may be as long as a row of taps by chance, and a
state be one shorter than the taps that it is for: each also changes alone, and with what is one longer or shorter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tritonforge.domain.launch import Call
from tritonforge.verify.grouping import Groups, meanings
from tritonforge.verify.resizing import Place, resize

_MAX_MEANINGS = 3
_MAX_ALONE = 6
_MAX_PAIRS = 6


def other_extents(call: Call, groups: Groups, little: Sequence[int]) -> Iterator[tuple[str, Call]]:
    """Yield inputs with other small extents, and in words which.

    Args:
        call: the recorded call.
        groups: which of its sizes change together.
        little: the size of each group.
    """
    chosen = groups.sized(little)
    found = meanings(call, groups)

    def made(changed: dict[Place, int]) -> Call:
        return resize(call, {**chosen, **changed}, seed=call.seed)

    for group in found[:_MAX_MEANINGS]:
        for new in (group[0].size + 1, 1):
            yield f"an extent of {group[0].size} is {new}", made(dict.fromkeys(group, new))
    alone = [place for group in found if len(group) > 1 for place in group if place.axis >= 0]
    for place in alone[:_MAX_ALONE]:
        # Less of one is within bounds more often than more of it.
        new = place.size - 1
        yield f"{_named(place)} is {new}", made({place: new})
    pairs = [(a, b) for one, other in itertools.permutations(found, 2) for a in one for b in other]
    beside = [(a, b) for a, b in pairs if a.size == b.size + 1 and min(a.axis, b.axis) >= 0]
    for first, second in beside[:_MAX_PAIRS]:
        words = f"{_named(first)} is {first.size + 1} and {_named(second)} {second.size + 1}"
        yield words, made({first: first.size + 1, second: second.size + 1})


def _named(place: Place) -> str:
    return f"dimension {place.axis} of argument {place.path[0]}"
