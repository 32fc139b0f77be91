"""Tell the stories of the workbench N times in a row, and write how often each held.

    python benchmarks/workbench_stability.py 20

The record goes to `benchmarks/results/workbench-stability.json`: for each run its seconds and what failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STORY = "tests/workbench/test_workbench_story.py"


def main() -> int:
    """Run them; the exit status is 1 when any run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=20)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "workbench-stability.json")
    parser.add_argument("--keep", type=Path, help="a folder for what the runs that failed left behind")
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    for number in range(1, options.runs + 1):
        runs.append(_run())
        print(f"run {number}: {_line(runs[-1])}", flush=True)
        _write(options.out, runs)
        if options.keep and not _held(runs[-1]):
            shutil.copytree(ROOT / "test-output" / "workbench", options.keep / f"run-{number}", dirs_exist_ok=True)
    return int(any(not _held(run) for run in runs))


def _run() -> dict[str, Any]:
    """Return what one run of the stories showed."""
    load = os.getloadavg()[0]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={told}", STORY]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        cases = list(ET.parse(told).iter("testcase")) if told.is_file() else []
    failed = {case.get("name"): _first(case) for case in cases if case.find("failure") is not None}
    failed |= {case.get("name"): _first(case) for case in cases if case.find("error") is not None}
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - len(failed) - skipped
    seconds = round(time.monotonic() - started, 1)
    return {"passed": passed, "failed": failed, "skipped": skipped, "seconds": seconds, "load": round(load, 1)}


def _first(case: ET.Element) -> str:
    problem = case.find("failure") if case.find("failure") is not None else case.find("error")
    return "" if problem is None else (problem.get("message") or "").split("\n")[0][:300]


def _held(run: dict[str, Any]) -> bool:
    return run["passed"] > 0 and not run["failed"] and not run["skipped"]


def _line(run: dict[str, Any]) -> str:
    failed = "".join(f"\n    {name}: {why}" for name, why in run["failed"].items())
    return f"{run['passed']} passed, {len(run['failed'])} failed, {run['skipped']} skipped, {run['seconds']} s{failed}"


def _write(out: Path, runs: list[dict[str, Any]]) -> None:
    seconds = [run["seconds"] for run in runs]
    record = {
        "what": f"{STORY}, one run after the other",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.system()}",
        "held": sum(map(_held, runs)),
        "runs": len(runs),
        "seconds": {"median": statistics.median(seconds), "longest": max(seconds)},
        "each": runs,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
