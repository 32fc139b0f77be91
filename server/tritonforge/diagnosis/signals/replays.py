"""Kernels that an autotuner runs again and again on the same buffers, although a run changes what the next reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import tensors
from tritonforge.diagnosis.signals.reaching import happens
from tritonforge.domain.kernel import Autotune, Kernel, Reach

_ADDING = frozenset(["atomic_add", "atomic_xor"])
"""Atomics that give another result when they are repeated; a maximum, say, does not."""


@dataclass(frozen=True)
class Accumulating:
    """What `reach` does to `pointer` adds up over runs: an atomic, or an update in place of what was read there."""

    reach: Reach
    pointer: str
    how: Literal["atomic", "in-place"]


def accumulating(case: Case) -> tuple[Accumulating, ...]:
    """Return what of an autotuned kernel is not restored between the runs that choose a configuration."""
    kernel = case.kernel
    tuner = kernel.autotune
    if tuner is None or len(tuner.configs) == 1 or tuner.hooks or tuner.computed or kernel.reaches is None:
        return ()
    same = _aliases(case)
    found: dict[str, Accumulating] = {}
    for reach in kernel.reaches:
        if len(reach.pointers) != 1 or not happens(case, reach):
            continue
        pointer = reach.pointers[0]
        names = same.get(pointer, frozenset([pointer]))
        if names & _restored(tuner) or pointer in found:
            continue
        if reach.name in _ADDING:
            if not _is_ticket(kernel, pointer):
                found[pointer] = Accumulating(reach, pointer, "atomic")
        elif reach.name == "store" and _is_read_before(kernel, reach, names):
            found[pointer] = Accumulating(reach, pointer, "in-place")
    return tuple(found.values())


def _restored(tuner: Autotune) -> frozenset[str]:
    return frozenset(tuner.reset_to_zero) | frozenset(tuner.restore_value)


def _aliases(case: Case) -> dict[str, frozenset[str]]:
    """Parameters that are given one and the same tensor in this launch."""
    groups: dict[str, frozenset[str]] = {}
    known = tensors(case.launch)
    for name, tensor in known.items():
        if tensor.buffer >= 0:
            groups[name] = frozenset(
                other for other, t in known.items() if (t.buffer, t.offset) == (tensor.buffer, tensor.offset)
            )
    return groups


def _is_ticket(kernel: Kernel, pointer: str) -> bool:
    """Tell whether a counter or lock is meant: the same buffer is also exchanged, compared or set by a plain store."""
    return any(
        pointer in reach.pointers and reach.name in {"atomic_xchg", "atomic_cas", "store"}
        for reach in kernel.reaches or ()
    )


def _is_read_before(kernel: Kernel, store: Reach, names: frozenset[str]) -> bool:
    """Tell whether what is there was read, at the same offsets, before this run stored anything to it."""
    writes = [r for r in kernel.reaches or () if r.name == "store" and names & set(r.pointers)]
    first = min((w.range for w in writes), key=lambda place: place.start)
    offsets = _offsets(kernel, store)
    return offsets is not None and any(
        len(r.pointers) == 1 and r.range.end <= first.end and _offsets(kernel, r) == offsets
        for r in kernel.reaches or ()
        if r.name == "load" and names & set(r.pointers)
    )


def _offsets(kernel: Kernel, reach: Reach) -> str | None:
    """The text of an address, without the pointer where that stands in front (`x + i` and `y + i` have the same)."""
    access = next((a for a in kernel.accesses if a.range == reach.range), None)
    if access is None:
        return None
    text = "".join(access.address.split())
    return next((text.removeprefix(f"{name}+") for name in reach.pointers if text.startswith(f"{name}+")), text)
