"""Which findings of the correctness family real kernels get, and how many of those were judged right by a person.

`python benchmarks/score_correctness.py liger|fla|idioms [-k SUBSTRING]… [--arch sm_90] [--watch]`

Each driver of a corpus (see `coverage_corpora.py`) is recorded without a GPU and its launches are compiled; with
`--watch` its calls are interpreted too. Findings are looked up in `tests/data/findings/correctness.json`, where each
has a verdict that comes from reading the kernel. What is not there yet is printed as new: read it and write it down.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from coverage_corpora import CORPUS, LIMITS, jobs_of, shrunk

from tritonforge.analysis import analyze
from tritonforge.compilation import read
from tritonforge.config import OFFLINE
from tritonforge.diagnosis import Case, diagnose
from tritonforge.domain.finding import Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compile, Program, Record, Watch
from tritonforge.jobs import JobError, Worker, connect
from tritonforge.workload.launches import Weights, matches

JUDGED = Path(__file__).resolve().parents[1] / "tests" / "data" / "findings" / "correctness.json"
FAMILY = ("TF501", "TF503", "TF504", "TF505", "TF506", "TF507", "TF508", "TF6")
Place = tuple[str, str, str, int]
"""Code, file, kernel and line of a finding."""


def place_of(finding: Finding, kernel: Kernel) -> Place:
    """Return what a finding is looked up by."""
    return finding.code, finding.file.rpartition("site-packages/")[2], kernel.name, finding.range.start.line


async def findings_of(worker: Worker, program: Program, call: Call, arch: str, *, watch: bool) -> dict[Place, Finding]:
    """Compile the launches of a call, interpret it if asked to, and diagnose."""
    faults = (await worker.run(Watch(program, shrunk(call)), limits=LIMITS)).faults if watch else ()
    compiled = await worker.run(Compile(program, call, arch, artefacts=("ttir",)), limits=LIMITS)
    found: dict[Place, Finding] = {}
    for one in compiled.launches:
        path = Path(program.root) / one.launch.kernel_file
        kernels = analyze(path.read_text(), str(path)).kernels if path.is_file() else ()
        for kernel in kernels:
            if not matches(kernel, replace(one.launch, kernel_file=kernel.file)):
                continue
            launch = Weights(kernel, [call]).launch(one.launch, call)
            facts = read(one, launch_id=launch.id, kernel_file_path=kernel.file, source_range=kernel.range)
            own = tuple(fault for fault in faults if fault.kernel in {kernel.name, kernel.simple_name})
            for finding in diagnose(kernel, [Case(kernel, launch, facts, faults=own)], select=FAMILY):
                found.setdefault(place_of(finding, kernel), finding)
    return found


async def run(corpus: str, only: list[str], arch: str, *, watch: bool) -> dict[Place, Finding]:
    """Drive everything, one after the other."""
    found: dict[Place, Finding] = {}
    async with connect(OFFLINE, limits=LIMITS) as worker:
        for program, entry, name in jobs_of(CORPUS[corpus], only):
            try:
                recorded = await worker.run(Record(program, entry, name), limits=LIMITS)
                for call in recorded.calls:
                    found.update(await findings_of(worker, program, call, arch, watch=watch))
            except JobError as error:
                print(f"{name or program.file}: {error}")
    return found


def main() -> None:
    """Run a corpus and say how its findings were judged."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", choices=sorted(CORPUS))
    parser.add_argument("-k", "--only", action="append", default=[])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--watch", action="store_true")
    given = parser.parse_args()
    rows = json.loads(JUDGED.read_text())["findings"]
    judged = {(r["code"], r["file"], r["kernel"], r["line"]): r["verdict"] for r in rows if r["evidence"] == "compiled"}
    found = asyncio.run(run(given.corpus, given.only, given.arch, watch=given.watch))
    score = Counter((place[0], finding.severity, judged.get(place, "new")) for place, finding in found.items())
    for (code, severity, verdict), count in sorted(score.items()):
        print(f"{code} {severity:11} {verdict:5} {count}")
    for place, finding in sorted(found.items()):
        if place not in judged:
            print("new:", *place, finding.message)


if __name__ == "__main__":
    main()
