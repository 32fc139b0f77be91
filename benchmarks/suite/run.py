"""The benchmark suite: TritonForge on plain kernels and on shipped ones, beside what people would use instead.

    python benchmarks/suite/run.py -o ROWS.jsonl --target local --shard 1/8 [--comparators]
    python benchmarks/suite/table.py ROWS.jsonl …

One row of JSON for each kernel is appended as soon as it is known, so that a stop loses nothing and the same command
goes on where it stopped. The workers and everything that is timed run in the interpreter that runs this script.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from suite.case import Case
from suite.cases import PLAIN as PLAIN_CASES
from suite.loading import PLAIN
from suite.searching import Bench, Search, Space, open_bench, search, space_of, time_again, write_edits
from suite.shipped import SHIPPED, Shipped
from suite.workspace import plain_workspace, shipped_workspace
from tritonforge.jobs import JobError

HERE = Path(__file__).resolve().parent
KINDS = ("eager", "compile", "others")
SCHEMA = "tritonforge-suite/1"


class Measurer:
    """The process next to the GPU that times and checks; started with the first job."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, job: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """Do a job; returns what it found, as far as it got, with `errors`."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "suite.measuring"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        ended = "the measuring server is gone"
        try:
            self._process.stdin.write(json.dumps({**job, "limit_s": limit_s}) + "\n")
            self._process.stdin.flush()
            for answer in self._process.stdout:
                if answer.startswith('{"ended"'):  # a library may print while it is imported
                    ended = json.loads(answer)["ended"]
                    break
        except OSError:
            pass
        if ended == "the measuring server is gone":
            self.close()
        out = Path(job["out"])
        found = json.loads(out.read_text()) if out.exists() else {"calls": [], "correct": {}, "errors": []}
        if ended:
            found["errors"].append(ended)
        return found

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            assert self._process.stdin is not None
            try:
                self._process.stdin.close()
                self._process.wait(2)
            except (OSError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait()
            self._process = None


def environment() -> dict[str, str]:
    """Return the environment of child processes: the suite can be imported there."""
    paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in paths if one)}


async def plain_row(bench: Bench, case: Case, folder: Path, options: argparse.Namespace, measurer: Measurer) -> Any:
    """Return the row of a plain kernel."""
    file = plain_workspace(folder, case.name)
    searches = []
    for kernel in case.kernels:
        found = await search(bench, [f"{file}::{kernel}"], options.limit)
        searches.append(found)
        write_edits(folder, found.edits)
    improved = any(one.edits for one in searches)
    row: dict[str, Any] = {
        "searches": [one.row for one in searches],
        "reference_names": [case.label] * case.timed + list(case.others) + ["torch.compile"] * case.compiled,
        "formulas": {"bytes": case.moved, "operations": case.flops, "peak": case.peak},
        "work": [{"sizes": dict(s), **roofline(case, s, bench)} for s in case.full],
    }
    if not bench.session.measures:
        if improved:
            row["checked_small"] = interpreted(case, file)
            row["text"] = file.read_text(encoding="utf-8")
        return row
    job: dict[str, Any] = {
        "case": case.name, "out": str(folder / "measured.json"), "plain": str(PLAIN / f"{case.name}.py"),
        "best": str(file) if improved else None, "kinds": options.references, "max_autotune": options.max_autotune,
        "autotune": options.autotune, "ablation": options.ablation, "budget_s": options.comparator_budget,
    }  # fmt: skip
    suggested = options.offline.get(case.name)
    if options.measure_offline:
        row["offline_suggested"] = bool(suggested)
    if suggested:
        (folder / "offline.py").write_text(suggested, encoding="utf-8")
        job["offline"] = str(folder / "offline.py")
    limit = 150.0
    if options.autotune or options.ablation:
        space, row["grid"] = comparator_space(case, searches, bench)
        job["grid"] = options.grid
        if space is not None:
            (folder / "space.pickle").write_bytes(pickle.dumps(space))
            job["space"] = str(folder / "space.pickle")
        limit += 2 * options.comparator_budget + 60.0
    row["measured"] = await asyncio.to_thread(measurer.run, job, limit)
    return row


def roofline(case: Case, sizes: Any, bench: Bench) -> dict[str, Any]:
    """Return bytes, operations and the least time in µs that the ceilings allow."""
    moved, flops = case.work(sizes)
    if bench.ceilings is None:
        return {"bytes": moved, "operations": flops, "roofline_us": None}
    rate = bench.ceilings.tflops.get(case.peak)
    compute = flops / rate * 1e-6 if rate else 0.0
    return {
        "bytes": moved, "operations": flops, "roofline_us": max(moved / bench.ceilings.copy_gbps * 1e-3, compute),
        "provenance": bench.ceilings.provenance,
    }  # fmt: skip


