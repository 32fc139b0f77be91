"""What the recorder's processes do: compile a configuration and read it, or time all configurations of a kernel."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweeps.cases import Case, label
from tritonforge.compilation import read
from tritonforge.domain.codec import encode
from tritonforge.domain.messages import Compile, Describe, MeasureCeilings, Program, Time
from tritonforge.worker.handlers import HANDLERS

HERE = Path(__file__).parent
SLOW_US = 3000.0
"""Launches that take longer are timed apart from the others, fewer times."""
SLOW_SAMPLES = 5
ONCE_US = 50_000.0
"""Launches that take longer are timed once, between events."""
_MEMORY_SHARE = 0.6


class Quiet:
    """The context of a job that nobody watches."""

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Ignore progress."""

    def output(self) -> str:
        """Return no output."""
        return ""


def do(request: Any) -> Any:
    """Do one of the worker's jobs in this process."""
    return HANDLERS[type(request)](request, Quiet())


def program_of(case: Case) -> Program:
    """Return the program that holds the kernel of a case."""
    return Program(str(HERE), case.file)


@dataclass(frozen=True)
class Build:
    """Compile one configuration for each of `sizes`; `facts` reads what the compiler made of it."""

    case: Case
    config: dict[str, int]
    sizes: tuple[str, ...]
    arch: str
    facts: bool = True


def build(job: Build, say: Any) -> dict[str, dict[str, Any]]:
    """Return by size the launch, the encoded `Compilation` and the error of a configuration, each None where absent."""
    _silence()
    found = {}
    for size in job.sizes:
        say(size)
        call = job.case.call(size, job.config)
        result = do(Compile(program_of(job.case), call, job.arch, (job.case.kernel,)))
        if len(result.launches) != 1:
            raise RuntimeError(f"{job.case.name} {label(job.config)} makes {len(result.launches)} launches")
        compiled = result.launches[0]
        entry: dict[str, Any] = {"launch": encode(compiled.launch), "error": compiled.error, "compilation": None}
        if job.facts and compiled.error is None:
            facts = read(compiled, launch_id=label(job.config), kernel_file_path=str(HERE / job.case.file))
            # What only the correctness gate asks for would be a third of the data.
            entry["compilation"] = encode(replace(facts, semantics=None))
        found[size] = entry
    return found


def _silence() -> None:
    """Send what compilers print about configurations that they refuse to nowhere."""
    if not getattr(sys, "_tritonforge_quiet", False):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        sys._tritonforge_quiet = True  # type: ignore[attr-defined] # noqa: SLF001


@dataclass(frozen=True)
class Clock:
    """Time these configurations of a case at one size, side by side."""

    case: Case
    size: str
    configs: tuple[dict[str, int], ...]
    samples: int
    budget_s: float


@dataclass(frozen=True)
class Ask:
    """Ask what GPU this is (`describe`), or what it reaches (`ceilings`)."""

    what: str


def on_gpu(job: Clock | Ask, say: Any) -> Any:
    """Do a job of the process that owns the GPU."""
    if isinstance(job, Ask):
        return do(Describe() if job.what == "describe" else MeasureCeilings())
    return time_case(job, say)


def time_case(job: Clock, say: Any) -> dict[str, Any]:
    """Time every configuration with the worker's own protocol: interleaved, L2 flushed, by CUPTI where it is there.

    Returns:
        `times`: by label, the encoded `TimeDistribution` in µs. `errors`: by label, why there is none. `notes` on what
        disturbed the measurement, and the `clock`. `prepare_s` and `measure_s`: how long it took.
    """
    import torch

    from tritonforge.profiling.statistics import summarise
    from tritonforge.worker.compiling import _cache_of
    from tritonforge.worker.timing.measuring import measure
    from tritonforge.worker.timing.taking import NotRun, take

    began = time.perf_counter()
    path = str((HERE / job.case.file).resolve())
    request = Time((program_of(job.case),), job.case.call(job.size, job.configs[0]), (job.case.kernel,), job.samples)
    taken: dict[str, Any] = {}
    errors: dict[str, str] = {}
    first: dict[str, float] = {}
    most = torch.cuda.get_device_properties(0).total_memory * _MEMORY_SHARE
    with _cache_of(path):  # compiled already, under the same key
        for config in job.configs:
            name = label(config)
            if torch.cuda.memory_allocated() > most:
                errors[name] = "not timed: the GPU's memory was full"
                continue
            say(name)
            try:
                launches = take(request.programs[0], replace(request, call=job.case.call(job.size, config)))
            except NotRun as error:
                errors[name] = str(error)
                continue
            taken[name] = launches[0]
            first[name] = _once(launches[0])
    prepared = time.perf_counter()
    times: dict[str, Any] = {}
    notes: list[str] = []
    clock = ""
    groups = (
        [n for n in taken if first[n] <= SLOW_US],
        [n for n in taken if SLOW_US < first[n] <= ONCE_US],
    )
    for names, samples in zip(groups, (job.samples, SLOW_SAMPLES), strict=True):
        if not names:
            continue
        say("all of them together")
        limited = replace(request, samples=samples, budget_s=job.budget_s)
        measured = measure([taken[n] for n in names], limited, time.perf_counter(), Quiet())
        clock = measured.clock
        notes += [note for note in measured.notes if note not in notes]
        times |= {n: encode(summarise(one)) for n, one in zip(names, measured.samples, strict=True)}
    times |= {n: encode(summarise([first[n]])) for n in taken if first[n] > ONCE_US}
    restored = sorted(n for n, one in taken.items() if one.restore)
    taken.clear()
    with contextlib.suppress(RuntimeError):
        torch.cuda.empty_cache()
    done = time.perf_counter()
    return {
        "times": times, "errors": errors, "notes": notes, "clock": clock, "restored": len(restored),
        "prepare_s": round(prepared - began, 2), "measure_s": round(done - prepared, 2),
    }  # fmt: skip


def _once(launch: Any) -> float:
    """Return roughly how many µs a launch takes."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    launch.reset()
    start.record()
    launch.start()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3
