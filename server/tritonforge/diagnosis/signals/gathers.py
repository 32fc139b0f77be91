"""Accesses whose every element is at a place that was loaded, and how near each other the recorded places are."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import numpy as np

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import SECTOR
from tritonforge.diagnosis.facts import WARP_LANES, item_bytes, tensors
from tritonforge.diagnosis.signals.pace import has_headroom
from tritonforge.domain.kernel import Access
from tritonforge.domain.launch import ExactValues, Tensor

_SPREAD = 2.0
"""Sectors touched ÷ sectors needed from which the places are far apart."""
_SHARE = 0.2
"""Share of a program's traffic below which a gather is not worth a word."""
_PLAIN = re.compile(r"\w+ \+ \w+")
"""An address in which the loaded index counts elements."""


@dataclass(frozen=True)
class Gather:
    """`access` goes where `indexes` say. `spread` is sectors touched ÷ needed by the recorded values (None: unknown).

    `share` (0–1) of a program's traffic goes through it, None without a compilation.
    """

    access: Access
    spread: float | None
    share: float | None


def gathers(case: Case) -> tuple[Gather, ...]:
    """Return the accesses whose elements are scattered; whole rows at a loaded place are as good as any.

    Silent where the recorded indices are near each other, where little goes through the access, and without headroom.
    """
    found = []
    for access in case.kernel.accesses:
        if access.indirect != "elements" or access.block is not True:
            continue
        if case.compilation is not None and not has_headroom(case):
            continue
        share, spread = _share(case, access), _spread(case, access)
        if (share is not None and share < _SHARE) or (spread is not None and spread < _SPREAD):
            continue
        found.append(Gather(access, spread, share))
    return tuple(found)


def _share(case: Case, access: Access) -> float | None:
    work = case.compiled.work if case.compiled is not None else None
    if work is None:
        return None
    everything = sum(line.moved_bytes for line in work.lines.values())
    lines = range(access.range.start.line, access.range.end.line + 1)
    here = sum(work.lines[n].moved_bytes for n in lines if n in work.lines)
    return here / everything if everything else None


def _spread(case: Case, access: Access) -> float | None:
    """Sectors that a warp of neighbouring recorded indices touches ÷ those that its bytes need, on average."""
    known = tensors(case.launch)
    data = known.get(access.pointer or "")
    if data is None or len(access.indexes) != 1 or not _PLAIN.fullmatch(access.address.strip()):
        return None
    values = _integers(known.get(access.indexes[0]))
    if values is None or values.size < WARP_LANES:
        return None
    size = item_bytes(data.dtype)
    warps = (values[: values.size // WARP_LANES * WARP_LANES].reshape(-1, WARP_LANES) * size) // SECTOR
    ordered = np.sort(warps, axis=1)
    touched = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
    return float(touched.mean()) / max(1.0, WARP_LANES * size / SECTOR)


def _integers(tensor: Tensor | None) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    if tensor is None or not isinstance(tensor.values, ExactValues) or tensor.dtype not in {"int32", "int64"}:
        return None
    try:
        raw = np.frombuffer(zlib.decompress(tensor.values.data), dtype=tensor.dtype)
    except (zlib.error, ValueError):
        return None
    return raw.astype(np.int64)
