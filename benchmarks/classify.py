"""Score the bottleneck classes on launches whose bottleneck is known by construction, at every level of evidence.

    python benchmarks/classify.py TABLE.json EVIDENCE.json.xz [--target NAME] [NAME …]   # measure the labelled launches
    python benchmarks/classify.py TABLE.json EVIDENCE.json.xz --replay                   # judge kept evidence anew
    python benchmarks/classify.py TABLE.json --recorded                                  # the 19 launches of tests/data

NAME is a host function or a file's stem (`memory`, `compute`, `schedule`); with names, evidence that the file has of
other launches is kept, so that a run may be split.

The first form profiles each host function of `benchmarks/labelled/*.py` through our own path (compilation, time, and
counters where the target permits them) and keeps everything the classes were judged by, so that the table can be made
again anywhere. The levels are: `compiled` (nothing was run), `timed` (compiled and timed), `counters` (counters and the
source alone, as a report from elsewhere has them), `all`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import importlib.util
import json
import lzma
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.diagnosis import Case, Gpu, classify
from tritonforge.domain.codec import decode, encode
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.counters import Counters
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, Distribution, Launch, Tensor
from tritonforge.domain.profile import Ceilings, TimeDistribution
from tritonforge.prediction import footprint_of, gpu_for, predict, unique_bytes
from tritonforge.profiling.roofline import roofline

ROOT = Path(__file__).resolve().parent.parent
LABELLED = ROOT / "benchmarks" / "labelled"
LEVELS = ("compiled", "timed", "counters", "all")


@dataclass(frozen=True)
class Label:
    """A host function without arguments of `file`, the kernel it launches, the classes that are right, and why."""

    file: str
    function: str
    kernel: str
    classes: frozenset[str]
    why: str


@dataclass(frozen=True)
class Seen:
    """Everything that was found out about one labelled launch; what was not has a reason in `problem`."""

    launch: Launch | None = None
    compilation: Compilation | None = None
    time: TimeDistribution | None = None
    counters: Counters | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Kept:
    """The evidence of one run: where it ran, its ceilings, and what was seen of each launch."""

    gpu: str
    arch: str
    versions: tuple[tuple[str, str], ...]
    ceilings: Ceilings | None
    seen: tuple[tuple[str, Seen], ...]


def labels() -> Iterator[Label]:
    """Read the labels off the files' text, which needs no torch."""
    for path in sorted(LABELLED.glob("*.py")):
        for function, (kernel, classes, why) in _module(path).LABELS.items():
            yield Label(path.name, function, kernel, frozenset(classes), why)


def _module(path: Path) -> types.ModuleType:
    """Only the table of a labelled file is wanted: everything but its assignment is left out."""
    import ast

    tree = ast.parse(path.read_text(encoding="utf-8"))
    table = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "LABELS"]
    module = types.ModuleType(path.stem)
    module.LABELS = ast.literal_eval(table[0].value)
    return module


def kernels_of(file: str) -> dict[str, Kernel]:
    """Return the kernels of a labelled file by name."""
    return {k.name: k for k in analyze((LABELLED / file).read_text(encoding="utf-8"), file).kernels}


def cases(kernel: Kernel, seen: Seen, kept: Kept) -> dict[str, Case]:
    """Return the case of a launch at each level of evidence that there is."""
    spec = gpu_for(kept.arch, kept.gpu)
    found: dict[str, Case] = {}
    if spec is None:
        return found
    if seen.launch is not None and seen.compilation is not None:
        public, measured = spec.ceilings, kept.ceilings or spec.ceilings
        useful = unique_bytes(seen.launch)
        found["compiled"] = Case(
            kernel,
            seen.launch,
            seen.compilation,
            predict(seen.compilation, footprint_of(seen.launch), spec, public),
            gpu=Gpu(spec.sms, public),
        )
        if seen.time is not None:
            work = seen.compilation.work
            found["timed"] = Case(
                kernel,
                seen.launch,
                seen.compilation,
                predict(seen.compilation, footprint_of(seen.launch), spec, measured),
                seen.time,
                roofline(
                    useful_bytes=useful,
                    flops=work.total("dot_flops") * seen.launch.programs if work else 0.0,
                    dtype=work.dot_dtype if work else None,
                    time_us=seen.time.median,
                    ceilings=measured,
                ),
                Gpu(spec.sms, measured),
            )
    if seen.counters is not None:
        found["counters"] = Case(kernel, counters=seen.counters)
        best = found.get("timed") or found.get("compiled")
        if best is not None:
            found["all"] = dataclasses.replace(best, counters=seen.counters)
    return found


