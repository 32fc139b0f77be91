"""Count the 19 launches of `tests/data/h200` through our own job, and compare with the report that was made by hand.

    python benchmarks/bench_counters.py COUNTERS.json.xz TABLE.json [NAME …] [--target NAME] [--level ncu|pcsampling]

For each launch: the class from the new counters alone and from the recorded ones, whether it is one of the labels, the
largest relative difference among metrics that should not depend on the run (instructions, sectors, FLOPs, registers),
the seconds that counting took, and how many stall samples lie on lines of the kernel. COUNTERS has the counters in the
form of `tests/data/h200/counters.json.xz`. With `--level pcsampling` the stall reasons of both are compared instead.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import lzma
import sys
import time
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.diagnosis import Case, classify
from tritonforge.diagnosis.counting import WithCounters, with_counters
from tritonforge.domain.codec import decode, encode
from tritonforge.domain.counters import CounterChoice, Counters
from tritonforge.domain.errors import TritonForgeError
from tritonforge.domain.launch import Call

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "h200"
SAME_IN_EVERY_RUN = ("instructions", "global_sectors", "ideal_global_sectors", "tensor_flops", "atomics", "registers")
_CALLER = """

def launch_case(name):
    cases()[name][0]()
"""


def recorded() -> dict[str, Counters]:
    """Return the counters of the report that was made by hand."""
    texts = json.loads(lzma.decompress((DATA / "counters.json.xz").read_bytes()))
    return {name: decode(Counters, text) for name, text in texts.items()}


async def count_all(
    names: list[str], target: str | None, level: CounterChoice
) -> dict[str, tuple[WithCounters | str, float]]:
    """Profile each case on the target; an error stands as its sentence. Also returns the seconds it took."""
    from tritonforge.config import load
    from tritonforge.diagnosis.assessment import assess, yardstick
    from tritonforge.domain.launch import Scalar
    from tritonforge.jobs.session import open_session
    from tritonforge.workload.subject import Subject

    text = (DATA / "pathologies.py").read_text(encoding="utf-8") + _CALLER
    kernels = {kernel.name: kernel for kernel in analyze(text, "pathologies.py").kernels}
    labelled = recorded()
    found: dict[str, tuple[WithCounters | str, float]] = {}
    async with open_session(load(DATA), target) as session:
        judge = yardstick(session)
        for name in names:
            kernel = kernels[labelled[name].kernel]
            call = Call(name, "pathologies.py", "launch_case", (Scalar(name),))
            subject = Subject(str(DATA), "pathologies.py", text, kernel, (call,))
            began = time.perf_counter()
            try:
                assessed = await assess(session, subject.program(), kernel, subject.calls, judge)
                began = time.perf_counter()
                outcome: WithCounters | str = await with_counters(subject, session, assessed, level)
            except TritonForgeError as error:
                outcome = f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - began
            found[name] = outcome, seconds
            print(f"{name:32s} {seconds:6.1f} s  {_brief(outcome)}", file=sys.stderr, flush=True)
    return found


def _brief(outcome: WithCounters | str) -> str:
    if isinstance(outcome, str):
        return f"FAILED {outcome}"
    counters = counters_in(outcome)
    if counters is None:
        return f"no counters: {'; '.join(outcome.missing)}"
    return f"{outcome.source}: {len(counters.metrics)} metrics, {len(counters.lines)} lines, {classify_alone(counters)}"


def counters_in(outcome: WithCounters | str) -> Counters | None:
    """Return the counters of the one launch of a case."""
    if isinstance(outcome, str):
        return None
    return next((one.case.counters for one in outcome.assessed if one.case.counters is not None), None)


def classify_alone(counters: Counters) -> str:
    """Return the class that follows from the source and the counters."""
    text = (DATA / "pathologies.py").read_text(encoding="utf-8")
    kernel = next(k for k in analyze(text, "pathologies.py").kernels if k.name == counters.kernel)
    return classify(Case(kernel, counters=counters)).kind


def row(outcome: WithCounters | str, seconds: float, before: Counters, labels: list[str]) -> dict[str, object]:
    """Compare what was counted now with what was recorded."""
    out: dict[str, object] = {"label": labels, "recorded_class": classify_alone(before), "seconds": round(seconds, 1)}
    now = counters_in(outcome)
    if now is None:
        return {**out, "problem": outcome if isinstance(outcome, str) else "; ".join(outcome.missing)}
    common = [m for m in SAME_IN_EVERY_RUN if now.metrics.get(m) and before.metrics.get(m)]
    differences = {m: abs(now.metrics[m] / before.metrics[m] - 1) for m in common}
    worst = max(differences, key=lambda m: differences[m], default=None)
    top_now, top_before = (next(iter(c.stalls), None) for c in (now, before))
    samples = sum(line.samples for line in now.lines.values())
    assert isinstance(outcome, WithCounters)
    return {
        **out,
        "source": now.source,
        "class": classify_alone(now),
        "right": classify_alone(now) in labels,
        "class_with_all": outcome.assessed[0].bottleneck.kind if outcome.assessed[0].bottleneck else None,
        "worst_difference": [worst, round(differences[worst], 4)] if worst else None,
        "top_stall": [top_now, top_before],
        "samples_on_lines": samples,
        "missing": list(outcome.missing),
        "notes": list(outcome.notes),
    }


def main() -> int:
    """Count, compare, write both files, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counters", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target")
    parser.add_argument("--level", choices=["ncu", "pcsampling"], default="ncu")
    given = parser.parse_args()
    before = recorded()
    labels = json.loads((DATA / "labels.json").read_text(encoding="utf-8"))
    names = given.names or list(before)
    found = asyncio.run(count_all(names, given.target, given.level))
    kept = {name: encode(counters) for name, (one, _) in found.items() if (counters := counters_in(one)) is not None}
    given.counters.write_bytes(lzma.compress(json.dumps(kept).encode(), preset=9))
    rows = {name: row(one, seconds, before[name], labels[name]) for name, (one, seconds) in found.items()}
    right = sum(bool(one.get("right")) for one in rows.values())
    table = {
        "made": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "level": given.level,
        "right": right,
        "of": len(rows),
    }
    given.table.write_text(
        json.dumps({**table, "launches": rows}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    for name, one in rows.items():
        cells = (one.get("class", "-"), one["recorded_class"], one.get("worst_difference"), one.get("problem", ""))
        print(f"{name:32s}", *(f"{cell!s:22s}" for cell in cells))
    print(
        f"{right} of {len(rows)} right, median {sorted(s for _, s in found.values())[len(found) // 2]:.1f} s a launch"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
