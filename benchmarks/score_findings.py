"""Score the performance findings of `analyze` against what an H200 does: counters, or the gain when one is treated.

    python benchmarks/score_findings.py OUT.json.xz [--seconds 230] [--only TEXT]… [--plan]     # collect and measure
    python benchmarks/score_findings.py OUT.json.xz --replay                                    # judge kept data anew

Findings come from compiling alone (`score_collect.py` says of what), evidence from timing and counting the very
launch that each is about (`score_child.py`), and `score_checks.py` has, rule by rule, what evidence makes a finding
right. With `--plan` nothing is measured. What was measured is kept after every group of launches, so that a run
that is cut off loses little.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import hashlib
import itertools
import json
import lzma
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from score_checks import Seen, is_scored, judged, treatments
from score_collect import Claim, Source, collect, place, sources

from tritonforge.domain.codec import decode, encode
from tritonforge.domain.counters import Counters
from tritonforge.domain.finding import Finding
from tritonforge.domain.launch import Scalar
from tritonforge.profiling.nsight import ReportedLaunch, ReportError, counters_of, read_report
from tritonforge.worker.counting_tool import find_ncu, ncu_command, version_of

HERE = Path(__file__).resolve().parent
GROUP = 16
"""Launches that one profiled process makes."""
COLLECTING = 0.6
"""Share of the time that collecting may take; others are measured meanwhile."""
ENDING_S = 20.0
"""What is left at the end for reading the last report and writing the file."""
LEAST_S = 15.0
FAILURES = 3
"""Processes that may end before their first launch."""
ONE_OF = {"TF401": 16}
"""Of a rule's findings one in so many counts, drawn by a hash of its place: at small sizes TF401 is true of most."""


@dataclass(frozen=True)
class Row:
    """One finding with the evidence about it; what could not be had has a reason in `problem`."""

    id: str
    corpus: str
    source: str
    finding: Finding
    launch_id: str
    options: tuple[tuple[str, int], ...]
    useful_bytes: float
    floor_us: float
    predicted_us: float | None
    lines: tuple[int, int]
    times_us: tuple[tuple[str, float], ...] = ()
    counters: Counters | None = None
    problem: str = ""

    def verdict(self) -> tuple[bool | None, str]:
        """Judge the finding; None where nothing was measured."""
        times = dict(self.times_us)
        if "" not in times or self.counters is None:
            return None, self.problem or "not measured"
        own = treatments(self.finding, dict(self.options))
        treated = {title: us for title, us in times.items() if title in own}
        seen = Seen(self.finding, self.counters, times[""], treated, self.useful_bytes, self.floor_us, self.lines)
        return judged(seen)


@dataclass(frozen=True)
class Kept:
    """One run: where, with which versions, and its rows."""

    made: str
    versions: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...] = ()


@dataclass
class Launch:
    """A launch that findings are about, with the titles and options of their treatments."""

    claims: list[Claim] = field(default_factory=list)

    @property
    def kind(self) -> tuple[str, str]:
        """What it stands for: the first of its rules, and its corpus."""
        return min((claim.finding.code, claim.corpus) for claim in self.claims)

    @property
    def grave(self) -> bool:
        """Whether one of its findings is a warning."""
        return any(claim.finding.severity == "warning" for claim in self.claims)

    @property
    def variants(self) -> dict[str, dict[str, int]]:
        """All treatments of its findings."""
        return {t: o for claim in self.claims for t, o in treatments(claim.finding, options_of(claim)).items()}


def options_of(claim: Claim) -> dict[str, int]:
    """Return the whole-number options of a claim's launch."""
    return {n: v.value for n, v in claim.launch.options if isinstance(v, Scalar) and type(v.value) is int}


