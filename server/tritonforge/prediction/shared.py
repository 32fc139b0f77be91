"""How long shared memory is busy: wavefronts of 128 bytes, one a cycle, more where banks conflict."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from tritonforge.domain.compilation import Compilation

_WARP = 32
_WAVE = 128
_UNKNOWN = 2.0
"""Wavefronts of a request whose width is not known: 128-bit ones take four, 32-bit ones one."""
_BYTES = {"i1": 1, "i8": 1, "f16": 2, "bf16": 2, "i16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8}
_KINDS = {"load": "load_shared", "store": "store_shared", "async-copy": "async_copy"}


def element_bytes(dtype: str) -> int:
    """Return the bytes of one element of an MLIR type; 1 for 8-bit floats, 4 when the name says nothing."""
    return 1 if dtype.startswith("f8") else _BYTES.get(dtype, 4)


def wavefronts(compilation: Compilation, executed: Mapping[int, Mapping[str, float]]) -> float:
    """Return the cycles that one program keeps shared memory busy: lanes' requests, and operands of wgmma."""
    moved: defaultdict[tuple[int, str], float] = defaultdict(float)
    busy: defaultdict[tuple[int, str], float] = defaultdict(float)
    for access in compilation.shared_accesses or ():
        size = math.prod(access.shape) * element_bytes(access.dtype) * (access.executions or 1.0)
        place = access.line, _KINDS[access.kind]
        moved[place] += size
        busy[place] += size * (access.ways or 1.0)
    total = 0.0
    for line, kinds in executed.items():
        for kind in _KINDS.values():
            requests = kinds.get(kind, 0.0)
            place = line, kind
            if not requests or (kind == "async_copy" and place not in moved):
                continue
            if place not in moved:
                total += requests * _UNKNOWN
                continue
            each = min(4.0, max(1.0, moved[place] / requests / _WAVE))
            total += requests * each * busy[place] / moved[place]
    return total + _operands(compilation)


def _operands(compilation: Compilation) -> float:
    """Cycles in which the matrix unit reads its operands: B for every 64 rows, A for every N of one instruction."""
    total = 0.0
    for dot in compilation.dots or ():
        if dot.path != "wgmma":
            continue
        m, n, k = dot.tile
        columns = next(iter(dot.instruction[1:2]), n) or n
        a = m * k * element_bytes(dot.a_dtype) * max(1.0, n / columns) if dot.a_shared is not False else 0.0
        b = n * k * element_bytes(dot.b_dtype) * max(1.0, m / 64)
        total += (a + b) / _WAVE * (dot.executions or 1.0)
    return total
