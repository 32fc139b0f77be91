"""What a run of a program left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tritonforge.worker.interpreter.poison import Poison
from tritonforge.worker.seen import Seen


@dataclass
class Outputs:
    """What a run left: named tensors (detached copies), other named values, and which arguments it changed."""

    tensors: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    """The tensors that were arguments."""
    poison: Poison | None = None
    launches: int = 0
    overwrites: str = ""
    """The returned tensor of an earlier call that this call changed, if any."""
    wide: dict[str, Any] = field(default_factory=dict)
    """The floating tensors in float64, where the run computed in it."""
    seen: Seen | None = None
    """What was seen of the run, where it was watched."""
    arithmetic: frozenset[str] = frozenset()
    """Triton's names of the floating types that kernels computed with, where that was followed."""
    operations: int = 0
    """How many operations on blocks the run took, where they are interpreted."""

    def is_narrow(self, name: str) -> bool:
        """Tell whether a floating output has fewer than 64 bits."""
        return name in self.tensors and bool(self.tensors[name].dtype != torch.float64)

    @property
    def unwritten(self) -> int:
        """Return how many elements were left unwritten, in what was returned and in arguments that were changed."""
        if self.poison is None:
            return 0
        # A byte looks like poison now and then.
        own = (t for n, t in self.tensors.items() if n not in self.given or n in self.changed)
        return sum(int(self.poison.where(tensor).sum()) for tensor in own if tensor.dtype.itemsize > 1)

    @property
    def n_bytes(self) -> int:
        """Return how much memory the tensors take."""
        return sum(t.numel() * t.element_size() for d in (self.tensors, self.wide) for t in d.values())


def flatten(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a returned value with their paths."""
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from flatten(item, f"{path}[{i}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{path}.{key}")
    elif value is not None:
        yield path, value


def same_bits(a: Any, b: Any) -> bool:
    """Compare bit patterns, so that NaNs equal themselves."""
    if a.numel() == 0:
        return True
    if a.dtype.is_complex:
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.dtype.itemsize]
    return bool(torch.equal(a.view(kind), b.view(kind)))


def is_nan(values: Any) -> Any:
    """Return a mask of the NaNs, of any dtype."""
    return torch.isnan(values) if values.dtype.is_floating_point else torch.zeros_like(values, dtype=torch.bool)


def identical(want: Outputs, got: Outputs) -> bool:
    """Tell whether all outputs are the same to the last bit, but for memory that both leave unwritten."""
    if set(want.tensors) != set(got.tensors) or want.values != got.values:
        return False
    for name, w in want.tensors.items():
        g = got.tensors[name]
        if tuple(w.shape) != tuple(g.shape) or w.dtype != g.dtype:
            return False
        if w.numel() == 0 or (not w.dtype.is_complex and same_bits(w.contiguous(), g.contiguous())):
            continue
        if want.poison is None or got.poison is None or w.dtype.is_complex:
            return False
        both = want.poison.where(w) & got.poison.where(g)
        if not bool((both | (w == g) | (is_nan(w) & is_nan(g))).all()):
            return False
    return True