class Pool:
    """The findings to score: filled while others are measured already. Of one place the first that came is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, Claim] = {}
        self._new: list[Claim] = []
        self.complete = False

    def add(self, claims: Iterable[Claim]) -> list[Claim]:
        """Take in what one source brought; returns what of it is scored."""
        with self._lock:
            fresh = [c for c in claims if is_sampled(c) and c.id not in self._claims]
            self._claims.update((c.id, c) for c in fresh)
            self._new += fresh
        return fresh

    def new(self) -> list[Claim]:
        """Return what came since this was asked last."""
        with self._lock:
            fresh, self._new = self._new, []
        return fresh


def is_sampled(claim: Claim) -> bool:
    """Tell whether a finding is scored."""
    if not is_scored(claim.finding):
        return False
    draw = int.from_bytes(hashlib.sha256(claim.id.encode()).digest()[:4], "big")
    return draw % ONE_OF.get(claim.finding.code, 1) == 0


@dataclass
class Queue:
    """Launches that wait to be measured: warnings first, and each rule and corpus in turn."""

    launches: dict[str, Launch] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)

    def add(self, claims: Iterable[Claim]) -> None:
        """Group new claims by their launch."""
        for claim in claims:
            self.launches.setdefault(f"{claim.source}/{claim.launch_id}", Launch()).claims.append(claim)

    def next(self, count: int, but: Collection[str] = ()) -> list[str]:
        """Return the keys of the next launches, without those of `but`."""
        taken = Counter(self.launches[key].kind for key in {*self.begun, *but})
        waiting = [key for key in self.launches if key not in self.begun and key not in but]
        chosen: list[str] = []
        while waiting and len(chosen) < count:
            key = min(waiting, key=lambda k: taken[self.launches[k].kind] + 4 * (not self.launches[k].grave))
            waiting.remove(key)
            taken[self.launches[key].kind] += 1
            chosen.append(key)
        return chosen


def row_of(claim: Claim) -> Row:
    """Return the row of a claim that nothing is known about yet."""
    file = place(claim.finding.file)
    return Row(
        claim.id, claim.corpus, claim.source, replace(claim.finding, file=file), claim.launch_id,
        tuple(options_of(claim).items()), claim.useful_bytes, claim.floor_us or 0.0, claim.predicted_us, claim.lines,
    )  # fmt: skip


def item_of(key: str, launch: Launch) -> dict[str, Any]:
    """Return what `score_child.py` is told of a launch."""
    claim = launch.claims[0]
    file = Path(claim.program.root) / claim.launch.kernel_file
    return {
        "id": key, "program": encode(claim.program), "call": encode(claim.call), "kernel": claim.kernel,
        "file": str(file), "variants": launch.variants,
    }  # fmt: skip


class Child:
    """A process that measures a group of launches under Nsight Compute (or without, where that is not there)."""

    def __init__(self, folder: Path, items: Sequence[Mapping[str, Any]], ncu: str | None) -> None:
        self.folder, self.ids = folder, [item["id"] for item in items]
        folder.mkdir(parents=True)
        (folder / "items.json").write_text(json.dumps(items), encoding="utf-8")
        command = [sys.executable, "-u", str(HERE / "score_child.py"), str(folder)]
        if ncu is not None:
            command = [*ncu_command(ncu, folder / "report", folder / "ncu.log"), *command]
        self.output = (folder / "output").open("wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)

    def run(self, deadline: float) -> list[dict[str, Any]]:
        """Let it measure until it ends or the deadline (of `time.monotonic`) comes; returns what it told."""
        going = self.folder / "going"
        going.write_text(str(deadline))
        going.replace(self.folder / "go")
        told = 0
        while self.process.poll() is None and time.monotonic() < deadline + ENDING_S / 2:
            time.sleep(0.1)
            told = _progress(self.told(), told)
        self.end(patience=8.0)
        rows = self.told()
        _progress(rows, told)
        return rows

    def told(self) -> list[dict[str, Any]]:
        """Return the lines that it has written."""
        path = self.folder / "done.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def end(self, patience: float) -> None:
        """End it and the program that it watches; a profiler that is asked writes what it has."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.output.close()

    def counters(self, rows: Sequence[Mapping[str, Any]], files: Mapping[str, str]) -> dict[str, Counters]:
        """Return what was counted of each item that it counted, by the item's id."""
        try:
            reported = list(read_report(self.folder / "report.ncu-rep"))
        except ReportError as error:
            print(f"  no report: {error}", flush=True)
            return {}
        counted = [(str(row["id"]), tuple(row["counted"])) for row in rows if "counted" in row]
        return {one: counters_of(launch, file=_file(launch, files[one])) for one, launch in paired(counted, reported)}


