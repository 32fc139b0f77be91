"""`Kernel`: what static analysis knows of one `@triton.jit` entry function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.source import Range

ParameterRole = Literal["pointer", "scalar", "stride", "tile", "meaning", "option", "unknown"]
"""What a parameter is for.

`pointer`: reaches `tl.load`/`tl.store`/an atomic. `stride`: only multiplies offsets. `tile`: a constexpr that sizes a
block (reaches `tl.arange`, `tl.zeros`… or steps a loop) and may be tuned. `meaning`: a constexpr that changes what is
computed (a flag, a true size, an activation). `option`: the kernel's own `num_warps`/`num_stages` parameter. `scalar`:
any other runtime value.
"""

ValueSource = Literal[
    "literal",  # the number stands at the launch
    "local",  # a local variable of the host function, assigned once
    "module",  # a module-level constant
    "parameter",  # a parameter of the host function
    "next_power_of_2",  # computed with triton.next_power_of_2(...)
    "call",  # returned by some other call
    "default",  # not given: the kernel's own default
    "autotune",  # chosen by @triton.autotune
    "heuristic",  # chosen by @triton.heuristics
    "kwargs",  # hidden in **kwargs or *args
    "loop",  # computed from the variable of a loop of the host function that goes round more than a few times
    "expression",  # anything else
    "absent",  # not given and no default (options such as num_warps)
]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel. `annotation` and `default` are source text, or None."""

    name: str
    index: int
    constexpr: bool
    role: ParameterRole
    annotation: str | None = None
    default: str | None = None


@dataclass(frozen=True)
class Loop:
    """A loop of a kernel or of a helper that it calls.

    `kind` is `range`, `tl.range`, `static_range` or `while`. `start`, `stop`, `step` are source text (None for
    `while`). `step_tile` names the tile parameter the loop steps by, where there is one. `scalar` is true for a loop
    that handles one element per iteration: a load inside it whose address has no block dimension.
    """

    kind: str
    range: Range
    variable: str | None
    start: str | None
    stop: str | None
    step: str | None
    depth: int
    step_tile: str | None = None
    scalar: bool = False


@dataclass(frozen=True)
class Access:
    """One `tl.load`, `tl.store` or block-pointer/descriptor access.

    `pointer`: the parameter the address is built from (None when unknown). `address`: source text of the address.
    `mask` and `other`: source text or None. `block`: whether the address spans a block (contains a `tl.arange`), as
    opposed to one scalar element; None when unknown. `loops`: indexes into `Kernel.loops`, outermost first.
    `feeds`: what a loaded value reaches without an intervening `tl.where`: any of `reduction`, `dot`, `scan`, `store`.
    """

    kind: Literal["load", "store"]
    range: Range
    pointer: str | None
    address: str
    mask: str | None
    other: str | None
    block: bool | None
    loops: tuple[int, ...] = ()
    feeds: tuple[str, ...] = ()
    varies: tuple[int, ...] = ()
    """Those of `loops` whose iterations change the address, the mask, or a condition that the access stands under."""
    indirect: Literal["no", "scalar", "rows", "elements"] = "no"
    """What a loaded value chooses in the address: nothing, the place of the whole block, of each of its rows, or of
    each of its elements."""
    indexes: tuple[str, ...] = ()
    """The pointer parameters whose loaded blocks choose."""
    hints: tuple[tuple[str, str], ...] = ()
    """`eviction_policy`, `cache_modifier` and `volatile`, as written."""


@dataclass(frozen=True)
class Operation:
    """A dot, reduction, scan, atomic or slow-math call: `name` as written without its module (`dot`, `sum`, …)."""

    name: str
    range: Range
    arguments: tuple[str, ...]
    keywords: tuple[tuple[str, str], ...] = ()
    loops: tuple[int, ...] = ()


