"""Values, calls and launches: on what a kernel runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Union

from tritonforge.domain.codec import tagged


@tagged
@dataclass(frozen=True)
class Distribution:
    """Seeded floating or integer values that keep what matters of the recorded ones.

    `kind`: `normal` (mean, std), `uniform` (low, high; integers inclusive), `constant` (low), `zeros`, `uninitialised`
    (never read by a correct program: filled with poison when verifying, with zeros while recording), `arange` (low,
    low + 1, …), `permutation` (of `arange`), `offsets` (non-decreasing integers from low to high, as cumulative
    sequence lengths are), `bernoulli` (1 or True with probability `mean`).

    `order` sorts the values along the flattened tensor. Of all elements `zero_fraction` are zero, `nan_fraction` NaN,
    `inf_fraction` +Inf and `negative_inf_fraction` -Inf, each 0 to 1.
    """

    kind: str = "normal"
    mean: float = 0.0
    std: float = 1.0
    low: float = 0.0
    high: float = 1.0
    zero_fraction: float = 0.0
    order: str = "random"
    """`random`, `ascending` or `descending`."""
    nan_fraction: float = 0.0
    inf_fraction: float = 0.0
    negative_inf_fraction: float = 0.0


@tagged
@dataclass(frozen=True)
class ExactValues:
    """The values themselves: zlib-compressed little-endian contiguous bytes of the tensor's elements."""

    data: bytes


Family = Literal[
    "normal",
    "mixed-magnitudes",
    "small",
    "subnormal",
    "signed-zeros",
    "zeros",
    "constant",
    "ascending",
    "descending",
    "offset",
    "cancellation",
    "large-maxima",
    "ties",
    "negative",
    "powers-of-two",
    "one-nan",
    "one-inf",
    "one-negative-inf",
    "nan-block",
    "inf-block",
    "negative-inf-block",
    "all-nan",
    "all-inf",
    "all-negative-inf",
]
"""A kind of floating values on which wrong kernels differ from right ones; `worker.hostile` draws them."""


@tagged
@dataclass(frozen=True)
class Hostile:
    """Seeded floating values made to tell a wrong kernel from a right one: one family for each piece of the tensor.

    `pieces` says what a piece is: the `whole` tensor, each of its `rows` (of the last dimension), each index of
    dimension `axis`, or each run of `run` elements (`runs`). Piece i holds `families[i % len(families)]`. `run` is also
    how many elements a `-block` family poisons at a stretch, at most a whole piece. Other than floating tensors hold
    what `Distribution()` gives them.
    """

    families: tuple[Family, ...]
    pieces: Literal["whole", "rows", "axis", "runs"] = "whole"
    axis: int = 0
    run: int = 16


ValuePolicy = Union[Distribution, ExactValues, Hostile]


@tagged
@dataclass(frozen=True)
class Tensor:
    """A tensor argument without its memory.

    `shape` and `strides` in elements; `dtype` as PyTorch names it (`float16`); `alignment` is the largest power of two,
    up to 256, that divides the address in bytes; `buffer` is the number of the storage within the call, so that tensors
    with the same number alias, and `offset` the element offset into it.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    alignment: int = 256
    buffer: int = -1
    offset: int = 0
    values: ValuePolicy = Distribution()
    device: str = "cuda"
    requires_grad: bool = False

    @property
    def elements(self) -> int:
        """How many elements the shape has."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def span(self) -> int:
        """How many elements of memory the tensor reaches over, gaps included; 0 without elements."""
        reached = sum((n - 1) * abs(s) for n, s in zip(self.shape, self.strides, strict=False))
        return 1 + reached if self.elements else 0


@tagged
@dataclass(frozen=True)
class Scalar:
    """A Python number, bool, string or None."""

    value: Union[int, float, bool, str, None]


@tagged
@dataclass(frozen=True)
class Symbol:
    """A named object: `kind` is `dtype` (torch or triton type), `device`, `function` or `enum`; `name` says which."""

    kind: str
    name: str


@tagged
@dataclass(frozen=True)
class Items:
    """A list, tuple or torch.Size (`kind` says which) of values."""

    kind: str
    items: tuple[Value, ...]


@tagged
@dataclass(frozen=True)
class Entries:
    """A dict with string keys."""

    items: tuple[tuple[str, Value], ...]


@tagged
@dataclass(frozen=True)
class Opaque:
    """A value that cannot be described; `repr` says what it was. A call that needs one cannot be repeated."""

    repr: str


