"""What is known of a value before a program runs: scalars exactly, index and address blocks as base plus strides."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tritonforge.compilation.divisors import Divisor, divisor_of
from tritonforge.compilation.mlir import Operation

Number = int | float


@dataclass(frozen=True)
class Run:
    """How lanes step along a dimension: by `step` from one to the next, and further after so many lanes.

    `jumps` are pairs of that number of lanes and the further step, on average over all lanes, the shortest first. A
    quotient has nothing else, a remainder jumps back. Where the two come together and cancel (`i // n * n + i % n`)
    lanes step evenly again.
    """

    step: Number
    jumps: tuple[tuple[Number, Number], ...] = ()

    @property
    def stride(self) -> Number:
        """The step between neighbours, or the average one where neighbours are mostly the same."""
        return self.step or (self.jumps[0][1] if self.jumps else 0)

    @property
    def length(self) -> Number:
        """Lanes that step evenly before the first jump."""
        return self.jumps[0][0] if self.jumps else math.inf

    def times(self, factor: Number) -> Run:
        """Return the run of a product with what all lanes share."""
        return Run(self.step * factor, tuple((lanes, jump * factor) for lanes, jump in self.jumps) if factor else ())

    def plus(self, other: Run) -> Run:
        """Return the run of a sum."""
        sums: dict[Number, Number] = dict(self.jumps)
        for lanes, jump in other.jumps:
            sums[lanes] = sums.get(lanes, 0) + jump
        size = max((abs(jump) for _, jump in (*self.jumps, *other.jumps)), default=0)
        return Run(self.step + other.step, tuple(sorted((n, j) for n, j in sums.items() if abs(j) > 1e-9 * size)))

    def quotient(self, by: Number) -> Run:
        """Return the run of the whole quotients by a positive number."""
        rate, after = self._first()
        if not rate or abs(rate) >= by:
            return Run(self.step / by, tuple((lanes, jump / by) for lanes, jump in self.jumps))
        return Run(0, ((by / abs(rate), rate / by), *((lanes, jump / by) for lanes, jump in after)))

    def remainder(self, by: Number) -> Run:
        """Return the run of the remainders by a positive number."""
        rate, after = self._first()
        if not rate or abs(rate) >= by:
            return self
        lanes = by / abs(rate)
        kept = self.jumps[: len(self.jumps) - len(after)]
        return Run(self.step, (*kept, (lanes, -rate), *(one for one in after if one[0] < lanes)))

    def _first(self) -> tuple[Number, tuple[tuple[Number, Number], ...]]:
        """Return the average step of what changes most often, and the jumps after it."""
        if self.step or not self.jumps:
            return self.step, self.jumps
        return self.jumps[0][1], self.jumps[1:]


@dataclass(frozen=True)
class Known:
    """A scalar, or a block of indices or addresses.

    `base` is the value of the first lane, `strides` the step along each dimension (None: not known, data dependent),
    `shape` the block's extents. For an address they count elements from the argument `pointer`. `share` is, for a
    mask, the part of its lanes that are on. `varies` tells that it depends on the program id or a loop variable,
    `loaded` that it was computed from what a load returned. `divisor` is a power of two that divides the first lane in
    every program and iteration (see `divisors`). `runs` says, for each dimension, where lanes do not step evenly.
    """

    base: Number | None = None
    strides: tuple[Number | None, ...] = ()
    shape: tuple[int, ...] = ()
    pointer: str | None = None
    share: float | None = None
    varies: bool = False
    loaded: bool = False
    divisor: Divisor = None
    runs: tuple[Run, ...] = ()
    """As many as there are strides, or none: every dimension is even then."""

    @property
    def uniform(self) -> bool:
        """Whether all lanes are the same."""
        return all(stride == 0 for stride in self.strides)


UNKNOWN = Known()
_MEMORY = {"tt.load", "tt.atomic_rmw", "tt.atomic_cas", "ttg.local_load", "triton_gpu.local_load"}
Environment = dict[str, Known]


def evaluate(operation: Operation, env: Mapping[str, Known]) -> Known:
    """Return what is known of the result of an operation without regions; `UNKNOWN` where nothing is."""
    operands = [env.get(name, UNKNOWN) for name in operation.operands]
    kind = operation.type()
    shape = kind.shape if kind else ()
    varies = any(value.varies for value in operands)
    loaded = operation.name in _MEMORY or any(value.loaded for value in operands)
    divisor = divisor_of(operation, [value.divisor for value in operands])
    try:
        found = _RULES.get(operation.name, _opaque)(operation, operands, shape)
    except (ArithmeticError, IndexError, TypeError, ValueError):
        # Text that a rule was not written for: nothing is known of the result, and the reading goes on.
        found = unknown_block(shape)
    return replace(found, varies=found.varies or varies, loaded=loaded, divisor=divisor)


def unknown_block(shape: tuple[int, ...]) -> Known:
    """Return a block of which only the extents are known."""
    return Known(strides=(None,) * len(shape), shape=shape)


_Rule = Callable[[Operation, list[Known], tuple[int, ...]], Known]


def _opaque(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    pointers = {value.pointer for value in operands if value.pointer}
    return replace(unknown_block(shape), pointer=pointers.pop() if len(pointers) == 1 else None)


def _constant(operation: Operation, _: list[Known], shape: tuple[int, ...]) -> Known:
    text = operation.text.strip()
    dense = re.match(r"dense<([^\[\]<>]*)>", text)
    text = dense[1] if dense else text.split(" ")[0]
    base: Number | None
    try:
        base = {"true": 1, "false": 0}[text] if text in {"true", "false"} else int(text)
    except ValueError:
        try:
            base = float(text)
        except ValueError:
            return unknown_block(shape)
    share = float(base) if operation.types.rstrip(">").endswith("i1") or text in {"true", "false"} else None
    return Known(base, (0,) * len(shape), shape, share=abs(share) if share is not None else None)


def _range(operation: Operation, _: list[Known], shape: tuple[int, ...]) -> Known:
    start = re.search(r"start = (-?\d+)", operation.text)
    return Known(int(start[1]) if start else None, (1,), shape)


def _splat(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    value = operands[0] if operands else UNKNOWN
    return replace(value, strides=(0,) * len(shape), shape=shape, runs=())


def _expand(operation: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    axis = re.search(r"axis = (\d+)", operation.text)
    value = operands[0] if operands else UNKNOWN
    if axis is None or len(value.strides) != len(shape) - 1:
        return replace(unknown_block(shape), pointer=value.pointer)
    at = int(axis[1])
    runs = (*value.runs[:at], Run(0), *value.runs[at:]) if value.runs else ()
    return replace(value, strides=(*value.strides[:at], 0, *value.strides[at:]), shape=shape, runs=runs)


def _broadcast(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    value = operands[0] if operands else UNKNOWN
    if len(value.strides) != len(shape):
        return replace(unknown_block(shape), pointer=value.pointer)
    old = value.shape or shape
    wider = [was == 1 and now > 1 for was, now in zip(old, shape, strict=True)]
    strides = tuple(0 if grown else s for s, grown in zip(value.strides, wider, strict=True))
    runs = tuple(Run(0) if grown else r for r, grown in zip(value.runs, wider, strict=True)) if value.runs else ()
    return replace(value, strides=strides, shape=shape, runs=runs)


def _transpose(operation: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    order = re.search(r"order = array<i32: ([\d, ]+)>", operation.text)
    value = operands[0] if operands else UNKNOWN
    axes = [int(n) for n in order[1].split(",")] if order else list(range(len(shape)))[::-1]
    if sorted(axes) != list(range(len(value.strides))):
        return replace(unknown_block(shape), pointer=value.pointer)
    runs = tuple(value.runs[a] for a in axes) if value.runs else ()
    return replace(value, strides=tuple(value.strides[a] for a in axes), shape=shape, runs=runs)


def _same(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    value = operands[0] if operands else UNKNOWN
    return value if len(value.strides) == len(shape) else replace(unknown_block(shape), pointer=value.pointer)


def _sum(sign: int) -> _Rule:
    def rule(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
        if len(operands) < 2 or any(len(v.strides) != len(shape) for v in operands[:2]):
            return _opaque(_, operands, shape)
        a, b = operands[:2]
        base = None if a.base is None or b.base is None else a.base + sign * b.base
        strides = tuple(
            None if s is None or t is None else s + sign * t for s, t in zip(a.strides, b.strides, strict=True)
        )
        if (a.runs or b.runs) and None not in strides:
            runs = tuple(x.plus(y.times(sign)) for x, y in zip(_runs(a), _runs(b), strict=True))
            return Known(base, tuple(r.stride for r in runs), shape, a.pointer or b.pointer, runs=_uneven(runs))
        return Known(base, strides, shape, a.pointer or b.pointer)

    return rule


def _runs(value: Known) -> tuple[Run, ...]:
    return value.runs or tuple(Run(stride or 0) for stride in value.strides)


def _uneven(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    return runs if any(run.jumps for run in runs) else ()


def _product(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    if len(operands) < 2 or any(len(v.strides) != len(shape) for v in operands[:2]):
        return unknown_block(shape)
    a, b = operands[:2]
    if not a.uniform:
        a, b = b, a
    if not a.uniform:
        return unknown_block(shape)
    base = None if a.base is None or b.base is None else a.base * b.base
    strides = tuple(0 if s == 0 else None if a.base is None or s is None else s * a.base for s in b.strides)
    runs = tuple(run.times(a.base) for run in b.runs) if a.base is not None else ()
    return Known(base, strides, shape, runs=_uneven(runs))


def _quotient(function: Callable[[int, int], int], *, keeps_stride: bool) -> _Rule:
    def rule(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
        if len(operands) < 2:
            return unknown_block(shape)
        a, b = operands[:2]
        if not b.uniform or not b.base or len(a.strides) != len(shape):
            return unknown_block(shape)
        base = None if a.base is None else function(int(a.base), int(b.base))
        if None in a.strides:
            strides = tuple(s if s is None or keeps_stride else s / abs(b.base) for s in a.strides)
            return Known(base, strides, shape)
        by = abs(b.base)
        runs = tuple(run.remainder(by) if keeps_stride else run.quotient(by) for run in _runs(a))
        return Known(base, tuple(run.stride for run in runs), shape, runs=_uneven(runs))

    return rule


def _scalar(function: Callable[[Number, Number], Number]) -> _Rule:
    def rule(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
        if len(operands) < 2 or any(v.base is None or not v.uniform for v in operands[:2]):
            a = operands[0] if operands else UNKNOWN
            # min and max against a bound leave a block of indices as it is, nearly everywhere.
            return replace(a, pointer=None) if shape and len(a.strides) == len(shape) else unknown_block(shape)
        a, b = operands[:2]
        if a.base is None or b.base is None:
            return unknown_block(shape)
        return Known(function(a.base, b.base), (0,) * len(shape), shape)

    return rule


def _bits(function: Callable[[int, int], int]) -> _Rule:
    return _scalar(lambda a, b: function(int(a), int(b)))


def _and(operation: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    shares = [value.share for value in operands[:2]]
    if len(shares) == 2 and operation.types.rstrip(">").endswith("i1"):
        known = [s for s in shares if s is not None]
        share = known[0] * known[1] if len(known) == 2 else 0.0 if 0.0 in known else None
        return replace(unknown_block(shape), share=share, base=share if share in {0, 1} else None)
    return _bits(operator.and_)(operation, operands, shape)


def _or(operation: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    shares = [value.share for value in operands[:2]]
    if len(shares) == 2 and operation.types.rstrip(">").endswith("i1"):
        known = [s for s in shares if s is not None]
        share = max(known) if len(known) == 2 else 1.0 if 1.0 in known else None
        return replace(unknown_block(shape), share=share, base=share if share in {0, 1} else None)
    return _bits(operator.or_)(operation, operands, shape)


_COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le, "sgt": operator.gt,
    "sge": operator.ge, "ult": operator.lt, "ule": operator.le, "ugt": operator.gt, "uge": operator.ge,
}  # fmt: skip


def _compare(operation: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    function = _COMPARISONS.get(operation.text.split(",")[0].strip())
    if function is None or len(operands) < 2:
        return unknown_block(shape)
    a, b = operands[:2]
    if a.base is None or b.base is None or not len(a.strides) == len(b.strides) == len(shape):
        return unknown_block(shape)
    steps = [None if s is None or t is None else s - t for s, t in zip(a.strides, b.strides, strict=True)]
    moving = [(s, n) for s, n in zip(steps, shape, strict=True) if s != 0]
    if not moving:
        on = bool(function(a.base, b.base))
        return Known(int(on), (0,) * len(shape), shape, share=float(on))
    step, extent = moving[0]
    if len(moving) > 1 or step is None or extent > 1 << 20:
        return unknown_block(shape)
    first = a.base - b.base
    # The difference runs linearly, so that three probes decide nearly every mask without a look at each lane.
    if function(first, 0) and function(first + step * (extent - 1), 0) and function(first + step * (extent // 2), 0):
        return replace(unknown_block(shape), share=1.0)
    on_lanes = sum(bool(function(first + step * i, 0)) for i in range(extent))
    return replace(unknown_block(shape), share=on_lanes / extent)


def _select(_: Operation, operands: list[Known], shape: tuple[int, ...]) -> Known:
    if len(operands) < 3:
        return unknown_block(shape)
    condition, yes, no = operands[:3]
    if condition.share in {0.0, 1.0}:
        return yes if condition.share else no
    return yes if yes == no else _opaque(_, operands[1:], shape)


def _trunc_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_RULES: dict[str, _Rule] = {
    "arith.constant": _constant,
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.expand_dims": _expand,
    "tt.broadcast": _broadcast,
    "tt.trans": _transpose,
    "tt.addptr": _sum(1),
    "arith.addi": _sum(1),
    "arith.subi": _sum(-1),
    "arith.muli": _product,
    "arith.divsi": _quotient(_trunc_div, keeps_stride=False),
    "arith.divui": _quotient(operator.floordiv, keeps_stride=False),
    "arith.floordivsi": _quotient(operator.floordiv, keeps_stride=False),
    "arith.ceildivsi": _quotient(lambda a, b: -(-a // b), keeps_stride=False),
    "arith.remsi": _quotient(lambda a, b: a - b * _trunc_div(a, b), keeps_stride=True),
    "arith.remui": _quotient(operator.mod, keeps_stride=True),
    "arith.minsi": _scalar(min),
    "arith.minui": _scalar(min),
    "arith.maxsi": _scalar(max),
    "arith.maxui": _scalar(max),
    "arith.shli": _bits(lambda a, b: a << min(b, 64)),
    "arith.shrsi": _bits(lambda a, b: a >> min(b, 64)),
    "arith.shrui": _bits(lambda a, b: a >> min(b, 64)),
    "arith.xori": _bits(operator.xor),
    "arith.andi": _and,
    "arith.ori": _or,
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.extsi": _same,
    "arith.extui": _same,
    "arith.trunci": _same,
    "arith.index_cast": _same,
    "tt.bitcast": _same,
    "ttg.convert_layout": _same,
    "triton_gpu.convert_layout": _same,
    "tt.assert": _opaque,
}
"""How an operation's result follows from its operands. Everything that is not here is data, and unknown."""
