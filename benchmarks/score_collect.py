"""The performance findings that compiling alone brings on the corpora, each with the launch that it is about."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from coverage_corpora import CORPORA, CORPUS, drivers_of, jobs_of

from tritonforge.analysis import analyze
from tritonforge.compilation import read
from tritonforge.config import OFFLINE
from tritonforge.diagnosis import Case, Gpu, diagnose
from tritonforge.domain.finding import SEVERITIES, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.messages import Compile, CompiledLaunch, Limits, Program, Record
from tritonforge.jobs import JobError, Worker, connect
from tritonforge.prediction import GpuSpec, footprint_of, gpu_for, predict, unique_bytes
from tritonforge.workload.launches import to_launch
from tritonforge.workload.program_launches import direct_call

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("TF1", "TF2", "TF3", "TF4")
GPU = "H200"
ARCH = "sm_90"
LIMITS = Limits(seconds=40.0, memory_bytes=8 << 30)

FLA_SIZES = (
    ("B, T, H, K, V = 1, 100, 2, 32, 32", "B, T, H, K, V = 2, 2048, 16, 64, 64"),
    ("[0, 30, T]", "[0, 700, T]"),
    ("t=12", "t=512"),
    ("(B, 12, ", "(B, 512, "),
)
"""What turns the drivers of `fla_ops.py`, which are about paths, into drivers at the sizes of a small model."""
_CASES = "\n\ndef drive_{0}():\n    cases()[{0!r}][0]()\n"


@dataclass(frozen=True)
class Source:
    """Something that can be recorded: `corpus` and `name` say what it is, the rest how it is run."""

    corpus: str
    name: str
    program: Program
    entry: str
    function: str = ""


@dataclass(frozen=True)
class Claim:
    """A finding, and what it takes to make the launch that it is about: `program` and `call`.

    `launch` is as the compiler saw it, `useful_bytes` the bytes that it must move, `predicted_us` the model's time with
    `dominant`, the part that decides it.
    """

    corpus: str
    source: str
    finding: Finding
    kernel: str
    launch_id: str
    program: Program
    call: Call
    launch: RecordedLaunch
    useful_bytes: float
    predicted_us: float | None
    dominant: str | None
    floor_us: float | None
    lines: tuple[int, int]
    """The first and last line of the loop or operation that the finding names."""

    @property
    def id(self) -> str:
        """What a judgement is kept under: the rule, the file, the kernel and the line."""
        file = place(self.finding.file)
        return f"{self.finding.code} {file}::{self.kernel}:{self.finding.range.start.line}"


def place(file: str) -> str:
    """Return a file's path below the folder that its package lies in, or below the repository."""
    package = re.search(r"(?:^|/)((?:liger_kernel|fla)/.*)", file)
    return package[1] if package else file.removeprefix(f"{ROOT}/")