@dataclass(frozen=True)
class Product:
    """A product in an address: what it is made of, and what of that was multiplied in 32 bits (`narrow`).

    Names are those of parameters, or `program` (a program id), `loaded`, `loop` (a loop's variable) and `lane` (the
    place within a tile). `line` is where it is multiplied, 0 when unknown.
    """

    factors: tuple[str, ...]
    narrow: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Reach:
    """What decides about one access; for a helper of the file, at one of its calls.

    `name` is `load`, `store` or that of an atomic. `pointers` are the parameters that the address starts from.
    `where`, `when` and `what` are the program axes (0 to 2) that the address, the mask and the conditions around it,
    and the stored value depend on, through loads too; -1 among them stands for something that the text does not show.
    """

    name: str
    range: Range
    pointers: tuple[str, ...]
    products: tuple[Product, ...]
    where: tuple[int, ...]
    when: tuple[int, ...]
    what: tuple[int, ...]
    value: str | None = None
    """The stored value as written."""
    indexed: bool = False
    """Whether the address is made of values loaded lane by lane: two programs, or two lanes, may meet there."""
    chosen: bool = False
    """Whether a branch on a constexpr decides if it happens at all."""


@dataclass(frozen=True)
class ApiUse:
    """A function of Triton, by its canonical path, that a kernel, a helper or a decorator uses; first where it does.

    With `keyword`, that argument of it.
    """

    path: str
    range: Range
    keyword: str = ""


@dataclass(frozen=True)
class ConfigEntry:
    """One `triton.Config` of an autotuner, as far as it is written out: values are source text."""

    constexprs: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Autotune:
    """`@triton.autotune`: `configs` is empty when more than comprehensions, sums and conditions computes them."""

    range: Range
    configs: tuple[ConfigEntry, ...]
    key: tuple[str, ...]
    reset_to_zero: tuple[str, ...] = ()
    restore_value: tuple[str, ...] = ()
    hooks: bool = False
    """Whether a hook runs before or after configurations, which may restore what they change."""
    computed: bool = False
    """Whether what is restored is computed, so that its names are not known."""
    varies: bool = False
    """Whether conditions decide which of `configs` there are: of the device, say. It then has all that there may be."""


@dataclass(frozen=True)
class LaunchValue:
    """Where one value of a launch comes from: source text and the kind of its source.

    `range` is the expression at the launch; `origin` the place where the value is set (the literal itself, the
    right-hand side of the assignment, the default), where it can be edited. Both None when there is no such place.
    """

    text: str
    source: ValueSource
    range: Range | None = None
    origin: Range | None = None


@dataclass(frozen=True)
class LaunchSite:
    """One place that launches the kernel: `kernel[grid](…)`, `kernel.run(…)`, through an alias, and so on.

    `host` is the qualified name of the enclosing function (None at module level). `grid` is source text of the grid
    expression with names resolved one step where it is a local variable; `grid_range` its place. `arguments` maps the
    kernel's parameters to their source text and `constexprs`/`options` say where the tunable values come from.
    """

    file: str
    host: str | None
    range: Range
    grid: str
    grid_kind: Literal["tuple", "lambda", "variable", "function", "call", "unknown"]
    grid_range: Range | None
    arguments: tuple[tuple[str, str], ...]
    constexprs: tuple[tuple[str, LaunchValue], ...]
    options: tuple[tuple[str, LaunchValue], ...]
    site_hash: str = ""


@dataclass(frozen=True)
class Helper:
    """A jit function that the kernel calls, with where it is defined when that is in the same file."""

    name: str
    range: Range | None


@dataclass(frozen=True)
class Suppression:
    """`# tritonforge: ignore[TF203]` at `line`: the codes it silences (empty: all), for that line or a whole kernel.

    `until`: the last day (`2027-03-01`) on which it counts, or whatever else stands after the word; None: for ever.
    """

    line: int
    codes: tuple[str, ...]
    whole_kernel: bool = False
    until: str | None = None


