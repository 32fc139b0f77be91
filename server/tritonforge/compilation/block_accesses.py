"""Accesses of blocks in global and shared memory: widths, coalescing, bank conflicts."""

from __future__ import annotations

import re

from tritonforge.compilation.banks import conflict_ways, read_offsets
from tritonforge.compilation.block_types import (
    Block,
    Context,
    buffer_address,
    place,
    pointed_types,
    read_blocks,
    sunk_place,
)
from tritonforge.compilation.coalescing import WIDEST, sectors_of, widest_bytes
from tritonforge.compilation.layouts import Layout, kind_of, resolved
from tritonforge.compilation.mlir import element_bytes
from tritonforge.compilation.ttgir import ASYNC_COPIES, BULK_LOADS, Seen
from tritonforge.compilation.values import UNKNOWN, Known
from tritonforge.domain.blocks import AccessKind, GlobalAccess, SharedAccess, SharedKind

_STORES = {"tt.store", "amdg.buffer_store", "amdgpu.buffer_store"}
_LOADS = {"tt.load", "amdg.buffer_load", "amdgpu.buffer_load"}
_ATOMICS = {"tt.atomic_rmw", "tt.atomic_cas", "amdg.buffer_atomic_rmw", "amdgpu.buffer_atomic_rmw"}
_BULK_STORES = {
    "ttng.async_tma_copy_local_to_global", "ttng.async_tma_scatter", "amdg.async_tdm_copy_local_to_global",
    "tt.descriptor_store", "tt.experimental_descriptor_store", "tt.descriptor_scatter",
}  # fmt: skip
_BULK_REDUCTIONS = {"ttng.async_tma_reduce", "tt.descriptor_reduce"}


def global_access(seen: Seen, context: Context, width: int | None = None) -> GlobalAccess | None:
    """Return the access that a load, store, atomic or copy makes, or None for other operations.

    `width` is what one lane moves with an instruction, where that is known from elsewhere.
    """
    kind = _kind(seen.name)
    if kind is None:
        return None
    blocks = read_blocks(seen.operation.types)
    loop, executions = place(seen, context)
    address = seen.values[0] if seen.values else UNKNOWN
    if kind.startswith("bulk"):
        if kind != "bulk-load" and "tma_copy" not in seen.name and len(blocks) > 1:
            blocks = blocks[-1:]
        block = next((b for b in reversed(blocks) if b.element != "i64"), None)
        if block is None:
            return None
        return GlobalAccess(
            seen.line, kind, address.pointer, block.element, block.shape, loop, executions, data_dependent=False
        )
    if "buffer_" in seen.name:
        address = buffer_address(seen)
        block = next((b for b in blocks if b.shape), None)
    else:
        block = next((b for b in blocks if b.pointer), None)
    if block is None:
        return _scalar_access(seen, kind, address, context)
    layout = context.layout(block)
    layout = context.layout(block)
    lane_bytes = width or _lane_bytes(seen, kind, address, block, context)
    if lane_bytes is not None and lane_bytes % block.size:
        lane_bytes = None
    sectors = None
    if layout is not None and lane_bytes and len(address.strides) == len(block.shape):
        sectors = sectors_of(address, layout, block.size, lane_bytes)
    return GlobalAccess(
        seen.line,
        kind,
        address.pointer,
        block.element,
        block.shape,
        loop,
        executions,
        lane_bytes,
        None if kind == "atomic" else _widest(address, layout, block, lane_bytes, context),
        _masked(seen, kind, context),
        sectors.sectors if sectors is not None else None,
        sectors.sectors_needed if sectors is not None else None,
        sectors.overfetch if sectors is not None else None,
        layout.replicas if layout is not None else None,
        address.loaded,
    )


def _lane_bytes(seen: Seen, kind: AccessKind, address: Known, block: Block, context: Context) -> int | None:
    """Return the width that newer versions write at an asynchronous copy, else that of the line's instructions."""
    said = re.search(r"contiguity = (\d+)", seen.operation.text)
    if said and kind == "async-copy":
        return min(WIDEST, int(int(said[1]) * block.size))
    written = context.widths.get((seen.line, kind), frozenset())
    if len(written) == 1:
        return next(iter(written))
    scattered = all(stride is None for stride, n in zip(address.strides, block.shape, strict=False) if n > 1)
    return int(block.size) if scattered and block.size in written else None