Value = Union[Tensor, Scalar, Symbol, Items, Entries, Opaque]


def tensors_of(value: Value) -> tuple[Tensor, ...]:
    """Return every tensor inside `value`, depth first."""
    if isinstance(value, Tensor):
        return (value,)
    if isinstance(value, Items):
        return tuple(t for item in value.items for t in tensors_of(item))
    if isinstance(value, Entries):
        return tuple(t for _, item in value.items for t in tensors_of(item))
    return ()


def integers_of(named: Iterable[tuple[str, Value]]) -> dict[str, int]:
    """Return those of named values that are integers, and no truth values."""
    return {name: v.value for name, v in named if isinstance(v, Scalar) and type(v.value) is int}


def is_repeatable(value: Value) -> bool:
    """Tell whether `value` can be rebuilt from its description alone."""
    if isinstance(value, Opaque):
        return False
    if isinstance(value, Items):
        return all(is_repeatable(item) for item in value.items)
    if isinstance(value, Entries):
        return all(is_repeatable(item) for _, item in value.items)
    return True


@dataclass(frozen=True)
class CallSite:
    """Where a launch was made: workspace-relative file, 1-based line, qualified host function ("" at module level)."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Problem:
    """What a launch computes: runtime arguments by parameter name, and the constexprs that carry meaning."""

    arguments: tuple[tuple[str, Value], ...]
    constexprs: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True)
class Config:
    """How a launch computes it: tunable constexprs, compiler options (`num_warps`, `num_stages`, …), and the grid."""

    constexprs: tuple[tuple[str, Value], ...]
    options: tuple[tuple[str, Value], ...]
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """Problem × Config: one way a kernel is run.

    `id` is a short content hash of kernel, problem and config. `count`: how often it was seen. `rank`: 1 for the launch
    that matters most. `time_us`: measured where known.
    """

    id: str
    kernel_file: str
    kernel: str
    problem: Problem
    config: Config
    call_site: CallSite
    count: int = 1
    rank: int = 1
    time_us: float | None = None
    call: str | None = None
    """The id of the `Call` that makes this launch, where it is known."""

    @property
    def programs(self) -> int:
        """How many programs the grid has."""
        x, y, z = self.config.grid
        return x * y * z


@dataclass(frozen=True)
class RecordedLaunch:
    """A launch as the worker saw it, before constexprs are split into meaning and tuning.

    `arguments` are the runtime parameters, `constexprs` all constexpr parameters, `options` what reached the compiler
    (`num_warps`, `num_stages`, `num_ctas`, `maxnreg`, …) after autotuning and heuristics were resolved. `kernel` is the
    qualified name without `<locals>`, `kernel_line` the line of its `def`.
    """

    kernel_file: str
    kernel: str
    kernel_line: int
    arguments: tuple[tuple[str, Value], ...]
    constexprs: tuple[tuple[str, Value], ...]
    options: tuple[tuple[str, Value], ...]
    grid: tuple[int, int, int]
    call_site: CallSite
    autotuned: bool = False
    count: int = 1
    """How often its call made this launch (counting those that differ in values only)."""
    time_us: float | None = None
    """The median time on the GPU that it was recorded on, where one was."""


@dataclass(frozen=True)
class Call:
    """One call of a host function that can be repeated.

    `file` (workspace-relative, or absolute outside it) and `function` (qualified, reachable by attribute access from
    the module) name it; `arguments` are positional, `keywords` by name. The functions `__main__` and `__module__` stand
    for running the file as a program and for importing it. When `kernel_launch` is set there is no host
    function: the kernel `function` is launched directly with these arguments over the grid given there.
    """

    id: str
    file: str
    function: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...] = ()
    seed: int = 0
    launches: tuple[RecordedLaunch, ...] = ()
    kernel_launch: KernelLaunch | None = None
    count: int = 1
    """How often the recorded program made this call (counting those that differ in values only)."""


@dataclass(frozen=True)
class KernelLaunch:
    """How to launch a kernel directly: `grid` holds one to three expressions over parameter names (`cdiv(n, BLOCK)`).

    Allowed in the expressions: integers, parameter names, `+ - * // % ( )`, `cdiv(a, b)`, `min`, `max` and
    `next_power_of_2`.
    """

    grid: tuple[str, ...]
    options: tuple[tuple[str, Value], ...] = ()
