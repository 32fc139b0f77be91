"""A walk through the IR with layouts: every block operation with what is known of its operands, and the loops."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from tritonforge.compilation.divisors import ANY, common, power_of_two
from tritonforge.compilation.layouts import read_aliases
from tritonforge.compilation.locations import Locations, read_locations
from tritonforge.compilation.mlir import Operation, read_types
from tritonforge.compilation.ttir import bind_arguments, read_functions
from tritonforge.compilation.values import UNKNOWN, Environment, Known, evaluate, unknown_block
from tritonforge.domain.launch import RecordedLaunch

_FOR = re.compile(
    r"(?:unsigned )?(%[\w.$-]+) = (%[\w.$#-]+) to (%[\w.$#-]+) step (%[\w.$#-]+)(?: iter_args\((.*?)\)\s*->)?"
)
_CARRIED = re.compile(r"(%[\w.$-]+) = (%[\w.$#-]+)")
_MEMDESC = re.compile(r"!?(?:\w+\.)*memdesc<((?:\d+x)+)(\w+)")
_LOADS = frozenset({"tt.load", "amdg.buffer_load", "amdgpu.buffer_load"})
ASYNC_COPIES = frozenset(
    {"ttg.async_copy_global_to_local", "amdg.buffer_load_to_local", "amdgpu.buffer_load_to_local"}
)  # fmt: skip
BULK_LOADS = frozenset(
    {
        "ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather", "amdg.async_tdm_copy_global_to_local",
        "tt.descriptor_load", "tt.experimental_descriptor_load", "tt.descriptor_gather",
    }
)  # fmt: skip
DOTS = frozenset({"tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"})
DOT = "dot "


@dataclass(eq=False)
class LoopSeen:
    """A loop as the walk came by.

    `asked` is the number of stages written at it. `before` counts the loads of each location that stand in front of it
    in its region, and its dots (marked with `DOT`); `inside` those in its body.
    """

    line: int | None
    kind: str
    outer: LoopSeen | None
    specialized: bool
    asked: int | None = None
    before: Mapping[str, int] = field(default_factory=dict)
    inside: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    lines: set[int] = field(default_factory=set)
    buffers: int = 0
    innermost: bool = True


@dataclass(frozen=True, eq=False)
class Seen:
    """One operation of interest with the values of its operands, in the program in the middle of the grid."""

    operation: Operation
    name: str
    line: int
    values: tuple[Known, ...]
    loop: LoopSeen | None


@dataclass
class Walked:
    """A module walked through. `used` are the names of all values that something reads."""

    aliases: Mapping[str, str]
    warps: int
    operations: list[Seen] = field(default_factory=list)
    loops: list[LoopSeen] = field(default_factory=list)
    used: set[str] = field(default_factory=set)


def dialect_free(name: str) -> str:
    """Return an operation's name as newer versions spell it (`triton_gpu.` was renamed to `ttg.` in 3.3)."""
    for old, new in (("triton_gpu.", "ttg."), ("triton_nvidia_gpu.", "ttng."), ("nvidia_gpu.", "ttng.")):
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def walk(ttgir: str, launch: RecordedLaunch, file: str) -> Walked | None:
    """Walk through the module's entry function, or return None when there is none."""
    entry, _ = read_functions(ttgir)
    if entry is None:
        return None
    warps = re.search(r'"?(?:ttg|triton_gpu)\.num-warps"? = (\d+)', ttgir)
    walked = Walked(read_aliases(ttgir), int(warps[1]) if warps else 4)
    env = {name: _with_divisor(value) for name, value in bind_arguments(entry, launch).items()}
    _Walker(launch, read_locations(ttgir, file), walked).region(entry.regions[0], env, None, specialized=False)
    return walked


def _with_divisor(value: Known) -> Known:
    whole = isinstance(value.base, int) and value.pointer is None
    return replace(value, divisor=ANY if value.pointer else power_of_two(value.base or 0) if whole else None)


