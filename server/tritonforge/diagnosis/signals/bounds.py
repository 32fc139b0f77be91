"""Accesses without a mask that go beyond their tensor."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.reaching import extremes, room
from tritonforge.domain.kernel import Access
from tritonforge.domain.launch import Tensor
from tritonforge.domain.semantics import Extreme


@dataclass(frozen=True)
class Overrun:
    """`extreme` goes beyond the `elements` that lie behind its pointer, or before it."""

    extreme: Extreme
    tensor: Tensor
    elements: int


def overruns(case: Case) -> tuple[Overrun, ...]:
    """Return the unmasked accesses of the compiled launch that leave their tensor, one for each line and pointer."""
    found: list[Overrun] = []
    for extreme, tensor in extremes(case):
        elements = room(case, extreme.pointer)
        if extreme.masked or not elements:
            continue
        before = extreme.lowest < 0 and tensor.offset + extreme.lowest < 0
        if extreme.highest >= elements or before:
            found.append(Overrun(extreme, tensor, elements))
    return tuple(found)


@dataclass(frozen=True)
class Unmasked:
    """`access` has no mask, while `other` at the same offsets has one."""

    access: Access
    other: Access


def unmasked_beside_masked(case: Case) -> tuple[Unmasked, ...]:
    """Return block accesses without a mask at offsets that another access of the kernel masks, as far as text shows.

    Silent where the same pointer is also accessed with a mask: one of the two is a specialised path.
    """
    kernel = case.kernel
    found = []
    masked = [a for a in kernel.accesses if a.mask is not None and "boundary_check" not in a.mask and a.block]
    for access in kernel.accesses:
        if access.mask is not None or not access.block or access.pointer is None:
            continue
        if any(m.pointer == access.pointer for m in masked):
            continue
        mine = _offsets(access)
        other = next((m for m in masked if mine is not None and _offsets(m) == mine), None)
        if other is not None:
            found.append(Unmasked(access, other))
    return tuple(found)


def _offsets(access: Access) -> str | None:
    """The text of an address without its pointer: `x_ptr + offs` → `offs`."""
    head, plus, rest = access.address.partition("+")
    return "".join(rest.split()) if plus and head.strip() == access.pointer else None