def comparator_space(case: Case, searches: list[Search], bench: Bench) -> tuple[Space | None, str]:
    """Return what the comparators choose from, and what it is or why there is none."""
    if len(case.kernels) != 1:
        return None, "it has two kernels, which no single grid covers"
    return space_of(searches[0], bench.session.arch)


def interpreted(case: Case, file: Path) -> dict[str, Any]:
    """Check a version in the interpreter, at small sizes, by the reference that it was not verified with."""
    done = subprocess.run(
        [sys.executable, str(HERE / "check.py"), "--file", str(file), case.name],
        check=False, capture_output=True, text=True, env=environment(), timeout=300,
    )  # fmt: skip
    return {"right": done.returncode == 0, "said": (done.stdout or done.stderr)[-300:].strip()}


async def shipped_row(bench: Bench, one: Shipped, folder: Path) -> dict[str, Any]:
    """Return the row of a shipped kernel."""
    original, edited = folder / "original", folder / "edited"
    try:
        file, driver = shipped_workspace(original, one)
    except ModuleNotFoundError as error:
        return {"searches": [{"kernel": one.kernel, "failed": "ModuleNotFoundError", "reason": str(error)}]}
    found = await search(bench, [f"{file}::{one.kernel}", str(driver)], 600.0)
    row: dict[str, Any] = {"searches": [found.row]}
    if found.edits and bench.session.measures:
        shutil.copytree(original, edited, ignore=shutil.ignore_patterns(".tritonforge", "__pycache__"))
        write_edits(edited, found.edits)
        try:
            row["again"] = await time_again(bench, found, original)
        except JobError as error:
            row["again"] = {"problem": str(error)}
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "suite.outputs", str(original), str(edited), one.driver],
            check=False, capture_output=True, text=True, env=environment(), timeout=600,
        )  # fmt: skip
        failed = {"inputs": 0, "worst_error": None, "problem": f"it could not be compared: {done.stderr[-300:]}"}
        row["correct"] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else failed
    return row


def already(path: Path, target: str) -> set[str]:
    """Return the names that a file has rows of, for a target. A line that was cut off by a stop counts as none."""
    names = set()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row.get("name") and row.get("target") == target:
            names.add(row["name"])
    return names


def suggestions(path: Path) -> dict[str, str]:
    """Return what an earlier run with `--target offline` suggested: the text of each file that it would change."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return {row["name"]: row["text"] for row in rows if row.get("text") and row.get("target") == "offline"}


def append(path: Path, row: dict[str, Any]) -> None:
    """Append a line, and mend one that was cut off before it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        if stream.tell() and (stream.seek(-1, os.SEEK_END), stream.read(1))[1] != b"\n":
            stream.write(b"\n")
        stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def about(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """Say where and how this runs."""
    info, ceilings = bench.session.info, bench.ceilings
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, check=False, capture_output=True, text=True
    )
    return {
        "schema": SCHEMA, "environment": {
            "target": options.target, "gpu": info.gpu, "driver": info.driver, "torch": info.torch,
            "triton": info.triton, "python": sys.version.split()[0], "arch": bench.session.arch,
            "date": dt.datetime.now(dt.UTC).date().isoformat(), "commit": commit.stdout.strip() or None,
            "lanes": bench.session.worker.hello.lanes,
            "ceilings": ceilings and {
                "copy_gbps": ceilings.copy_gbps, "tflops": dict(ceilings.tflops), "provenance": ceilings.provenance,
            },
        },
        "options": {"budget": options.budget, "references": options.references, "autotune": options.autotune,
                    "ablation": options.ablation, "max_autotune": options.max_autotune, "grid": options.grid,
                    "comparator_budget": options.comparator_budget},
    }  # fmt: skip


def chosen(options: argparse.Namespace) -> list[tuple[str, str, Any]]:
    """Return (part, name, case) of what is to be run."""
    every: list[tuple[str, str, Any]] = [("a", case.name, case) for case in PLAIN_CASES]
    every += [("b", one.name, one) for one in SHIPPED]
    if options.part:
        every = [one for one in every if one[0] == options.part]
    if options.only:
        every = [one for one in every if any(name in (one[1], one[1].partition(":")[2]) for name in options.only)]
    index, count = options.shard
    return every[index - 1 :: count]


async def run(options: argparse.Namespace) -> int:
    """Make the rows that are missing."""
    todo = chosen(options)
    files = [] if options.again else [options.output, *options.known]
    known = {name for file in files for name in already(file, options.target)}
    stop_at = time.monotonic() + options.stop_after if options.stop_after else float("inf")
    left = [one for one in todo if one[1] not in known]
    print(f"{len(todo)} kernels, {len(todo) - len(left)} of them have a row already", flush=True)
    measurer = Measurer()
    scratch = Path(tempfile.mkdtemp(prefix="tritonforge-suite-"))
    try:
        while left and time.monotonic() <= stop_at:
            async with open_bench(_root(scratch), options.target, options.budget) as bench:
                append(options.output, about(bench, options))
                sound = True
                while sound and left and time.monotonic() <= stop_at:
                    part, name, case = left.pop(0)
                    row, sound = await row_of(bench, part, name, case, scratch, options, measurer)
                    append(options.output, row)
                    print(line_of(row), flush=True)
        if left:
            print(f"stopped after {options.stop_after:g} s, {len(left)} are left; run it again for them", flush=True)
    finally:
        measurer.close()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


