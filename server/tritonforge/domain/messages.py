"""Jobs a worker does: one frozen request and one result type each.

Headers of the frames on the wire (see `frames`) are `{"v", "kind": "request"|"result"|"failure"|"progress"|"cancel"|
"hello", "id", …}`. A request's header has its class name under `"job"`, `"seconds"` and `"memory_bytes"` from its
`Limits`, and `"priority"`; the request itself, like a result, a `Failure` and the hello's `WorkerInfo`, is the body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, TypeVar

from tritonforge.domain.baseline import GpuState
from tritonforge.domain.coverage import KernelCoverage
from tritonforge.domain.faults import Fault
from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.profile import Ceilings
from tritonforge.domain.target import WorkerInfo

R = TypeVar("R")
Lane = Literal["compile", "interpret", "device", "control"]
"""`compile`: records and compiles without touching a GPU. `interpret`: runs kernels in Triton's interpreter on the CPU.
`device`: runs on the GPU, alone on the machine. `control`: answered by the supervisor itself."""


@dataclass(frozen=True)
class Program:
    """Source to load: the workspace root, the file to load, and texts that replace files on disk.

    `file` is relative to `root` (or absolute outside it); `overlays` are (path as in `file`, text).
    """

    root: str
    file: str
    overlays: tuple[tuple[str, str], ...] = ()


class Request(Generic[R]):
    """Base of all requests: says which lane runs it and what comes back."""

    lane: ClassVar[Lane]
    result: ClassVar[type]


@dataclass(frozen=True)
class Output:
    """What user code printed while it ran, both streams together, cut to the last 20,000 characters."""

    text: str = ""


@dataclass(frozen=True)
class RecordResult:
    """Calls in the order they were first made, each with the launches it made; kernels that could not be described."""

    calls: tuple[Call, ...]
    failures: tuple[tuple[str, str], ...] = ()
    output: str = ""


@dataclass(frozen=True)
class Record(Request[RecordResult]):
    """Run something of the user's file and describe the calls and launches that it makes, launching nothing.

    `entry` is `main`, `module` or `function`; `name` the function. `functions` are the qualified names of the host
    functions worth recording as calls (those with launch sites and those that call them).
    """

    program: Program
    entry: Literal["main", "module", "function"]
    name: str = ""
    lane: ClassVar[Lane] = "compile"
    result: ClassVar[type] = RecordResult


@dataclass(frozen=True)
class CompiledLaunch:
    """One launch with the compiler's artefacts.

    Texts of `ttir`, `ttgir`, `ptx`, `sass` (with line information and
    inlining chains), `resources` (the resource-usage dump) and the kernel's metadata. Empty with `error` set.
    """

    launch: RecordedLaunch
    arch: str
    triton: str
    artefacts: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    compile_ms: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class CompileResult:
    """The launches of the call in the order they were made, each compiled once.

    `sources`: (absolute path, `file_state`) of the files, besides those whose text came with the program, whose change
    may make another result of the same request.
    """

    launches: tuple[CompiledLaunch, ...]
    output: str = ""
    sources: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Compile(Request[CompileResult]):
    """Repeat `call` on `program` without launching, and compile each launch of `kernels` (all when empty) for `arch`.

    `artefacts` chooses which texts come back; resources and metadata always do.
    """

    program: Program
    call: Call
    arch: str
    kernels: tuple[str, ...] = ()
    artefacts: tuple[str, ...] = ("ttir", "ttgir", "sass")
    turn: int = 0
    """Which of its configurations an autotuner compiles (`CompareOnDevice.turns`)."""
    lane: ClassVar[Lane] = "compile"
    result: ClassVar[type] = CompileResult


@dataclass(frozen=True)
class Tolerance:
    """When an output counts as equal to the oracle's; `worker/judging.py` has the rule and its reasons.

    `multiple`: how often the original's own error, or what one rounding of its accumulation precision on its inputs
    would cause, an element may be off. `orders`: how often the standard deviation of what sums lose whose terms are
    added one by one. `roundings`: how many roundings of that precision it may be off in any case, at the element's own
    or its neighbours' typical value. `norm`: how often the expected error the root mean square of errors may be.
    `relative`: this much of the output's largest value is allowed besides. The last rounding, to the output's type,
    always is. NaN and Inf must agree in place and sign; integers, bools and indices must be equal.
    """

    multiple: float = 8.0
    orders: float = 6.0
    roundings: float = 4.0
    norm: float = 2.0
    relative: float = 0.0

    @property
    def text(self) -> str:
        """The rule in one sentence."""
        more = f", plus {self.relative:g} of the output's largest value" if self.relative else ""
        return (
            f"the output's rounding plus the largest of {self.multiple:g}× the original's own error, "
            f"{self.multiple:g}× what one rounding of the inputs causes, {self.orders:g}× what adding one by one loses "
            f"and {self.roundings:g} roundings at its scale{more}; {self.norm:g}× in norm; integers, NaN and Inf exact"
        )


OracleKind = Literal["widened", "reference", "original"]
"""`widened`: the original, interpreted in float64. `reference`: a PyTorch function in float64. `original`: what the
original itself computes."""


@dataclass(frozen=True)
class Difference:
    """One element that differs: which output, its index, what was expected and what came.

    `count` of `elements` differ. `allowed`: the largest |got − expected| that would have passed; None where none would.
    """

    output: str
    index: tuple[int, ...]
    expected: float
    got: float
    count: int
    elements: int
    allowed: float | None = None


@dataclass(frozen=True)
class Precision:
    """How exact an original's arithmetic was found to be where it could be followed.

    `eps`: that of the finest floating type it adds and multiplies in. `lost`: the error of its results before their
    last rounding, root mean square, relative to their magnitude.
    """

    eps: float
    lost: float = 0.0


@dataclass(frozen=True)
class InputOutcome:
    """What happened on one input.

    `status`: `equal`, `different`, `original-failed` (the original itself raises or leaves its buffers: the input says
    nothing), `candidate-failed`. `worst_error` is the largest |got − oracle| over the oracle's largest value, over all
    outputs, `norm_error` the same of root mean squares; `original_*` are those of the original, None where it is the
    oracle itself or was not asked. `oracle` says what that was, empty where nothing was compared; a candidate that is
    equal to the original to the last bit needs no other. `note` says what a person should know of the original: that
    it could not be widened, or is far from its reference. `outputs`: how many that have elements were compared.
    `precision`: the original's, where it was evaluated in float64. `out_of_bounds`: who failed reads or writes outside
    every buffer of the launch. `operations`: how many operations on blocks the original's run took, where it was
    interpreted. `overlapping`: programs or lanes of the original write different values to one element, so that the
    order decides. `unwritten`: elements that the original left unwritten in what it returns and fills.
    """

    status: Literal["equal", "different", "original-failed", "candidate-failed"]
    detail: str = ""
    worst_error: float | None = None
    original_error: float | None = None
    out_of_bounds: bool = False
    difference: Difference | None = None
    inputs_changed: tuple[str, ...] = ()
    outputs: int = 0
    seconds: float = 0.0
    oracle: OracleKind | Literal[""] = ""
    norm_error: float | None = None
    original_norm_error: float | None = None
    note: str = ""
    precision: Precision | None = None
    operations: int = 0
    overlapping: bool = False
    unwritten: int = 0
    check: str = ""
    """The name of the honesty check that refuses the candidate here (see `CompareResult.checks`)."""


@dataclass(frozen=True)
class CompareResult:
    """One outcome for each input, in order; fewer when `stop_at_first` ended it.

    `checks`: what was done to find out whether results come about honestly, as (name, result); a result is `passed`,
    `failed: why` or `skipped: why`, and the outcome of the input where one failed is `different`. `coverage`: what of
    the candidate's kernels ran on all inputs. `notes`: what was seen of the original itself, one sentence each.
    """

    outcomes: tuple[InputOutcome, ...]
    checks: tuple[tuple[str, str], ...] = ()
    coverage: tuple[KernelCoverage, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reference:
    """A PyTorch function that says what is right: `function` is its qualified name in the program's file.

    It takes what the host function takes, floating tensors in float64, and returns or changes tensors as that does.
    """

    program: Program
    function: str


Runs = Literal["both", "again", "once"]


@dataclass(frozen=True)
class Compare(Request[CompareResult]):
    """Run `original` and `candidate` on each input and compare what they return and change. Interpreter only.

    Every buffer has guard zones, memory from `torch.empty` is poisoned, and lanes that a masked load without `other`
    leaves undefined hold poison too. `kernels` names the kernels under test, for messages.
    """

    original: Program
    candidate: Program
    inputs: tuple[Call, ...]
    tolerance: Tolerance = Tolerance()
    stop_at_first: bool = True
    candidate_inputs: tuple[Call, ...] = ()
    """The same inputs as the candidate takes them, one for each, where a direct launch of its kernel is another: by
    another name, with its own tiles. Empty: `inputs`."""
    reference: Reference | None = None
    runs: Runs = "both"
    """`once`: only the original, and what it can do comes out `equal`; `again`: the original twice, to see whether it
    repeats its own results."""
    again: bool = True
    """Whether a candidate that agrees on all inputs is run again on some, in other orders and with other values."""
    made: tuple[int, ...] = ()
    """Which inputs have integers that were made to fit other sizes, so that they may contradict each other. What the
    order of the original's programs decides there says nothing of a candidate."""
    complete: bool = False
    """Whether the original writes all of its outputs where integers do fit: what it leaves unwritten on inputs in
    `made` says nothing, either."""
    lane: ClassVar[Lane] = "interpret"
    result: ClassVar[type] = CompareResult


