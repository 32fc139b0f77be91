"""Accesses that move less with one instruction than the addresses of the launch would allow."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import item_bytes, program_lanes
from tritonforge.diagnosis.signals.pace import has_headroom, pace
from tritonforge.domain.blocks import GlobalAccess

_NARROW = 4
"""Bytes of one lane's access up to which it is narrow: from 8 on the difference to 16 was never worth the trouble."""
_SHARE = 0.5
_ASYNC_BYTES = 4
"""The least that one asynchronous copy moves (PTX, cp.async)."""


@dataclass(frozen=True)
class NarrowAccess:
    """`access` moves `lane_bytes` with each instruction where `possible` would do; such accesses move `share` (0–1).

    `blocks_copies`: it is so narrow that the loads of a dot cannot become asynchronous copies.
    """

    access: GlobalAccess
    possible: int
    share: float
    blocks_copies: bool


def narrow_access(case: Case) -> NarrowAccess | None:
    """Return the narrow access that moves the most bytes, where narrow ones move a good part of them all.

    Silent without headroom, where arithmetic sets the pace, for gathers, for blocks so small that a lane has no
    neighbours to take along, for lanes that repeat each other, and where the addresses themselves are not aligned.
    """
    compiled = case.compiled
    if compiled is None or not compiled.accesses or not has_headroom(case):
        return None
    lanes = program_lanes(case)
    moved = {index: _bytes(access) for index, access in enumerate(compiled.accesses)}
    everything = sum(moved.values())
    narrow = {i: p for i, access in enumerate(compiled.accesses) if (p := _possible(access, lanes)) is not None}
    if not narrow or not everything:
        return None
    share = sum(moved[i] for i in narrow) / everything
    worst = max(narrow, key=lambda i: moved[i])
    access = compiled.accesses[worst]
    copies = _blocks_copies(case, access, narrow[worst])
    if not copies and (share < _SHARE or pace(case) in {"alu", "shared", "special", "tensor", "spill", "atomic"}):
        return None
    return NarrowAccess(access, narrow[worst], share, copies)


def _bytes(access: GlobalAccess) -> float:
    return prod(access.shape) * item_bytes(access.dtype) * (access.executions or 1.0)


def _possible(access: GlobalAccess, lanes: int) -> int | None:
    """Bytes that a lane could move at once; None when the access is not narrow, or could not be wider."""
    width, widest = access.lane_bytes, access.widest_bytes
    if width is None or widest is None or width > _NARROW or not access.shape or access.data_dependent is not False:
        return None
    if access.kind not in {"load", "store"} or (access.replicas or 1) > 1:
        return None
    each = prod(access.shape) * item_bytes(access.dtype) // lanes
    possible = min(widest, 1 << max(0, each.bit_length() - 1))
    return possible if possible >= 2 * width and possible > _NARROW else None


def _blocks_copies(case: Case, access: GlobalAccess, possible: int) -> bool:
    """Whether the loads of a loop with dots wait only because one instruction moves less than a copy needs."""
    loops = case.compiled.loops if case.compiled is not None else None
    if access.kind != "load" or (access.lane_bytes or 0) >= _ASYNC_BYTES or possible < _ASYNC_BYTES:
        return False
    return any(loop.line == access.loop and loop.dots and loop.waits_for_loads for loop in loops or ())