def sources() -> Iterator[Source]:
    """Yield everything that is driven, what is ours first."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield Source("examples", path.stem, Program(str(path.parent), path.name), "main")
    yield from _labelled()
    yield from _pathologies()
    for path in sorted((ROOT / "benchmarks" / "proof" / "kernels").glob("*.py")):
        yield Source("proof", path.stem, Program(str(path.parent), path.name), "main")
    folder = str(CORPORA)
    for name in drivers_of(CORPORA / "liger_sizes.py"):
        yield Source("liger-kernel", f"{name} at size", Program(folder, "liger_sizes.py"), "function", name)
    text = (CORPORA / "fla_ops.py").read_text(encoding="utf-8")
    for before, after in FLA_SIZES:
        if before not in text:
            raise ValueError(f"fla_ops.py no longer holds {before!r}")
        text = text.replace(before, after)
    for name in drivers_of(CORPORA / "fla_ops.py"):
        program = Program(folder, "fla_ops.py", (("fla_ops.py", text),))
        yield Source("fla-core", f"{name} at size", program, "function", name)
    for corpus, title in (("liger", "liger-kernel"), ("fla", "fla-core")):
        for program, entry, name in jobs_of(CORPUS[corpus], []):
            yield Source(title, name, program, entry, name)


def _labelled() -> Iterator[Source]:
    for path in sorted((ROOT / "benchmarks" / "labelled").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        (table,) = (n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "LABELS")
        for name in ast.literal_eval(table.value):
            yield Source("labelled", name, Program(str(path.parent), path.name), "function", name)


def _pathologies() -> Iterator[Source]:
    path = ROOT / "tests" / "data" / "h200" / "pathologies.py"
    names = json.loads((path.parent / "labels.json").read_text(encoding="utf-8"))
    text = path.read_text(encoding="utf-8") + "".join(_CASES.format(name) for name in names)
    for name in names:
        program = Program(str(path.parent), path.name, ((path.name, text),))
        yield Source("pathologies", name, program, "function", f"drive_{name}")


@cache
def _kernels(path: str, text: str) -> tuple[Kernel, ...]:
    return analyze(text, path).kernels


def kernel_of(program: Program, launch: RecordedLaunch) -> Kernel | None:
    """Return the kernel behind a launch; None for one whose source is not in a file."""
    overlays = dict(program.overlays)
    path = Path(program.root) / launch.kernel_file
    text = overlays.get(launch.kernel_file) or (path.read_text(encoding="utf-8") if path.is_file() else "")
    for kernel in _kernels(str(path), text):
        inside = kernel.range.start.line <= launch.kernel_line <= kernel.range.end.line
        if kernel.name == launch.kernel and inside:
            return kernel
    return None


Keep = Callable[[Source, Case], None]
"""What is given every launch that was compiled."""


async def claims_of(worker: Worker, source: Source, spec: GpuSpec, keep: Keep | None = None) -> list[Claim]:
    """Record one source, compile its launches and return what is said of them; of one place only the gravest.

    Raises:
        JobError: when the source cannot be recorded.
    """
    recorded = await worker.run(Record(source.program, source.entry, source.function), limits=LIMITS)
    found: list[Claim] = []
    seen: set[str] = set()
    for call in recorded.calls:
        for launch in call.launches:
            kernel = kernel_of(source.program, launch)
            identity = to_launch(kernel, launch).id if kernel is not None else ""
            if kernel is None or identity in seen:
                continue
            seen.add(identity)
            layers = (kernel.autotune is not None) + bool(kernel.heuristics)
            direct = direct_call(launch, layers=layers)
            if direct is None:
                continue
            try:
                result = await worker.run(Compile(source.program, direct, ARCH), limits=LIMITS)
            except JobError:
                continue
            for one in result.launches:
                found += await asyncio.to_thread(_judge, source, kernel, direct, one, spec, keep)
    return gravest(found)


def _judge(
    source: Source, kernel: Kernel, direct: Call, one: CompiledLaunch, spec: GpuSpec, keep: Keep | None
) -> list[Claim]:
    launch = to_launch(kernel, one.launch, call=direct.id)
    facts = read(one, launch_id=launch.id, kernel_file_path=kernel.file, source_range=kernel.range)
    if facts.error is not None:
        return []
    useful = unique_bytes(launch)
    prediction = predict(facts, footprint_of(launch), spec, spec.ceilings)
    case = Case(kernel, launch, facts, prediction, gpu=Gpu(spec.sms, spec.ceilings))
    if keep is not None:
        keep(source, case)
    return [
        Claim(
            source.corpus, source.name, finding, kernel.name, launch.id, source.program, direct, one.launch, useful,
            prediction.time_us if prediction else None, prediction.dominant if prediction else None,
            useful / (spec.ceilings.copy_gbps * 1e3), lines_of(kernel, finding),
        )
        for finding in diagnose(kernel, [case], select=FAMILIES)
    ]  # fmt: skip


def lines_of(kernel: Kernel, finding: Finding) -> tuple[int, int]:
    """Return the lines of what a finding names: of a loop, at whose header it stands, the whole body."""
    place = finding.range
    ends = [loop.range for loop in kernel.loops if loop.range.start.line == place.start.line]
    whole = ends[0] if ends and finding.code == "TF207" else place
    last = whole.end.line - (whole.end.column == 1 and whole.end.line > whole.start.line)
    return whole.start.line, last


def gravest(claims: list[Claim]) -> list[Claim]:
    """Return one claim for each place: the gravest, among equals that of the longest launch, as `analyze` does."""
    best: dict[str, Claim] = {}
    for claim in claims:
        known = best.get(claim.id)
        if known is None or _weight(claim) < _weight(known):
            best[claim.id] = claim
    return list(best.values())


def _weight(claim: Claim) -> tuple[int, float]:
    return SEVERITIES.index(claim.finding.severity), -(claim.predicted_us or 0.0)


async def collect(
    wanted: list[Source],
    *,
    seconds: float,
    told: Callable[[Source, list[Claim] | str, float], None],
    keep: Keep | None = None,
) -> list[Claim]:
    """Collect from every source, as many at once as there are lanes, until the time is over."""
    spec = gpu_for(ARCH, GPU)
    assert spec is not None
    found: list[Claim] = []
    started = time.perf_counter()
    os.environ.setdefault("OMP_NUM_THREADS", "2")  # lanes are what runs in parallel
    async with connect(OFFLINE, limits=LIMITS, warm=("compile",)) as worker:
        waiting = list(reversed(wanted))

        async def lane() -> None:
            while waiting and time.perf_counter() - started < seconds:
                source = waiting.pop()
                began = time.perf_counter()
                try:
                    claims: list[Claim] | str = await claims_of(worker, source, spec, keep)
                except JobError as error:
                    claims = error.failure.message
                if not isinstance(claims, str):
                    found.extend(claims)
                told(source, claims, time.perf_counter() - began)

        lanes = [asyncio.ensure_future(lane()) for _ in range(worker.hello.lanes + 1)]
        await asyncio.wait(lanes, timeout=seconds + 15.0)
        for one in lanes:
            one.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
    return gravest(found)