TUNED = -1
"""A turn that leaves the choice of a configuration to the autotuner."""


@dataclass(frozen=True)
class CompareOnDevice(Request[CompareResult]):
    """The same as `Compare`, on the GPU at the sizes given: poisoned fresh memory, inputs compared afterwards."""

    original: Program
    candidate: Program
    inputs: tuple[Call, ...]
    tolerance: Tolerance = Tolerance()
    stop_at_first: bool = True
    reference: Reference | None = None
    precision: Precision | None = None
    """The original's as the interpreter told it, of several the one that lost most; unknown, it is taken to be good."""
    thorough: bool = True
    """Whether all is tried that may still explain a difference; at full size that takes long."""
    made: tuple[int, ...] = ()
    complete: bool = False
    """As in `Compare`."""
    turns: tuple[int, ...] = ()
    """Which configuration the candidate's autotuners use on each input, counted round and round from their first, those
    of unlike constexprs before others. `TUNED`: the one that they choose. Empty: their first, as the original's do."""
    lane: ClassVar[Lane] = "device"
    result: ClassVar[type] = CompareResult
    measures: ClassVar[bool] = False
    """It is no measurement, so that others may compile and interpret meanwhile."""


@dataclass(frozen=True)
class TimedLaunch:
    """Samples in µs of one launch of a call; `restored` says that buffers it changes were reset before each sample."""

    launch: RecordedLaunch
    samples: tuple[float, ...]
    restored: bool = False