def table(kept: Kept, wanted: list[Label]) -> dict[str, object]:
    """Judge kept evidence: each class against its label, the score, and how often a confidence was right."""
    seen = dict(kept.seen)
    rows: dict[str, object] = {}
    verdicts: dict[str, list[tuple[float, bool, bool]]] = {level: [] for level in LEVELS}
    for label in wanted:
        kernel = kernels_of(label.file)[label.kernel]
        row: dict[str, object] = {"label": sorted(label.classes), "why": label.why}
        known = seen.get(label.function, Seen(problem="not measured"))
        if known.problem:
            row["problem"] = known.problem
        for level, case in cases(kernel, known, kept).items():
            found = classify(case)
            right = found.kind in label.classes
            verdicts[level].append((found.confidence, right, found.kind == "unknown"))
            row[level] = {
                "class": found.kind,
                "right": right,
                "confidence": round(found.confidence, 2),
                "provenance": found.provenance,
                "reason": found.reason,
            }
        if known.time is not None:
            row["time_us"] = round(known.time.median, 2)
        rows[label.function] = row
    return {
        "made": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "gpu": kept.gpu,
        "versions": dict(kept.versions),
        "score": {level: _score(found) for level, found in verdicts.items() if found},
        "launches": rows,
    }


def _score(found: list[tuple[float, bool, bool]]) -> dict[str, object]:
    """Count right and unknown ones, and compare confidence with the share that is right, in three bands."""
    bands = {}
    for low, high in ((0.0, 0.7), (0.7, 0.85), (0.85, 1.01)):
        inside = [(sure, right) for sure, right, unknown in found if low <= sure < high and not unknown]
        if inside:
            bands[f"{low:.2f}-{min(high, 1.0):.2f}"] = {
                "launches": len(inside),
                "mean_confidence": round(sum(sure for sure, _ in inside) / len(inside), 2),
                "right": round(sum(right for _, right in inside) / len(inside), 2),
            }
    return {
        "right": sum(right for _, right, _ in found),
        "unknown": sum(unknown for _, _, unknown in found),
        "of": len(found),
        "by_confidence": bands,
    }


async def measure(target: str | None, wanted: list[Label]) -> Kept:
    """Profile every labelled launch on a target."""
    from tritonforge.config import load
    from tritonforge.diagnosis.assessment import yardstick
    from tritonforge.diagnosis.profile_kernel import profile
    from tritonforge.domain.errors import TritonForgeError
    from tritonforge.jobs import JobError
    from tritonforge.jobs.session import open_session
    from tritonforge.profiling.ceilings import ceilings_of
    from tritonforge.store import open_store
    from tritonforge.workload.subject import Subject

    async with open_session(load(LABELLED), target) as session:
        with tempfile.TemporaryDirectory() as folder:
            ceilings = await ceilings_of(session, open_store(Path(folder)))
        judge = yardstick(session, ceilings=ceilings)
        found: list[tuple[str, Seen]] = []
        for label in wanted:
            text = (LABELLED / label.file).read_text(encoding="utf-8")
            call = Call(label.function, label.file, label.function, ())
            subject = Subject(str(LABELLED), label.file, text, kernels_of(label.file)[label.kernel], (call,))
            try:
                _, assessed = await profile(subject, session, judge, counters="auto")
            except (JobError, TritonForgeError) as error:
                seen = Seen(problem=f"{type(error).__name__}: {error}")
            else:
                case = assessed[0].case
                error = assessed[0].compilation.error
                seen = Seen(without_values(assessed[0].launch), case.compilation, case.time, case.counters, error)
            found.append((label.function, seen))
            print(f"{label.function:26s} {_brief(seen)}", file=sys.stderr, flush=True)
        described = session.described
        gpu = session.gpu.name if session.gpu else session.target.gpu or "NVIDIA H200"
        versions = (
            ("torch", described.torch or ""),
            ("triton", described.triton or ""),
            ("driver", session.gpu.driver if session.gpu else ""),
        )
        return Kept(gpu, session.arch, versions, ceilings, tuple(found))