@dataclass(frozen=True)
class Kernel:
    """One `@triton.jit` entry function and the facts that its source shows.

    `name` is qualified as Python does it, without `<locals>` (`Outer.kernel`, `factory.kernel`); two kernels of one
    name in a file differ by `range`. `program_axes` maps each `tl.program_id` axis to the tile parameters that multiply
    it (`{0: ("BLOCK_M",)}`), as far as the source shows it. `code_hash` covers the function, its decorators, the
    helpers it calls and the module constants it reads, over normalised source.
    """

    file: str
    name: str
    range: Range
    name_range: Range
    parameters: tuple[Parameter, ...]
    loops: tuple[Loop, ...] = ()
    accesses: tuple[Access, ...] = ()
    dots: tuple[Operation, ...] = ()
    reductions: tuple[Operation, ...] = ()
    scans: tuple[Operation, ...] = ()
    atomics: tuple[Operation, ...] = ()
    math: tuple[Operation, ...] = ()
    decorators: tuple[str, ...] = ()
    autotune: Autotune | None = None
    heuristics: tuple[str, ...] = ()
    helpers: tuple[Helper, ...] = ()
    launch_sites: tuple[LaunchSite, ...] = ()
    program_axes: tuple[tuple[int, tuple[str, ...]], ...] = ()
    constants: tuple[str, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    reaches: tuple[Reach, ...] | None = None
    """Every access with what decides about it, in source order; None when the kernel is too large to follow."""
    apis: tuple[ApiUse, ...] = ()
    code_hash: str = ""

    @property
    def simple_name(self) -> str:
        """The function's own name, without its qualifiers."""
        return self.name.rpartition(".")[2]

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter called `name`, or None."""
        return next((p for p in self.parameters if p.name == name), None)

    @property
    def tiles(self) -> tuple[str, ...]:
        """The names of the tunable constexprs, in signature order."""
        return tuple(p.name for p in self.parameters if p.role == "tile")


@dataclass(frozen=True)
class SourceError:
    """Why a file, or a part of it, could not be analysed: `line` is 1-based."""

    file: str
    line: int
    message: str


@dataclass(frozen=True)
class CommentProblem:
    """A `# tritonforge: …` comment that does nothing, or a part of one: its place, and what is wrong with the mend."""

    file: str
    range: Range
    message: str


@dataclass(frozen=True)
class SpecComment:
    """A `# tritonforge: launch …` comment: its text after the word `launch`, and the function below it.

    `line` and `column` are where the text starts. Further lines of the comment follow in `text` after a newline each,
    with blanks in place of what stands left of their words, so that they start at column 1 of the file's next lines.
    """

    line: int
    column: int
    text: str
    function: str | None


@dataclass(frozen=True)
class HostParameter:
    """One parameter of a host function. `annotation` and `default` are source text, or None."""

    name: str
    annotation: str | None = None
    default: str | None = None


@dataclass(frozen=True)
class HostFunction:
    """A function that a launch spec can describe a call of: of the module, or of a class of the module.

    `name` is its qualified name, as in `LaunchSite.host`. `called_as` is what is called to reach it (`Op.apply` for the
    `forward` of an `autograd.Function`), None when it needs an object first. `parameters` are those that a caller
    gives (no `self`, `ctx`); `positional` says that they can only be given in order; `open` that it takes further
    keywords (`**kwargs`). `range` includes decorators; `source` is the exact text of the definition.
    """

    name: str
    called_as: str | None
    parameters: tuple[HostParameter, ...]
    range: Range
    source: str
    positional: bool = False
    open: bool = False


@dataclass(frozen=True)
class RunnableEntry:
    """Something in a file that can be run to observe launches.

    `kind`: `main` (an `if __name__ == "__main__"` block), `module` (module-level calls), `function` (a zero-argument
    test, bench or main function; `name` says which).
    """

    kind: Literal["main", "module", "function"]
    name: str
    line: int


@dataclass(frozen=True)
class FileAnalysis:
    """Everything `analysis` finds in one file."""

    file: str
    kernels: tuple[Kernel, ...] = ()
    errors: tuple[SourceError, ...] = ()
    specs: tuple[SpecComment, ...] = ()
    entries: tuple[RunnableEntry, ...] = field(default=())
    functions: tuple[HostFunction, ...] = ()
    comment_problems: tuple[CommentProblem, ...] = ()
