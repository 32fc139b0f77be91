"""What `ttgir` says of conversions between layouts, dots and atomics."""

from __future__ import annotations

import math
import re

from tritonforge.compilation.block_types import Context, buffer_address, place, pointed_types, read_blocks, sunk_place
from tritonforge.compilation.coalescing import distinct_addresses
from tritonforge.compilation.layouts import kind_of, resolved
from tritonforge.compilation.moves import way_between
from tritonforge.compilation.ttgir import Seen
from tritonforge.compilation.values import UNKNOWN
from tritonforge.domain.blocks import Atomic, Conversion, Dot, DotPath, Ordering, Scope

_ORDERINGS: tuple[Ordering, ...] = ("acq_rel", "acquire", "release", "relaxed")
_SCOPES: tuple[Scope, ...] = ("gpu", "cta", "sys")
_ATOMICS = {"tt.atomic_rmw", "tt.atomic_cas", "amdg.buffer_atomic_rmw", "amdgpu.buffer_atomic_rmw"}
_DOTS: dict[str, DotPath | None] = {
    "tt.dot": None, "tt.dot_scaled": None, "ttng.warp_group_dot": "wgmma", "ttng.tc_gen5_mma": "tcgen05",
    "ttng.tc_gen5_mma_scaled": "tcgen05",
}  # fmt: skip
_PATHS: dict[str, DotPath] = {"mma": "mma", "mfma": "mfma", "wmma": "wmma", "blocked": "fma"}


def conversion(seen: Seen, context: Context, *, shared: bool | None) -> Conversion | None:
    """Return the move between layouts that an operation is, or None for other operations.

    `shared` tells whether the line's machine instructions use shared memory for it: None when that cannot be told from
    other uses on the line.
    """
    if seen.name != "ttg.convert_layout":
        return None
    blocks = read_blocks(seen.operation.types)
    if len(blocks) != 2:
        return None
    source, target = blocks
    loop, executions = sunk_place(seen, context)
    through = way_between(context.layout(source), context.layout(target))
    if through == "shuffle" and shared:
        through = "shared"  # older versions go through shared memory for what later ones shuffle
    elif through == "shared" and shared is False:
        through = None
    elif through is None and shared:
        through = "shared"
    size = 8.0 if source.pointer else source.size
    return Conversion(
        seen.line,
        kind_of(source.encoding, context.aliases),
        kind_of(target.encoding, context.aliases),
        f"ptr<{source.element}>" if source.pointer else source.element,
        source.shape,
        math.prod(source.shape) * size,
        loop,
        executions,
        through,
    )


def dot(seen: Seen, context: Context) -> Dot | None:
    """Return the matrix product that an operation is, or None for other operations."""
    if seen.name not in _DOTS:
        return None
    blocks = read_blocks(seen.operation.types)
    if len(blocks) < 3:
        return None
    a, b = blocks[0], blocks[1]
    result = blocks[2] if _DOTS[seen.name] == "tcgen05" else blocks[-1]
    if min(len(a.shape), len(b.shape), len(result.shape)) < 2:
        return None
    loop, executions = place(seen, context)
    parent = resolved(result.encoding, context.aliases)
    path = _DOTS[seen.name]
    if path is None:
        path = _PATHS.get(kind_of(result.encoding, context.aliases))
        if path == "mma" and "versionMajor = 3" in parent:
            path = "wgmma"
    shape = re.search(r"instrShape = \[([\d, ]+)\]", parent)
    return Dot(
        seen.line,
        path,
        (result.shape[-2], result.shape[-1], a.shape[-1]),
        a.element,
        b.element,
        result.element,
        loop,
        executions,
        tuple(int(n) for n in shape[1].split(",")) if shape else (),
        "memdesc" in _nth_type(seen.operation.types, 0) and "tensor_memory" not in a.encoding,
        "memdesc" in _nth_type(seen.operation.types, 1),
        path == "tcgen05" or "isAsync = true" in seen.operation.text if path in {"wgmma", "tcgen05"} else False,
    )


def atomic(seen: Seen, context: Context) -> Atomic | None:
    """Return the atomic operation that an operation is, or None for other operations."""
    if seen.name not in _ATOMICS:
        return None
    blocks = read_blocks(seen.operation.types)
    buffered = "buffer_" in seen.name
    block = next((b for b in blocks if b.pointer or (buffered and b.shape)), None)
    words = re.split(r"[,\s]+", seen.operation.text.split("%")[0])
    address = buffer_address(seen) if buffered else seen.values[0] if seen.values else UNKNOWN
    loop, executions = place(seen, context)
    named = [word for word in words if word and word not in _ORDERINGS and word not in _SCOPES]
    return Atomic(
        seen.line,
        "cas" if seen.name == "tt.atomic_cas" else named[0] if named else "",
        block.element if block else (pointed_types(seen) or [""])[0],
        block.shape if block else (),
        next((ordering for ordering in _ORDERINGS if ordering in words), None),
        next((scope for scope in _SCOPES if scope in words), None),
        address.pointer,
        loop,
        executions,
        any(result in context.used for result in seen.operation.results),
        1 if block is None or not block.shape else distinct_addresses(address),
    )


def _nth_type(types: str, index: int) -> str:
    parts = re.split(r"\s(?:\*|->)\s|, (?=!|tensor)", types)
    return parts[index] if index < len(parts) else ""