@dataclass(frozen=True)
class TimedProgram:
    """The launches of one program's call, in order; `error` set and empty when it failed.

    `whole`: samples in µs of the whole call, from when the GPU begins its first work to when it ends its last, where
    that was asked for and can be timed. `memory`: it failed because the GPU has too little memory, of which the
    programs before it hold a part.
    """

    launches: tuple[TimedLaunch, ...]
    error: str | None = None
    whole: tuple[float, ...] = ()
    memory: bool = False


Clock = Literal["cupti", "events"]
"""What times were read from: `cupti`, the device's own start and end of each kernel; `events`, device events before and
after it on the stream, less what an empty interval between two events reads."""


@dataclass(frozen=True)
class TimeResult:
    """One entry for each program, in order. `notes` says what disturbed the measurement, and how L2 was treated.

    Sample `i` of every launch of every program was taken in the same round, so that samples may be paired.
    """

    programs: tuple[TimedProgram, ...]
    notes: tuple[str, ...] = ()
    clock: Clock = "events"


@dataclass(frozen=True)
class Time(Request[TimeResult]):
    """Measure each launch of `call` under each program, interleaved in random order, L2 flushed before every sample.

    `kernels`: simple names to time (empty: all). `samples`: wanted samples for each launch and program; fewer are
    taken when `budget_s` would be passed. `clock`: `auto` is `cupti` where the worker's Triton has it, else `events`.
    `whole`: time the whole call afterwards, too, by events: what its host code has the GPU do beside those launches
    (copies, sums, other kernels) is in it. `narrow`: autotuners of all programs but the first choose among the
    configurations that they add, or else among those that were fastest for the first.
    """

    programs: tuple[Program, ...]
    call: Call
    kernels: tuple[str, ...] = ()
    samples: int = 30
    budget_s: float = 10.0
    clock: Literal["auto", "cupti", "events"] = "auto"
    whole: bool = False
    narrow: bool = False
    lane: ClassVar[Lane] = "device"
    result: ClassVar[type] = TimeResult


