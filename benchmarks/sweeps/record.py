"""Record sweeps: compile every configuration in many processes, then time them on the GPU, kernel after kernel.

    PYTHONPATH=server:benchmarks python -m sweeps.record -o OUT.jsonl.xz [--kernels A B] [--seconds 230] [--no-gpu]

`OUT` is lines of JSON in concatenated xz streams, one stream written when a kernel at one size is done, so that a run
that is cut short leaves what it has. `sweeps.data` reads it. `--no-gpu` compiles and times nothing. The first line says
on what it ran. Each other line is one configuration: kernel, size, config, launch, compilation, error, time.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.cases import Case, chosen, label
from sweeps.pool import Ended, Pool
from sweeps.work import Ask, Build, Clock, build, on_gpu
from tritonforge.domain.codec import encode
from tritonforge.worker import handlers

COMPILE_SHARE = 0.6
"""Of the time, what compiling may take where a GPU waits for it."""
COMPILE_STEP_S = 45.0
TIMING_STEP_S = 40.0
SAMPLES = 15
CASE_BUDGET_S = 6.0
_SAVING_S = 3.0
_MOST_LOST = 6
"""Of the configurations of a kernel, how many may break their process before it is left alone."""


@dataclass
class Recorder:
    """One run: what was compiled so far, and where results go."""

    out: Path
    arch: str
    began: float
    until: float
    sizes: tuple[int, ...] = (1, 2)
    """Which of the sizes of each case, counted from 1."""
    info: dict[str, Any] = field(default_factory=dict)
    compiled: dict[tuple[str, str], dict[str, dict[str, Any]]] = field(default_factory=dict)
    """By kernel and size, by label: launch, compilation, error."""

    def tell(self, text: str) -> None:
        """Print a line of progress."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def append(self, lines: Sequence[Any]) -> None:
        """Append lines to the output as an xz stream of their own."""
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        with self.out.open("ab") as file:
            file.write(lzma.compress(text.encode(), preset=6))

    def compile_all(self, cases: Sequence[Case], cores: int, until: float, *, facts: bool) -> None:
        """Compile every configuration of every case."""
        jobs = [
            Build(case, dict(config), self.sizes_of(case), self.arch, facts)
            for case in cases
            for config in limited(case)
        ]
        self.tell(f"compiling {len(jobs)} configurations of {len(cases)} kernels in {cores} processes")
        pool = Pool(build, cores, COMPILE_STEP_S)
        try:
            for count, ended in enumerate(pool.run(jobs, until), 1):
                self._note_compiled(ended)
                if count % 50 == 0:
                    self.tell(f"compiled {count} of {len(jobs)}")
        finally:
            pool.close()
        entries = [entry for found in self.compiled.values() for entry in found.values()]
        refused = sum(entry["error"] is not None for entry in entries)
        self.tell(f"compiled: {len(entries)} launches, {refused} of them refused")

    def _note_compiled(self, ended: Ended) -> None:
        job: Build = ended.job
        for size in job.sizes:
            entry = (ended.result or {}).get(size)
            if entry is None:
                if ended.error == "out of time":
                    continue  # never tried: no data
                entry = {"launch": None, "compilation": None, "error": f"not compiled: {ended.error}"}
            self.compiled.setdefault((job.case.name, size), {})[label(job.config)] = entry

    def save(self, case: Case, size: str, timed: dict[str, Any] | None) -> None:
        """Write what is known of a kernel at one size."""
        compiled = self.compiled.get((case.name, size), {})
        found = timed or {"times": {}, "errors": {}}
        lines: list[Any] = []
        for config in limited(case):
            name = label(config)
            if name not in compiled:
                continue
            entry = compiled[name]
            error = entry["error"] or found["errors"].get(name)
            lines.append(
                {"kernel": case.name, "size": size, "config": config, "error": error, "time": found["times"].get(name),
                 "launch": entry["launch"], "compilation": entry["compilation"]}
            )  # fmt: skip
        about = {k: v for k, v in found.items() if k not in {"times", "errors"}}
        self.append([{"kernel": case.name, "size": size, "about": about}, *lines])

    def sizes_of(self, case: Case) -> tuple[str, ...]:
        """Return the sizes of a case that were asked for."""
        return tuple(size for number, size in enumerate(case.sizes, 1) if number in self.sizes)

    def time_all(self, gpu: Pool, cases: Sequence[Case]) -> None:
        """Time every case at its first size, then at the next, as long as there is time."""
        turns = [(turn, case, size) for case in cases for turn, size in enumerate(self.sizes_of(case))]
        for _, case, size in sorted(turns, key=lambda one: one[0]):
            if (case.name, size) not in self.compiled:
                continue
            if time.monotonic() > self.until - _SAVING_S:
                self.tell(f"out of time before {case.name} {size}")
                return
            timed = self._time_case(gpu, case, size)
            self.save(case, size, timed)
            self.tell(summary(case, size, timed))

    def _time_case(self, gpu: Pool, case: Case, size: str) -> dict[str, Any]:
        compiled = self.compiled[case.name, size]
        lost: dict[str, str] = {}
        while True:
            good = [
                c for c in limited(case)
                if (entry := compiled.get(label(c))) and entry["error"] is None and label(c) not in lost
            ]  # fmt: skip
            left = self.until - _SAVING_S - time.monotonic()
            if not good or left < 1:
                return {"times": {}, "errors": lost, "notes": ["not timed"], "clock": ""}
            job = Clock(case, size, tuple(dict(c) for c in good), SAMPLES, min(CASE_BUDGET_S, left))
            (ended,) = gpu.run([job], self.until, fresh_after_error=True)
            if ended.error is None:
                return {**ended.result, "errors": {**ended.result["errors"], **lost}}
            self.tell(f"{case.name} {size}: {ended.error} (at {ended.last})")
            hopeless = ended.last is None or ended.last in lost or len(lost) >= _MOST_LOST
            if hopeless or ended.error == "out of time":
                return {"times": {}, "errors": lost, "notes": [f"not timed: {ended.error}"], "clock": ""}
            lost[ended.last] = f"broke its process: {ended.error}"


