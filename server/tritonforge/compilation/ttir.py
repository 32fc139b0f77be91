"""What one program does, read from Triton's first IR: bytes, FLOPs, operations and trip counts per source line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tritonforge.compilation.accesses import moved_bytes
from tritonforge.compilation.locations import Frame, Locations, read_locations, user_line
from tritonforge.compilation.mlir import Operation, Type, read_operations, read_types
from tritonforge.compilation.tally import LineTally, Tally, combine
from tritonforge.compilation.values import UNKNOWN, Environment, Known, evaluate, unknown_block
from tritonforge.domain.compilation import Work
from tritonforge.domain.launch import RecordedLaunch, Scalar, Tensor

GUESSED_TRIPS = 8.0
"""Trip count of a loop whose bounds cannot be known before it runs; `Work.exact` is false then."""

_LOADS = {"tt.load", "tt.descriptor_load", "tt.experimental_descriptor_load", "tt.descriptor_gather"}
_STORES = {"tt.store", "tt.descriptor_store", "tt.experimental_descriptor_store", "tt.descriptor_scatter"}
_ATOMICS = {"tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce"}
# What the special-function units or a slow sequence around them compute.
_SPECIAL = {
    "math.exp", "math.exp2", "math.log", "math.log2", "math.sin", "math.cos", "math.tanh", "math.sqrt", "math.rsqrt",
    "math.erf", "math.powf", "math.log1p", "math.expm1", "tt.precise_sqrt", "tt.precise_divf", "arith.divf",
    "arith.remf", "tt.extern_elementwise",
}  # fmt: skip
_FREE = {"arith.constant", "arith.bitcast", "arith.index_cast"}


@dataclass
class _Walk:
    launch: RecordedLaunch
    locations: Locations
    functions: Mapping[str, Operation]
    program: tuple[int, int, int]
    tensors: Mapping[str, Tensor]
    tally: Tally = field(default_factory=Tally)
    depth: int = 0
    uncertain: int = 0
    """How many loops and branches around the present place run an unknown number of times."""


def read_work(ttir: str, launch: RecordedLaunch, file: str) -> Work | None:
    """Return what one program of `launch` does, or None when the text holds no function.

    Scalars come from the launch's arguments. Where trip counts depend on the program id, the work is the mean over
    four programs spread over the grid, else that of the middle program. A branch whose condition is not known counts
    half, and makes the result inexact. `file` is the user's file as the locations name it.
    """
    locations = read_locations(ttir, file)
    entry, functions = read_functions(ttir)
    if entry is None:
        return None

    def walk(share: float) -> _Walk:
        x, y, z = launch.grid
        at = (int(x * share), int(y * share), int(z * share))
        state = _Walk(launch, locations, functions, at, {n: v for n, v in launch.arguments if isinstance(v, Tensor)})
        _region(entry.regions[0], bind_arguments(entry, launch), state, 1.0, 1.0)
        return state

    middle = walk(0.5)
    walks = [walk(share) for share in (0.125, 0.375, 0.625, 0.875)] if middle.tally.depends_on_program else [middle]
    return combine([state.tally for state in walks])


def read_functions(ttir: str) -> tuple[Operation | None, dict[str, Operation]]:
    """Return the function that is launched (None when there is none), and every function by name."""
    functions: dict[str, Operation] = {}
    entry: Operation | None = None
    for module in read_operations(ttir):
        for operation in module.regions[0] if module.regions else []:
            if operation.name == "tt.func" and operation.regions and (name := re.search(r"@([\w.$]+)", operation.text)):
                functions[name[1]] = operation
                if entry is None or " public " in f" {operation.text} ":
                    entry = operation
    return entry, functions


def inlined_callers(ttir: str, file: str) -> dict[Frame, tuple[int, ...]]:
    """Return, for each frame outside `file` that was inlined into it, the lines of `file` it was inlined at."""
    found: defaultdict[Frame, set[int]] = defaultdict(set)
    for chain in read_locations(ttir, file).frames.values():
        line = user_line(chain, file)
        if line is None:
            continue
        for frame in chain:
            if user_line((frame,), file) is not None:
                break
            found[frame].add(line)
    return {frame: tuple(sorted(lines)) for frame, lines in found.items()}


def bind_arguments(function: Operation, launch: RecordedLaunch) -> Environment:
    """Bind the function's arguments to the launch's values, by name where the text keeps names, else by order."""
    values = dict(launch.arguments)
    header = function.text[function.text.find("(") :]
    names = re.findall(r'(%[\w.$-]+): ([^%]*?)(?:loc\("?([\w.]*)|(?=, %)|\)$|$)', header)
    # A runtime argument that is 1, or None, was folded into the code and is no argument any more.
    ordered = [n for n, v in launch.arguments if not (isinstance(v, Scalar) and (v.value is None or v.value == 1))]
    env: Environment = {}
    for index, (ssa, kind, named) in enumerate(names):
        name = named if named in values else ssa[1:] if ssa[1:] in values else ""
        if not name and len(ordered) == len(names):
            name = ordered[index]
        value = values.get(name)
        if isinstance(value, Scalar) and isinstance(value.value, (bool, int, float)):
            env[ssa] = Known(value.value if isinstance(value.value, float) else int(value.value))
        elif "ptr" in kind or "tensordesc" in kind:
            env[ssa] = Known(0, pointer=name or ssa[1:])
    return env


def _region(
    operations: Sequence[Operation], env: Environment, walk: _Walk, times: float, nest: float
) -> tuple[Known, ...]:
    """Count the operations of a region that runs `times` times (fractions: branches); return what it yields."""
    yielded: tuple[Known, ...] = ()
    for operation in operations:
        if operation.name in {"scf.yield", "tt.return", "scf.condition"}:
            yielded = tuple(env.get(name, UNKNOWN) for name in operation.operands)
        elif operation.name == "scf.for":
            _for(operation, env, walk, times, nest)
        elif operation.name == "scf.while":
            _while(operation, env, walk, times, nest)
        elif operation.name == "scf.if":
            _if(operation, env, walk, times, nest)
        elif operation.name == "tt.call":
            _call(operation, env, walk, times, nest)
        else:
            _count(operation, env, walk, times)
            _bind(operation, env, walk)
    return yielded


def _bind(operation: Operation, env: Environment, walk: _Walk) -> None:
    if operation.name in {"tt.get_program_id", "tt.get_num_programs"}:
        axis = next((i for i, letter in enumerate("xyz") if re.search(rf"\b{letter}\b", operation.text)), 0)
        of_program = operation.name == "tt.get_program_id"
        known = Known((walk.program if of_program else walk.launch.grid)[axis], varies=of_program)
    elif operation.name == "tt.make_tensor_descriptor":
        known = env.get(operation.operands[0], UNKNOWN) if operation.operands else UNKNOWN
    else:
        known = evaluate(operation, env)
    types = read_types(operation.types)
    for index, name in enumerate(operation.results):
        shape = types[-1].shape if types else ()
        env[name] = known if index == 0 else unknown_block(shape)


def _for(operation: Operation, env: Environment, walk: _Walk, times: float, nest: float) -> None:
    head = re.match(
        r"(?:unsigned )?(%[\w.$-]+) = (%[\w.$#-]+) to (%[\w.$#-]+) step (%[\w.$#-]+)(?: iter_args\((.*?)\)\s*->)?",
        operation.text,
    )
    if head is None or not operation.regions:
        walk.tally.exact = False
        return
    low, high, step = (env.get(head[i], UNKNOWN) for i in (2, 3, 4))
    if not (isinstance(low.base, int) and isinstance(high.base, int) and isinstance(step.base, int) and step.base):
        trips, middle = GUESSED_TRIPS, None
        walk.tally.exact = False
        uncertain = 1
    else:
        uncertain = 0
        trips = float(max(0, -(-(high.base - low.base) // step.base)))
        middle = low.base + step.base * (int(trips) // 2)
    if low.varies or high.varies or step.varies:
        walk.tally.depends_on_program = True
    inner = dict(env)
    inner[head[1]] = Known(middle, varies=low.varies)
    carried = re.findall(r"(%[\w.$-]+) = (%[\w.$#-]+)", head[5] or "")
    for name, start in carried:
        inner[name] = _carried(env.get(start, UNKNOWN))
    walk.uncertain += uncertain
    line = _line(operation, walk, times * max(trips, 1.0))
    if line is not None and not walk.uncertain:
        line.trips.append(trips)
    walk.tally.iterations = max(walk.tally.iterations, nest * trips)
    if trips:
        _region(operation.regions[0], inner, walk, times * trips, nest * trips)
    walk.uncertain -= uncertain
    for result, (_, start) in zip(operation.results, carried, strict=False):
        env[result] = _carried(env.get(start, UNKNOWN))


def _carried(start: Known) -> Known:
    """Return what stays true of a value that changes with each iteration: its strides and the argument it points to."""
    return replace(start, base=0 if start.pointer else None, share=None)


def _while(operation: Operation, env: Environment, walk: _Walk, times: float, nest: float) -> None:
    walk.tally.exact = False
    walk.tally.iterations = max(walk.tally.iterations, nest * GUESSED_TRIPS)
    walk.uncertain += 1
    _line(operation, walk, times * GUESSED_TRIPS)
    for region in operation.regions:
        _region(region, dict(env), walk, times * GUESSED_TRIPS, nest * GUESSED_TRIPS)
    walk.uncertain -= 1


def _if(operation: Operation, env: Environment, walk: _Walk, times: float, nest: float) -> None:
    condition = env.get(operation.operands[0], UNKNOWN) if operation.operands else UNKNOWN
    if condition.varies:
        walk.tally.depends_on_program = True
    _line(operation, walk, times)
    if condition.base is None:
        walk.tally.exact = False
        shares = [0.5] * len(operation.regions)
    else:
        shares = [1.0, 0.0] if condition.base else [0.0, 1.0]
    walk.uncertain += condition.base is None
    yields = [
        _region(region, dict(env), walk, times * share, nest)
        for region, share in zip(operation.regions, shares, strict=False)
        if share
    ]
    walk.uncertain -= condition.base is None
    for index, result in enumerate(operation.results):
        options = {values[index] for values in yields if index < len(values)}
        env[result] = options.pop() if len(options) == 1 else UNKNOWN


def _call(operation: Operation, env: Environment, walk: _Walk, times: float, nest: float) -> None:
    name = re.match(r"@([\w.$]+)", operation.text)
    callee = walk.functions.get(name[1]) if name else None
    _line(operation, walk, times)
    if callee is None or walk.depth > 16:
        walk.tally.exact = False
        return
    parameters = re.findall(r"(%[\w.$-]+): ", callee.text)
    inner = dict(zip(parameters, (env.get(o, UNKNOWN) for o in operation.operands), strict=False))
    walk.depth += 1
    yielded = _region(callee.regions[0], inner, walk, times, nest)
    walk.depth -= 1
    env.update(zip(operation.results, yielded, strict=False))


def _line(operation: Operation, walk: _Walk, times: float) -> LineTally | None:
    number = walk.locations.line(operation.location)
    if number is None:
        return None
    line = walk.tally.lines[number]
    line.executions = max(line.executions, times)
    line.exact = line.exact and not walk.uncertain
    return line


def _count(operation: Operation, env: Environment, walk: _Walk, times: float) -> None:
    if operation.name in _FREE:
        return
    line = _line(operation, walk, times)
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


def _access(operation: Operation, env: Environment, walk: _Walk, line: LineTally, times: float) -> None:
    operands = operation.operands
    address = env.get(operands[0], UNKNOWN) if operands else UNKNOWN
    types = read_types(operation.types)
    block = _accessed_type(operation, types)
    if block is None:
        walk.tally.exact = False
        return
    size = block.elements * block.size * times
    masked = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}.get(operation.name)
    mask = env.get(operands[masked], UNKNOWN) if masked is not None and len(operands) > masked else None
    share = 1.0 if mask is None or mask.share is None else mask.share
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


def _dot(operation: Operation, walk: _Walk, line: LineTally, times: float) -> None:
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