@dataclass(frozen=True)
class TimeFresh(Time):
    """As `Time`, in a process of its own: what an earlier measurement left behind cannot be in the times."""

    fresh: ClassVar[bool] = True


@dataclass(frozen=True)
class TimeBeside(Time):
    """As `Time`, beside jobs that compile, where the machine has cores enough to keep both apart; else alone, too."""

    beside: ClassVar[bool] = True


@dataclass(frozen=True)
class CountResult:
    """What a profiler said of the launches of one call.

    `launches`: those that were profiled, in that order. `report`: the bytes of a Nsight Compute report; `pages`: its
    CSV pages by name (`raw`, `sass`, `lines`), where they were asked for. `samples`: the tree of program-counter
    samples that Proton wrote, as JSON, with a scope `launch0`, `launch1`, … for each launch. `tool` names the profiler
    and its version. `refused` says in a sentence why nothing was counted, `mend` what to do about it, and `lasting`
    that another try will end alike.
    """

    launches: tuple[RecordedLaunch, ...] = ()
    report: bytes = b""
    pages: Mapping[str, str] = field(default_factory=dict)
    samples: str = ""
    tool: str = ""
    refused: str = ""
    mend: str = ""
    lasting: bool = False
    output: str = ""


@dataclass(frozen=True)
class Count(Request[CountResult]):
    """Repeat each distinct launch of `kernels` that `call` makes once under a profiler, in a process of its own.

    `level`: `ncu` reads hardware counters with Nsight Compute, `pcsampling` samples program counters with Proton.
    `pages` asks for the report as CSV too, for a reader that knows no reports. At most `most` launches are profiled,
    in at most `budget_s` seconds.
    """

    program: Program
    call: Call
    kernels: tuple[str, ...] = ()
    level: Literal["ncu", "pcsampling"] = "ncu"
    pages: bool = False
    most: int = 8
    budget_s: float = 120.0
    lane: ClassVar[Lane] = "device"
    result: ClassVar[type] = CountResult


@dataclass(frozen=True)
class SanitizeResult:
    """What compute-sanitizer found.

    `errors`: one sentence for each place. `checked`: the checks that came to their end. `skipped`: why others did not,
    empty when all did. `tool`: its name and version.
    """

    errors: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    skipped: str = ""
    tool: str = ""


@dataclass(frozen=True)
class Sanitize(Request[SanitizeResult]):
    """Run a call once under each of compute-sanitizer's `checks`, on the GPU, in a process of its own.

    `memcheck` finds accesses outside of memory or misaligned, `racecheck` races in shared memory. `budget_s` bounds all
    of them together.
    """

    program: Program
    call: Call
    checks: tuple[Literal["memcheck", "racecheck"], ...] = ("memcheck", "racecheck")
    budget_s: float = 60.0
    lane: ClassVar[Lane] = "device"
    result: ClassVar[type] = SanitizeResult