def without_values(launch: Launch) -> Launch:
    """Return a launch without the values of its tensors: no class depends on them, and they can be large."""
    arguments = tuple(
        (name, dataclasses.replace(value, values=Distribution()) if isinstance(value, Tensor) else value)
        for name, value in launch.problem.arguments
    )
    return dataclasses.replace(launch, problem=dataclasses.replace(launch.problem, arguments=arguments))


def _brief(seen: Seen) -> str:
    if seen.problem:
        return f"FAILED {seen.problem}"
    time = f"{seen.time.median:.1f} µs" if seen.time else "not timed"
    return f"{time}, {'counted' if seen.counters else 'no counters'}"


def load_evidence(path: Path) -> Kept:
    """Read what `measure` kept."""
    return decode(Kept, json.loads(lzma.decompress(path.read_bytes())))


def merged(before: Kept | None, now: Kept) -> Kept:
    """Return new evidence with what an earlier run on the same GPU kept of other launches."""
    if before is None or (before.gpu, before.arch) != (now.gpu, now.arch):
        return now
    return dataclasses.replace(now, seen=tuple({**dict(before.seen), **dict(now.seen)}.items()))


def recorded() -> dict[str, object]:
    """Judge the 19 launches of `tests/data/h200`, on which thresholds were chosen, at every level."""
    sys.path.insert(0, str(ROOT / "tests" / "diagnosis"))
    spec = importlib.util.find_spec("diagnosis_h200")
    assert spec is not None
    import diagnosis_h200 as h200

    rows: dict[str, object] = {}
    verdicts: dict[str, list[tuple[float, bool, bool]]] = {level: [] for level in LEVELS}
    for name, by_level in h200.levels("3.6.0").items():
        row: dict[str, object] = {"label": h200.LABELS[name]}
        for level, case in by_level.items():
            found = classify(case)
            right = found.kind in h200.LABELS[name]
            verdicts[level].append((found.confidence, right, found.kind == "unknown"))
            row[level] = {"class": found.kind, "right": right, "confidence": round(found.confidence, 2)}
        rows[name] = row
    return {
        "note": "In sample: thresholds of the rules were chosen on these launches.",
        "score": {level: _score(found) for level, found in verdicts.items()},
        "launches": rows,
    }


def main() -> int:
    """Run one of the three forms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("evidence", type=Path, nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    given = parser.parse_args()
    every = list(labels())
    names = set(given.names)
    wanted = [one for one in every if not names or names & {one.function, one.file.removesuffix(".py")}]
    if not wanted:
        parser.error(f"no labelled launch is called {', '.join(given.names)}")
    if given.recorded:
        result = recorded()
    elif given.evidence is None:
        parser.error("name the file for the evidence")
    elif given.replay:
        result = table(load_evidence(given.evidence), wanted)
    else:
        before = load_evidence(given.evidence) if names and given.evidence.exists() else None
        kept = merged(before, asyncio.run(measure(given.target, wanted)))
        given.evidence.write_bytes(lzma.compress(json.dumps(encode(kept)).encode(), preset=9))
        measured = {name for name, _ in kept.seen}
        result = table(kept, [label for label in every if label.function in measured])
    given.table.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    show(result)
    return 0


def show(result: dict[str, object]) -> None:
    """Print the table: a launch a row, a level a column; wrong ones in capitals."""
    launches, scores = result["launches"], result["score"]
    assert isinstance(launches, dict)
    assert isinstance(scores, dict)
    for name, row in launches.items():
        cells = []
        for level in LEVELS:
            cell = row.get(level)
            text = "-" if cell is None else cell["class"]
            cells.append(f"{text if cell is None or cell['right'] else text.upper():20s}")
        print(f"{name:30s} {' '.join(cells)} {row.get('problem', '')}")
    totals = [f"{scores[level]['right']}/{scores[level]['of']}" if level in scores else "-" for level in LEVELS]
    print(f"{'right':30s} {' '.join(f'{total:20s}' for total in totals)}")


if __name__ == "__main__":
    sys.exit(main())
