"""What one program does, read from Triton's first IR: bytes, FLOPs, operations and trip counts per source line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from tritonforge.compilation.counting import MASKS, Walk, count, line_of
from tritonforge.compilation.locations import Frame, read_locations, user_line
from tritonforge.compilation.mlir import Operation, read_operations, read_types
from tritonforge.compilation.tally import Tally, combine
from tritonforge.compilation.values import UNKNOWN, Environment, Known, evaluate, unknown_block
from tritonforge.domain.compilation import Work
from tritonforge.domain.launch import RecordedLaunch, Scalar, Tensor

GUESSED_TRIPS = 8.0
"""Trip count of a loop whose bounds cannot be known before it runs; `Work.exact` is false then."""


def read_work(ttir: str, launch: RecordedLaunch, file: str) -> Work | None:
    """Return what one program of `launch` does, or None when the text holds no function.

    Scalars come from the launch's arguments. Where trip counts depend on the program id, the work is the mean over
    four programs spread evenly over the grid, else that of the middle program; where masks cut off the last programs
    along an axis, their part of the grid counts as it is. A branch whose condition is not known counts half, and makes
    the result inexact. `file` is the user's file as the locations name it.
    """
    locations = read_locations(ttir, file)
    entry, functions = read_functions(ttir)
    if entry is None:
        return None

    def walk(at: tuple[int, int, int]) -> Tally:
        state = Walk(launch, locations, functions, at, {n: v for n, v in launch.arguments if isinstance(v, Tensor)})
        _region(entry.regions[0], bind_arguments(entry, launch), state, 1.0, 1.0)
        return state.tally

    x, y, z = launch.grid
    middle = walk((x // 2, y // 2, z // 2))
    if middle.depends_on_program:
        # In pairs from both ends, so that the mean of what grows evenly along the grid is exact.
        ends = [(int(x * share), int(y * share), int(z * share)) for share in (0.125, 0.375)]
        spread = [*ends, *((x - 1 - a, y - 1 - b, z - 1 - c) for a, b, c in ends)]
        return combine([(walk(at), 1.0) for at in spread])
    if middle.masks_vary and walk((x - 1, y - 1, z - 1)).unmasked != middle.unmasked:
        return combine([(walk(at), part) for at, part in _corners(launch.grid)])
    return combine([(middle, 1.0)])


def _corners(grid: tuple[int, int, int]) -> list[tuple[tuple[int, int, int], float]]:
    """Return programs that stand for the whole grid, and what part of it each stands for.

    Along each axis all programs but the last are taken to be alike.
    """
    axes = [[((n - 1) // 2, 1 - 1 / n), (n - 1, 1 / n)] if n > 1 else [(0, 1.0)] for n in grid]
    return [((x, y, z), of_x * of_y * of_z) for (x, of_x), (y, of_y), (z, of_z) in product(*axes)]


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
    operations: Sequence[Operation], env: Environment, walk: Walk, times: float, nest: float
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
            count(operation, env, walk, times)
            _bind(operation, env, walk)
    return yielded


def _bind(operation: Operation, env: Environment, walk: Walk) -> None:
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


def _for(operation: Operation, env: Environment, walk: Walk, times: float, nest: float) -> None:
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
        middle = low.base + step.base * (max(0, int(trips) - 1) // 2)
    if low.varies or high.varies or step.varies:
        walk.tally.depends_on_program = True
    inner = dict(env)
    inner[head[1]] = Known(middle, varies=low.varies)
    carried = re.findall(r"(%[\w.$-]+) = (%[\w.$#-]+)", head[5] or "")
    for name, start in carried:
        inner[name] = _carried(env.get(start, UNKNOWN))
    walk.uncertain += uncertain
    line = line_of(operation, walk, times * max(trips, 1.0))
    if line is not None and not walk.uncertain:
        line.trips.append(trips)
    walk.tally.iterations = max(walk.tally.iterations, nest * trips)
    if trips:
        ahead: tuple[int, ...] = ()
        if trips > 1 and isinstance(low.base, int) and isinstance(step.base, int) and _has_masks(operation):
            end = Known(low.base + step.base * (int(trips) - 1), varies=low.varies)
            ahead = _last_iteration(operation, {**inner, head[1]: end}, walk, trips)
        _region(operation.regions[0], inner, walk, times * trips, nest * trips)
        for access in ahead:
            walk.last[access].pop()
    walk.uncertain -= uncertain
    for result, (_, start) in zip(operation.results, carried, strict=False):
        env[result] = _carried(env.get(start, UNKNOWN))


def _last_iteration(operation: Operation, env: Environment, walk: Walk, trips: float) -> tuple[int, ...]:
    """Note what masks leave on in a loop's last iteration, where the end of a row or a diagonal cuts blocks off.

    Return the accesses that something was noted of. All other iterations are taken to be like the middle one.
    """
    probe = replace(walk, tally=Tally(), last={}, shares={})
    _region(operation.regions[0], env, probe, 1.0, 1.0)
    for access, share in probe.shares.items():
        walk.last.setdefault(access, []).append((share, 1 / trips))
    return tuple(probe.shares)


def _has_masks(operation: Operation) -> bool:
    return any(
        len(one.operands) > MASKS.get(one.name, len(one.operands)) or (one.regions and _has_masks(one))
        for region in operation.regions
        for one in region
    )


def _carried(start: Known) -> Known:
    """Return what stays true of a value that changes with each iteration: its strides and the argument it points to."""
    return replace(start, base=0 if start.pointer else None, share=None)


def _while(operation: Operation, env: Environment, walk: Walk, times: float, nest: float) -> None:
    walk.tally.exact = False
    walk.tally.iterations = max(walk.tally.iterations, nest * GUESSED_TRIPS)
    walk.uncertain += 1
    line_of(operation, walk, times * GUESSED_TRIPS)
    for region in operation.regions:
        _region(region, dict(env), walk, times * GUESSED_TRIPS, nest * GUESSED_TRIPS)
    walk.uncertain -= 1


def _if(operation: Operation, env: Environment, walk: Walk, times: float, nest: float) -> None:
    condition = env.get(operation.operands[0], UNKNOWN) if operation.operands else UNKNOWN
    if condition.varies:
        walk.tally.depends_on_program = True
    line_of(operation, walk, times)
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


def _call(operation: Operation, env: Environment, walk: Walk, times: float, nest: float) -> None:
    name = re.match(r"@([\w.$]+)", operation.text)
    callee = walk.functions.get(name[1]) if name else None
    line_of(operation, walk, times)
    if callee is None or walk.depth > 16:
        walk.tally.exact = False
        return
    parameters = re.findall(r"(%[\w.$-]+): ", callee.text)
    inner = dict(zip(parameters, (env.get(o, UNKNOWN) for o in operation.operands), strict=False))
    walk.depth += 1
    yielded = _region(callee.regions[0], inner, walk, times, nest)
    walk.depth -= 1
    env.update(zip(operation.results, yielded, strict=False))