@dataclass(frozen=True)
class MeasureCeilings(Request[Ceilings]):
    """Measure bandwidths of memory and L2, matrix rates and launch overhead of the worker's GPU."""

    lane: ClassVar[Lane] = "device"
    result: ClassVar[type] = Ceilings


@dataclass(frozen=True)
class Describe(Request[WorkerInfo]):
    """Say which Python, torch, triton and GPUs the worker has (needs the zygote's imports, unlike the hello frame)."""

    lane: ClassVar[Lane] = "compile"
    result: ClassVar[type] = WorkerInfo


@dataclass(frozen=True)
class BufferExtent:
    """What a launch touches of one buffer, in elements from where the parameter's pointer points.

    `high` is one past the highest element that is read or written, 0 when none is. An atomic reads and writes.
    """

    parameter: str
    high: int
    read: bool
    written: bool


@dataclass(frozen=True)
class CallExtents:
    """What one direct launch touches. `error` says why it could not be run to its end; empty when it could.

    `overlapping`: two programs, or two lanes of one store, write the same element, so that the order decides.
    """

    buffers: tuple[BufferExtent, ...] = ()
    overlapping: bool = False
    error: str = ""


@dataclass(frozen=True)
class ExtentsResult:
    """One entry for each input, in order."""

    extents: tuple[CallExtents, ...]


@dataclass(frozen=True)
class MeasureExtents(Request[ExtentsResult]):
    """Interpret each direct launch of `inputs` and say which part of every buffer it touches.

    Arguments are given by name. Buffers are meant to be roomy: an access outside is an error like any other. `seconds`
    bounds each launch.
    """

    program: Program
    inputs: tuple[Call, ...]
    seconds: float = 3.0
    lane: ClassVar[Lane] = "interpret"
    result: ClassVar[type] = ExtentsResult


@dataclass(frozen=True)
class WatchResult:
    """The faults that were seen, each once. `stopped` says why the call was not run to its end; empty when it was."""

    faults: tuple[Fault, ...] = ()
    stopped: str = ""


@dataclass(frozen=True)
class Watch(Request[WatchResult]):
    """Interpret `call` with every access checked and every element followed from program to program.

    It ends with the first access outside all buffers, and after `seconds`; programs run from the last to the first,
    because it is the last ones that reach beyond ends.
    """

    program: Program
    call: Call
    seconds: float = 5.0
    lane: ClassVar[Lane] = "interpret"
    result: ClassVar[type] = WatchResult


@dataclass(frozen=True)
class LookAtGpu(Request[GpuState]):
    """Say how the GPU is: clocks, temperature, who else uses it. Makes its lane ready, and runs nothing there.

    `idle`: nothing of ours has run for a moment, so that its utilisation is that of others.
    """

    idle: bool = False
    lane: ClassVar[Lane] = "device"
    result: ClassVar[type] = GpuState
    measures: ClassVar[bool] = False


JOBS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Record,
        Compile,
        Compare,
        CompareOnDevice,
        Time,
        TimeFresh,
        TimeBeside,
        Count,
        MeasureCeilings,
        Describe,
        MeasureExtents,
        Sanitize,
        Watch,
        LookAtGpu,
    )
}

FailureKind = Literal[
    "timeout",  # the job's time limit
    "memory",  # the job's memory limit, or the machine's
    "crashed",  # the lane's process died
    "user-error",  # the user's code raised
    "compile-error",  # Triton or ptxas refused the kernel
    "cuda-error",  # illegal access, device assert, launch failure
    "unsupported",  # the worker cannot do this (no GPU, version too old, value that cannot be rebuilt)
    "environment",  # the machine lacks what every job needs: a folder for its cache, room on the disk
    "cancelled",
    "protocol",  # versions differ, message malformed
    "internal",  # a bug of ours
]


@dataclass(frozen=True)
class Failure:
    """Why a job gave no result: one sentence; for user errors the file and line; `detail` a traceback for --verbose."""

    kind: FailureKind
    message: str
    file: str | None = None
    line: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Limits:
    """Bounds of one job: seconds of wall time, bytes of resident memory of its whole process tree."""

    seconds: float = 120.0
    memory_bytes: int = 8 << 30