async def row_of(
    bench: Bench, part: str, name: str, case: Any, scratch: Path, options: argparse.Namespace, measurer: Measurer
) -> tuple[dict[str, Any], bool]:
    """Make one row; the second value is false when something broke that the next kernel should not have to do with."""
    began = time.perf_counter()
    folder = scratch / name.replace(":", "_")
    sound = True
    try:
        if part == "a":
            found = await plain_row(bench, case, folder, options, measurer)
        else:
            found = await shipped_row(bench, case, folder)
    except Exception as error:  # noqa: BLE001 - every row is published, failures included
        said = " ".join(str(error).split())[:500]
        found = {"searches": [{"kernel": name, "failed": f"the run: {type(error).__name__}", "reason": said}]}
        sound = False
    shutil.rmtree(folder, ignore_errors=True)
    row = {"part": part, "name": name, "family": case.family, "target": options.target, **found}
    return {**row, "row_s": round(time.perf_counter() - began, 1)}, sound


def _root(scratch: Path) -> Path:
    """Return a workspace for the ceilings alone."""
    (scratch / "ceilings").mkdir(exist_ok=True)
    (scratch / "ceilings" / "tritonforge.toml").touch()
    return scratch / "ceilings"


def line_of(row: dict[str, Any]) -> str:
    """Say in a line what came of a kernel."""
    parts = []
    for one in row["searches"]:
        best = one.get("best")
        if "failed" in one:
            parts.append(f"{one['failed']}: {one['reason'][:100]}")
        elif best:
            low, high = best["speedup_ci95"]
            parts.append(f"{best['speedup']:.2f}x ({low:.2f}-{high:.2f}) {best['provenance']}: {best['title'][:60]}")
        else:
            parts.append(one["stopped_because"])
    return f"{row['name']:44} {row['row_s']:6.1f} s  {' | '.join(parts)}"


def shard(text: str) -> tuple[int, int]:
    """Read `I/N`."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with 1 ≤ I ≤ N")
    return int(index), int(count)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    out = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    out.add_argument("-o", "--output", type=Path, required=True, help="JSON lines to append to")
    out.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="every N-th kernel, from the I-th")
    out.add_argument("--part", choices=("a", "b"), help="a: plain kernels, b: shipped ones")
    out.add_argument("--only", action="append", metavar="NAME", help="this kernel alone (may be repeated)")
    out.add_argument("--target", choices=("local", "offline"), default="local")
    out.add_argument("--budget", type=float, default=90.0, metavar="SECONDS", help="of TritonForge, for each kernel")
    out.add_argument("--limit", type=float, default=400.0, metavar="SECONDS", help="after which a search is given up")
    out.add_argument("--stop-after", type=float, metavar="SECONDS", help="begin no other kernel after this long")
    out.add_argument("--known", type=Path, action="append", default=[], metavar="FILE", help="rows made elsewhere")
    out.add_argument("--again", action="store_true", help="run kernels that have a row already, too")
    out.add_argument(
        "--references",
        type=lambda text: [one for one in text.split(",") if one],
        default=list(KINDS),
        metavar="KINDS",
        help=f"which references to time, of {','.join(KINDS)} (default: all)",
    )
    out.add_argument("--autotune", action="store_true", help="beside it: triton.autotune over the same grid")
    out.add_argument("--max-autotune", action="store_true", help="beside it: torch.compile with max-autotune")
    out.add_argument("--ablation", action="store_true", help="beside it: the same space without guidance")
    out.add_argument(
        "--measure-offline",
        type=Path,
        metavar="ROWS",
        help="beside it: what these rows of an offline run suggest",
    )
    out.add_argument("--comparators", action="store_true", help="all three")
    out.add_argument("--comparator-budget", type=float, default=90.0, metavar="SECONDS", help="of each of them")
    out.add_argument("--grid", type=int, default=100, metavar="N", help="at most so many versions for triton.autotune")
    return out  # fmt: skip


def main() -> int:
    """Read the command line and run."""
    options = parser().parse_args()
    options.offline = suggestions(options.measure_offline) if options.measure_offline else {}
    if options.comparators:
        options.autotune = options.max_autotune = options.ablation = True
    unknown = set(options.references) - set(KINDS)
    if unknown:
        parser().error(f"--references knows {', '.join(KINDS)}, not {', '.join(sorted(unknown))}")
    if not chosen(options):
        parser().error("no kernel is chosen; names are those of plain/ and of shipped.py")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return asyncio.run(run(options))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; run it again for the rest", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