_LIMIT: list[int] = []


def limited(case: Case) -> list[Any]:
    """Return the configurations of a case, evenly thinned to the number that was asked for."""
    configs = case.configs()
    if not _LIMIT or len(configs) <= _LIMIT[0]:
        return configs
    return [configs[(i * len(configs)) // _LIMIT[0]] for i in range(_LIMIT[0])]


def summary(case: Case, size: str, timed: dict[str, Any]) -> str:
    """Say in a line how timing went."""
    medians = [one["median"] for one in timed["times"].values()]
    spread = sorted((one["ci95"][1] - one["ci95"][0]) / one["median"] for one in timed["times"].values())
    if not medians:
        return f"{case.name} {size}: nothing timed, {len(timed['errors'])} errors"
    return (
        f"{case.name} {size}: {len(medians)} timed by {timed['clock']} ({min(medians):.1f} to {max(medians):.1f} us, "
        f"median interval {100 * spread[len(spread) // 2]:.1f} %), {len(timed['errors'])} refused, "
        f"{timed.get('prepare_s', 0)} + {timed.get('measure_s', 0)} s"
    )


def asked(gpu: Pool, what: str, until: float) -> Any:
    """Ask the GPU's process for one thing; None when it cannot say."""
    ended = next(gpu.run([Ask(what)], until, fresh_after_error=True), Ended(what, error="out of time"))
    if ended.error is not None:
        print(f"{what}: {ended.error}", file=sys.stderr)
    return ended.result


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--kernels", nargs="*", default=[], help="names, also with commas between (default: all)")
    parser.add_argument("--seconds", type=float, default=230.0)
    parser.add_argument("--no-gpu", action="store_true")
    parser.add_argument("--no-facts", action="store_true", help="do not read what the compiler made of it")
    parser.add_argument("--arch", default="sm_90", help="with --no-gpu; else that of the GPU")
    parser.add_argument("--cores", type=int, default=cores(), help=f"processes that compile (here: {cores()})")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1, 2], help="which of each kernel's sizes")
    parser.add_argument("--limit", type=int, default=0, help="of configurations of each kernel")
    return parser.parse_args()


def cores() -> int:
    """Return how many processes to compile in: one less than there are cores, as far as this container may use them."""
    found = float(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        found = min(found, int(quota) / int(period))
    return max(1, min(32, int(found) - 1))


def main() -> int:
    given = options()
    began = time.monotonic()
    cases = list(chosen([name for text in given.kernels for name in text.split(",") if name]))
    if given.limit:
        _LIMIT.append(given.limit)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.unlink(missing_ok=True)
    os.environ.setdefault("TRITONFORGE_CACHE_DIR", str(Path(tempfile.gettempdir()) / "tritonforge-sweeps"))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # there are as many processes as cores
    handlers.prepare("compile")  # before anything is forked
    return record(given, cases, began)


def record(given: argparse.Namespace, cases: Sequence[Case], began: float) -> int:
    until = began + given.seconds
    recorder = Recorder(given.output, given.arch, began, until, tuple(given.sizes))
    gpu = None if given.no_gpu else Pool(on_gpu, 1, TIMING_STEP_S)
    try:
        ceilings = None
        if gpu is not None:
            recorder.info = encode(asked(gpu, "describe", until))
            if not (recorder.info or {}).get("gpus"):
                print("no GPU here: use --no-gpu", file=sys.stderr)
                return 1
            recorder.arch = recorder.info["gpus"][0]["arch"]
            ceilings = encode(asked(gpu, "ceilings", until))
            recorder.tell(f"{recorder.info['gpus'][0]['name']}: {json.dumps(ceilings)}")
        recorder.append([header(recorder, ceilings)])
        share = 1.0 if gpu is None else COMPILE_SHARE
        limit = began + share * given.seconds
        recorder.compile_all(cases, given.cores, limit, facts=not given.no_facts)
        if gpu is not None:
            recorder.time_all(gpu, cases)
        else:
            for case in cases:
                for size in recorder.sizes_of(case):
                    recorder.save(case, size, None)
    finally:
        if gpu is not None:
            gpu.close()
    recorder.tell(f"{given.output}: {given.output.stat().st_size} bytes")
    return 0


def header(recorder: Recorder, ceilings: Any) -> dict[str, Any]:
    """Return the first line: on what and when this was recorded."""
    import torch
    import triton

    gpus = recorder.info.get("gpus") or [{}]
    return {
        "format": 1, "date": dt.datetime.now(dt.UTC).date().isoformat(), "arch": recorder.arch,
        "gpu": gpus[0].get("name"), "driver": gpus[0].get("driver"), "torch": str(torch.__version__),
        "triton": str(triton.__version__), "ceilings": ceilings, "samples": SAMPLES,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