@dataclass
class _Walker:
    launch: RecordedLaunch
    locations: Locations
    walked: Walked

    def region(
        self, operations: Sequence[Operation], env: Environment, loop: LoopSeen | None, *, specialized: bool
    ) -> list[Known]:
        """Walk through a region; return what it yields."""
        loads: Counter[str] = Counter()
        yielded: list[Known] = []
        for operation in operations:
            name = dialect_free(operation.name)
            operands = operation.operands
            self.walked.used.update(operands)
            line = self.locations.line(operation.location)
            if loop is not None and line is not None:
                loop.lines.add(line)
            if name in {"scf.yield", "scf.condition", "tt.return"}:
                yielded = [env.get(one, UNKNOWN) for one in operands]
            elif name in {"scf.for", "scf.while"}:
                self._loop(operation, name, env, loop, loads, specialized=specialized)
            elif name == "scf.if":
                self._if(operation, env, loop, specialized=specialized)
            elif name.startswith("ttg.warp_specialize"):
                given = [env.get(one, UNKNOWN) for one in operands]
                for region, names in zip_longest(operation.regions, operation.arguments, fillvalue=()):
                    inner = {**env, **dict(zip(names, given, strict=False))}
                    self.region(region, inner, loop, specialized=True)
            else:
                self._plain(operation, name, env, loop)
                if name in _LOADS or name in ASYNC_COPIES or name in BULK_LOADS:
                    loads[operation.location] += 1
                elif name in DOTS:
                    loads[DOT + operation.location] += 1
        if loop is not None:
            loop.inside.update(loads)
        return yielded

    def _plain(self, operation: Operation, name: str, env: Environment, loop: LoopSeen | None) -> None:
        values = tuple(env.get(one, UNKNOWN) for one in operation.operands)
        line = self.locations.line(operation.location)
        if line is not None and (name.startswith(("ttg.", "ttng.", "amdg", "tt.")) and name not in _DULL):
            self.walked.operations.append(Seen(operation, name, line, values, loop))
            if loop is not None:
                self._tally(operation, name, loop)
        if name == "ttng.tensormap_create" and len(values) > 1:
            env[operation.operands[0]] = values[1]
        found = self._value(operation, name, values, env)
        for index, result in enumerate(operation.results):
            env[result] = found if index == 0 else UNKNOWN

    def _value(self, operation: Operation, name: str, values: tuple[Known, ...], env: Environment) -> Known:
        if name in {"tt.get_program_id", "tt.get_num_programs"}:
            axis = next((i for i, letter in enumerate("xyz") if re.search(rf"\b{letter}\b", operation.text)), 0)
            extent = self.launch.grid[axis]
            if name == "tt.get_num_programs":
                return Known(extent, divisor=power_of_two(extent))
            return Known(extent // 2, varies=True, divisor=1)
        if name in {"tt.make_tensor_descriptor", "ttng.reinterpret_tensor_descriptor", "ttg.memdesc_index"}:
            return values[0] if values else UNKNOWN
        return evaluate(operation, env)

    @staticmethod
    def _tally(operation: Operation, name: str, loop: LoopSeen) -> None:
        if name in _LOADS:
            types = read_types(operation.types)
            loop.counts["loads" if types and types[0].shape else "scalar_loads"] += 1
        elif name in ASYNC_COPIES:
            loop.counts["async_copies"] += 1
        elif name in BULK_LOADS:
            loop.counts["bulk_copies"] += 1
        elif name in DOTS:
            loop.counts["dots"] += 1
        elif name in {"ttg.memdesc_index", "ttg.memdesc_subview"}:
            found = _MEMDESC.findall(operation.types)
            if len(found) == 2 and found[0][1] != "i64" and found[0][0].count("x") > found[1][0].count("x"):
                loop.buffers = max(loop.buffers, int(found[0][0].split("x")[0]))

    def _loop(
        self,
        operation: Operation,
        name: str,
        env: Environment,
        outer: LoopSeen | None,
        before: Mapping[str, int],
        *,
        specialized: bool,
    ) -> None:
        asked = re.search(r"tt\.num_stages = (\d+)", operation.attributes)
        loop = LoopSeen(
            self.locations.line(operation.location),
            name.removeprefix("scf."),
            outer,
            specialized or "tt.warp_specialize" in operation.attributes,
            int(asked[1]) if asked else None,
            dict(before),
        )
        if outer is not None:
            outer.innermost = False
        self.walked.loops.append(loop)
        head = _FOR.match(operation.text)
        inner = dict(env)
        carried = _CARRIED.findall((head[5] if head else operation.text.partition(") :")[0]) or "")
        if head is not None:
            low, high, step = (env.get(head[i], UNKNOWN) for i in (2, 3, 4))
            inner[head[1]] = replace(_middle(low, high, step), divisor=common((low.divisor, step.divisor)))
        body = operation.regions[-1] if operation.regions else []
        steps = _increments(body, [one for one, _ in carried], env)
        for one, start in carried:
            inner[one] = _carried(env.get(start, UNKNOWN), steps.get(one))
        for region in operation.regions:
            self.region(region, inner, loop, specialized=specialized)
        for result, (one, _) in zip(operation.results, carried, strict=False):
            env[result] = inner[one]

    def _if(self, operation: Operation, env: Environment, loop: LoopSeen | None, *, specialized: bool) -> None:
        yields = [self.region(region, dict(env), loop, specialized=specialized) for region in operation.regions]
        for index, result in enumerate(operation.results):
            options = {values[index] for values in yields if index < len(values)}
            env[result] = options.pop() if len(options) == 1 else UNKNOWN


def _middle(low: Known, high: Known, step: Known) -> Known:
    bases = (low.base, high.base, step.base)
    if all(isinstance(base, int) for base in bases) and step.base:
        trips = max(0, math.ceil((bases[1] - bases[0]) / bases[2]))  # type: ignore[operator] # all are integers here
        return Known(int(bases[0] + bases[2] * (trips // 2)), varies=low.varies)  # type: ignore[operator]
    return Known(varies=low.varies)


def _carried(start: Known, step: Known | None) -> Known:
    """Return what stays true of a value that each iteration adds `step` to (None: changes in another way)."""
    if step is None:
        return replace(start, base=None, share=None, divisor=None, strides=(None,) * len(start.strides))
    # A step may be a block itself; what it adds to each lane must be the same for the strides to stay.
    if step.strides and not step.uniform:
        return replace(unknown_block(start.shape), pointer=start.pointer, loaded=step.loaded)
    return replace(
        start,
        base=start.base,
        share=None,
        divisor=common((start.divisor, step.divisor)),
        loaded=start.loaded or step.loaded,
    )


def _increments(body: Sequence[Operation], names: Sequence[str], env: Mapping[str, Known]) -> dict[str, Known]:
    """Return, of the values that a loop carries, what each iteration adds to them, where that is all it does."""
    made = {operation.results[0]: operation for operation in body if operation.results}
    last = body[-1] if body else None
    if last is None or last.name != "scf.yield":
        return {}
    found: dict[str, Known] = {}
    for name, yielded in zip(names, last.operands, strict=False):
        if yielded == name:
            found[name] = Known(0, divisor=ANY)
            continue
        operation = made.get(yielded)
        if operation is None or operation.name not in {"tt.addptr", "arith.addi"}:
            continue
        operands = operation.operands
        if len(operands) == 2 and name in operands:
            other = operands[1] if operands[0] == name else operands[0]
            step = _settled(other, made, env, 0)
            if step is not None:
                found[name] = step
    return found


def _settled(name: str, made: Mapping[str, Operation], env: Mapping[str, Known], depth: int) -> Known | None:
    """Return the value of an operation of the body that depends on nothing that changes, or None."""
    if name in env:
        return env[name]
    operation = made.get(name)
    if operation is None or depth > 6 or operation.regions:
        return None
    operands = {one: _settled(one, made, env, depth + 1) for one in operation.operands}
    if None in operands.values():
        return None
    return evaluate(operation, {one: value for one, value in operands.items() if value is not None})


_DULL = frozenset(
    {
        "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.addptr", "tt.make_range", "tt.get_program_id",
        "tt.get_num_programs", "tt.bitcast", "tt.reduce.return", "tt.scan.return", "ttg.local_dealloc",
        "ttg.async_commit_group", "ttg.async_wait", "tt.unsplat", "tt.reshape", "tt.trans",
    }
)  # fmt: skip