def _progress(rows: Sequence[Mapping[str, Any]], told: int) -> int:
    for row in rows[told:]:
        if "begin" not in row:
            what = row.get("error") or ", ".join(
                f"{title or 'as it is'} {us:.1f} us" if isinstance(us, float) else f"{title}: {us}"
                for title, us in row["times"].items()
            )
            print(f"  {row['seconds']:5.1f} s  {row['id']}: {what}", flush=True)
    return len(rows)


def paired(
    counted: Sequence[tuple[str, tuple[int, ...]]], reported: Sequence[ReportedLaunch]
) -> list[tuple[str, ReportedLaunch]]:
    """Match what was made with what was reported, by order and grid; a launch that the profiler lost has no pair."""
    found = []
    rest = list(reported)
    for one, grid in counted:
        for index, launch in enumerate(rest):
            if launch.grid == grid:
                found.append((one, launch))
                del rest[: index + 1]
                break
    return found


def _file(launch: ReportedLaunch, path: str) -> str | None:
    """Return the kernel's file as the report names it."""
    name = Path(path).name
    named = [i.file for i in launch.instructions if i.file and Path(i.file).name == name]
    return path if path in named else next(iter(named), None)


def measure(pool: Pool, deadline: float, out: Path, kept: Kept) -> Kept:
    """Measure launches, group by group, until the deadline; what is known is written after each group."""
    ncu = find_ncu()
    print(f"Nsight Compute {version_of(ncu)}" if ncu else "no Nsight Compute: times alone", flush=True)
    queue, rows = Queue(), {}
    reading: list[tuple[list[dict[str, Any]], Future[dict[str, Counters]] | None]] = []

    def take_in(*, wait: bool) -> None:
        nonlocal kept
        while reading and (wait or reading[0][1] is None or reading[0][1].done()):
            told, future = reading.pop(0)
            counters = future.result() if future is not None else {}
            for row in told:
                if "begin" not in row:
                    note(rows, row, counters.get(row["id"]), queue.launches)
            for one in {row["begin"] for row in told if "begin" in row} - {row["id"] for row in told if "id" in row}:
                note(rows, {"id": one, "error": "it did not end, or ended the process"}, None, queue.launches)
        kept = replace(kept, rows=tuple(rows.values()))
        write(out, kept)

    def take_new() -> None:
        queue.add(pool.new())
        for key, launch in queue.launches.items():
            for n, claim in enumerate(launch.claims):
                rows.setdefault((key, n), row_of(claim))

    with tempfile.TemporaryDirectory(prefix="tritonforge-score-") as scratch, ThreadPoolExecutor(1) as readers:
        folders = (Path(scratch) / str(number) for number in itertools.count())

        def child_for(keys: Sequence[str]) -> Child:
            return Child(next(folders), [item_of(key, queue.launches[key]) for key in keys], ncu)

        failures = 0
        child: Child | None = None
        prepared: Child | None = None
        try:
            while deadline - time.monotonic() > LEAST_S:
                take_new()
                enough = GROUP if not pool.complete else 1
                if prepared is None and len(keys := queue.next(GROUP)) >= enough:
                    prepared = child_for(keys)
                if prepared is None:
                    if pool.complete:
                        break
                    time.sleep(0.5)
                    continue
                child, prepared = prepared, None
                if len(keys := queue.next(GROUP, but=child.ids)) >= enough:
                    prepared = child_for(keys)
                files = {key: item_of(key, queue.launches[key])["file"] for key in child.ids}
                told = child.run(deadline)
                begun = {row["begin"] for row in told if "begin" in row}
                if not begun:
                    said = (child.folder / "output").read_text(errors="replace")[-800:]
                    print(f"  a process ended before its first launch: {said}", flush=True)
                    begun, failures = {child.ids[0]}, failures + 1
                if failures >= FAILURES:
                    print("  it is the machine, not the launch: no more is tried", flush=True)
                    break
                queue.begun |= begun
                reading.append((told, readers.submit(child.counters, told, files) if ncu else None))
                take_in(wait=False)
                left = len(queue.launches) - len(queue.begun)
                print(f"{left} of {len(queue.launches)} launches wait, {deadline - time.monotonic():.0f} s", flush=True)
        finally:
            for one in (child, prepared):
                if one is not None:
                    one.end(patience=1.0)
            take_new()
            take_in(wait=True)
    return kept


