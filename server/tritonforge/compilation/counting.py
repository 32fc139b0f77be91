"""What each operation of a walk through the first IR adds to the sums of its line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.compilation.accesses import moved_bytes
from tritonforge.compilation.locations import Locations
from tritonforge.compilation.mlir import Operation, Type, read_types
from tritonforge.compilation.tally import LineTally, Tally
from tritonforge.compilation.values import UNKNOWN, Environment
from tritonforge.domain.launch import RecordedLaunch, Tensor

_LOADS = {"tt.load", "tt.descriptor_load", "tt.experimental_descriptor_load", "tt.descriptor_gather"}
_STORES = {"tt.store", "tt.descriptor_store", "tt.experimental_descriptor_store", "tt.descriptor_scatter"}
_ATOMICS = {"tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce"}
# What the special-function units or a slow sequence around them compute.
_SPECIAL = {
    "math.exp", "math.exp2", "math.log", "math.log2", "math.sin", "math.cos", "math.tanh", "math.sqrt", "math.rsqrt",
    "math.erf", "math.powf", "math.log1p", "math.expm1", "tt.precise_sqrt", "tt.precise_divf", "arith.divf",
    "arith.remf", "tt.extern_elementwise",
}  # fmt: skip
MASKS = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}
"""Where the mask stands among the operands of an access."""
_FREE = {"arith.constant", "arith.bitcast", "arith.index_cast"}


@dataclass
class Walk:
    """Where a walk through one program is, and what it has added up to."""

    launch: RecordedLaunch
    locations: Locations
    functions: Mapping[str, Operation]
    program: tuple[int, int, int]
    tensors: Mapping[str, Tensor]
    tally: Tally = field(default_factory=Tally)
    depth: int = 0
    uncertain: int = 0
    """How many loops and branches around the present place run an unknown number of times."""
    last: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """Of masked accesses, what share of lanes is on in the last iteration of each loop around, innermost last, and what
    part of the iterations that is."""
    shares: dict[int, float] = field(default_factory=dict)
    """Of masked accesses, what share of lanes is on, all iterations together."""


def line_of(operation: Operation, walk: Walk, times: float) -> LineTally | None:
    """Return the sums of an operation's line, on which it runs `times` times; None when no line is the user's."""
    number = walk.locations.line(operation.location)
    if number is None:
        return None
    line = walk.tally.lines[number]
    line.executions = max(line.executions, times)
    line.exact = line.exact and not walk.uncertain
    return line


def count(operation: Operation, env: Environment, walk: Walk, times: float) -> None:
    """Add an operation without regions of control flow, which runs `times` times, to its line."""
    if operation.name in _FREE:
        return
    line = line_of(operation, walk, times)
    if line is None:
        line = LineTally()  # of no line of the user's: seen, not charged
    kind = operation.type()
    if operation.name in _LOADS or operation.name in _STORES or operation.name in _ATOMICS:
        _access(operation, env, walk, line, times)
    elif operation.name.startswith("tt.dot"):
        _dot(operation, walk, line, times)
    elif operation.regions:  # tt.reduce, tt.scan, tt.map_elementwise: one combination for each element
        first = operation.type(0)
        line.alu_ops += times * (first.elements if first else 1)
    elif kind is None:
        return
    elif operation.name in _SPECIAL:
        line.special_ops += times * kind.elements
    elif operation.name.startswith(("arith.", "math.", "tt.clampf", "tt.mulhiui", "tt.fp_to_fp")):
        line.alu_ops += times * kind.elements


def _access(operation: Operation, env: Environment, walk: Walk, line: LineTally, times: float) -> None:
    operands = operation.operands
    address = env.get(operands[0], UNKNOWN) if operands else UNKNOWN
    types = read_types(operation.types)
    block = _accessed_type(operation, types)
    if block is None:
        walk.tally.exact = False
        return
    size = block.elements * block.size * times
    masked = MASKS.get(operation.name)
    mask = env.get(operands[masked], UNKNOWN) if masked is not None and len(operands) > masked else None
    share = 1.0 if mask is None or mask.share is None else mask.share
    if mask is not None:
        walk.tally.masks_vary = walk.tally.masks_vary or mask.varies
        for other, part in reversed(walk.last.get(id(operation), ())):
            share = share * (1 - part) + other * part
        walk.shares[id(operation)] = share
    line.accessed += size
    line.unmasked += size * share
    if address.pointer:
        line.pointers.add(address.pointer)
    if "descriptor" in operation.name or (not block.shape and times > 1):
        # A descriptor moves whole rows; neighbours of a scalar that a loop walks over are still in L1.
        moved = block.elements * block.size
    else:
        moved = moved_bytes(address, block)
    line.moved_bytes += moved * share * times
    if operation.name in _LOADS:
        line.load_bytes += size
    elif operation.name in _STORES:
        line.store_bytes += size
    else:
        line.atomic_ops += block.elements * share * times
        tensor = walk.tensors.get(address.pointer or "")
        if tensor is not None:
            line.atomic_targets = max(line.atomic_targets, float(tensor.elements))


def _accessed_type(operation: Operation, types: Sequence[Type]) -> Type | None:
    if operation.name in {"tt.descriptor_load", "tt.experimental_descriptor_load", "tt.descriptor_gather"}:
        return types[-1] if types else None
    pointers = [t for t in types if t.pointer]
    return pointers[0] if pointers else types[-1] if types else None


def _dot(operation: Operation, walk: Walk, line: LineTally, times: float) -> None:
    types = read_types(operation.types)
    if len(types) < 3 or len(types[0].shape) < 2 or not types[-1].shape:
        walk.tally.exact = False
        return
    k = types[0].shape[-1]
    if operation.name == "tt.dot_scaled" and "e2m1" in operation.text:
        k *= 2  # two values to a byte
    result = types[-1]
    flops = 2.0 * result.elements * k
    line.dot_flops += flops * times
    tile = (result.shape[-2], result.shape[-1], k)
    if walk.tally.dot is None or flops > walk.tally.dot[0]:
        walk.tally.dot = (flops, tile, _dot_dtype(operation, types[0].element))


def _dot_dtype(operation: Operation, element: str) -> str:
    if element == "f32":
        precision = re.search(r"inputPrecision = (\w+)", operation.text)
        return "tf32" if precision and precision[1].startswith("tf32") else "fp32"
    if element.startswith("f8"):
        return "fp8"
    return {"f16": "fp16", "bf16": "bf16", "f64": "fp64", "i8": "int8", "ui8": "int8"}.get(element, element)