def _widest(
    address: Known, layout: Layout | None, block: Block, lane_bytes: int | None, context: Context
) -> int | None:
    if len(address.strides) != len(block.shape) or (not address.loaded and None in address.strides):
        return None
    tensor = context.tensors.get(address.pointer or "")
    widest = widest_bytes(address, address.divisor, tensor.alignment if tensor else WIDEST, layout, block.size)
    return max(widest, lane_bytes or 0) if widest is not None else None


def shared_access(seen: Seen, context: Context) -> SharedAccess | None:
    """Return the access to shared memory that lanes make by an operation, or None for other operations."""
    blocks = read_blocks(seen.operation.types)
    kind: SharedKind
    if seen.name == "ttg.local_load" and len(blocks) >= 2:
        kind, memory, registers = "load", blocks[0], blocks[-1]
    elif seen.name in {"ttg.local_store", "ttg.local_alloc"} and len(blocks) == 2:
        kind, memory, registers = "store", blocks[1], blocks[0]
    elif seen.name in ASYNC_COPIES and len(blocks) >= 2:
        kind, memory, registers = "async-copy", blocks[-1], blocks[0]
    else:
        return None
    if not memory.shape or memory.shape != registers.shape:
        return None
    loop, executions = sunk_place(seen, context)
    layout = context.layout(registers)
    offset = read_offsets(memory.encoding, memory.shape, context.aliases, memory.size)
    ways = None
    if layout is not None and offset is not None:
        matrix = _transposed_matrix(registers, memory, context)
        ways = round(conflict_ways(layout, offset, memory.size, banks=context.banks, matrix=matrix), 3)
    memory_layout = kind_of(memory.encoding, context.aliases)
    return SharedAccess(seen.line, kind, memory.element, memory.shape, memory_layout, loop, executions, ways)


def _kind(name: str) -> AccessKind | None:
    if name in _LOADS:
        return "load"
    if name in _STORES:
        return "store"
    if name in ASYNC_COPIES:
        return "async-copy"
    if name in _ATOMICS:
        return "atomic"
    if name in BULK_LOADS:
        return "bulk-load"
    return "bulk-store" if name in _BULK_STORES else "bulk-reduce" if name in _BULK_REDUCTIONS else None


def _scalar_access(seen: Seen, kind: AccessKind, address: Known, context: Context) -> GlobalAccess | None:
    types = pointed_types(seen)
    if not types:
        return None
    size = int(element_bytes(types[0]))
    loop, executions = place(seen, context)
    masked = _masked(seen, kind, context)
    return GlobalAccess(
        seen.line, kind, address.pointer, types[0], (), loop, executions, size, size, masked, 1.0, 1.0, 1.0, None,
        address.loaded,
    )  # fmt: skip


def _masked(seen: Seen, kind: AccessKind, context: Context) -> bool | None:
    if kind == "async-copy":  # pipelining adds a mask of its own
        return seen.line in context.masked if context.masked is not None else None
    if "buffer_" in seen.name:
        return re.search(r"\]\s*,\s*%", seen.operation.text) is not None
    at = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}.get(seen.name)
    if at is None:
        return None
    if len(seen.values) <= at:
        return False
    mask = seen.values[at]
    return mask.share != 1.0 or mask.varies or (seen.loop is not None and seen.line in (context.masked or ()))


def _transposed_matrix(registers: Block, memory: Block, context: Context) -> int | None:
    """Return the dimension along which an operand is read through `ldmatrix` with a transpose, or None."""
    text = resolved(registers.encoding, context.aliases)
    if "dot_op<" not in text or memory.size != 2 or len(memory.shape) != 2:
        return None
    parent = re.search(r"parent = (#\w+)", text)
    if parent is None or kind_of(parent[1], context.aliases) != "mma":
        return None
    summed = 1 if "opIdx = 0" in text else 0
    order = re.search(r"order = \[(\d)", resolved(memory.encoding, context.aliases))
    fast = int(order[1]) if order else 0 if "transposed = true" in resolved(memory.encoding, context.aliases) else 1
    return summed if fast != summed else None
