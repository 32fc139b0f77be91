"""Remembers what a program's last calls returned: a later call must leave that alone.

A host function that keeps its output buffer for the next call computes right results, one at a time: whoever still
holds the last one sees it change.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

import torch

from tritonforge.worker.outcomes import flatten, same_bits

_CALLS = 4
_LARGEST_BYTES = 4 << 20
_PROGRAMS = 4


class Earlier:
    """The last few results of one program, each with a copy of what it held when it was returned."""

    def __init__(self) -> None:
        self._kept: deque[list[tuple[str, Any, Any]]] = deque(maxlen=_CALLS)
        self._changed = ""

    def note(self, result: Any) -> str:
        """Keep a call's result, and return the path of an earlier one that has changed since it was returned.

        Once there was one, it stays: a program that does so once does so on purpose.
        """
        for one in self._kept:
            self._changed = self._changed or next((p for p, kept, copy in one if not same_bits(kept, copy)), "")
        returned = [(p, t.detach()) for p, t in flatten(result, "returned") if isinstance(t, torch.Tensor)]
        small = [(p, t) for p, t in returned if t.layout == torch.strided and t.nbytes <= _LARGEST_BYTES]
        self._kept.append([(path, tensor, tensor.clone()) for path, tensor in small])
        return self._changed

    def has_any_of(self, tensors: list[Any]) -> bool:
        """Tell whether a tensor is in memory that an earlier call has returned, and that is kept here since."""
        kept = {t.untyped_storage().data_ptr() for one in self._kept for _, t, _ in one if t.numel()}
        return any(t.untyped_storage().data_ptr() in kept for t in tensors if t.numel())


_known: OrderedDict[str, Earlier] = OrderedDict()


def earlier_of(digest: str) -> Earlier:
    """Return what is remembered of the program with that digest."""
    found = _known.pop(digest, None) or Earlier()
    _known[digest] = found
    while len(_known) > _PROGRAMS:
        _known.popitem(last=False)
    return found