def note(
    rows: dict[tuple[str, int], Row], told: Mapping[str, Any], counters: Counters | None, launches: Mapping[str, Launch]
) -> None:
    """Put what was measured of a launch into the rows of its findings."""
    key = told["id"]
    for n in range(len(launches[key].claims)):
        times = tuple((t, us) for t, us in told.get("times", {}).items() if isinstance(us, float))
        problem = told.get("error", "") if not times else "" if counters is not None else "it was not counted"
        rows[key, n] = replace(rows[key, n], times_us=times, counters=counters, problem=problem)


def write(path: Path, kept: Kept) -> None:
    """Write what is known, whole or not at all."""
    new = path.with_suffix(".new")
    new.write_bytes(lzma.compress(json.dumps(encode(kept)).encode()))
    new.replace(path)


def load(path: Path) -> Kept:
    """Read what a run kept."""
    return decode(Kept, json.loads(lzma.decompress(path.read_bytes())))


def show(kept: Kept) -> dict[str, list[int]]:
    """Print every judgement and the score by rule, and by severity; returns [right, judged, all] by rule."""
    score: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in sorted(kept.rows, key=lambda r: (r.finding.code, r.corpus, r.id)):
        right, why = row.verdict()
        for key in (row.finding.code, row.finding.severity, row.corpus, "all"):
            score[key][0] += right is True
            score[key][1] += right is not None
            score[key][2] += 1
        mark = {True: "right", False: "WRONG", None: "-"}[right]
        print(f"{mark:6}{row.finding.severity[:4]:5}{row.id}  [{row.source}] {why}")
    for key, (right, of, every) in sorted(score.items()):
        print(f"{key:14} {right:4} right of {of} judged ({every} findings)" + (f", {right / of:.0%}" if of else ""))
    return dict(score)


def versions() -> tuple[tuple[str, str], ...]:
    """Return what the numbers hold for."""
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in ("torch", "triton", "liger-kernel", "fla-core"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
        found.append(("gpu", done.stdout.strip()))
    except (OSError, subprocess.TimeoutExpired):
        pass
    return tuple(found)


def main() -> int:
    """Collect, measure, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=230.0, help="For everything.")
    parser.add_argument("--only", action="append", default=[], help="A part of `corpus:name` of what is collected.")
    parser.add_argument("--plan", action="store_true", help="Collect alone.")
    parser.add_argument("--replay", action="store_true", help="Judge what the file holds.")
    given = parser.parse_args()
    if given.replay:
        show(load(given.out))
        return 0
    deadline = time.monotonic() + given.seconds - ENDING_S
    wanted = [s for s in sources() if not given.only or any(part in f"{s.corpus}:{s.name}" for part in given.only)]
    if not wanted:
        parser.error("nothing has such a name")
    pool = Pool()

    def told(source: Source, claims: list[Claim] | str, seconds: float) -> None:
        codes = claims[:120] if isinstance(claims, str) else " ".join(c.finding.code for c in pool.add(claims))
        print(f"    collected in {seconds:5.1f} s  {source.corpus}: {source.name}: {codes}", flush=True)

    def fill() -> None:
        try:
            share = 1.0 if given.plan else COLLECTING
            asyncio.run(collect(wanted, seconds=given.seconds * share, told=told))
        finally:
            pool.complete = True

    kept = Kept(dt.datetime.now(tz=dt.UTC).date().isoformat(), versions())
    with ThreadPoolExecutor(1) as collector:
        filled = collector.submit(fill)
        if given.plan:
            filled.result()
            kept = replace(kept, rows=tuple(map(row_of, pool.new())))
            write(given.out, kept)
        else:
            kept = measure(pool, deadline, given.out, kept)
        filled.result()
    show(kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
