"""A target that compiles for real and pretends to have a GPU and a gate, and a search on it.

Run as a program (`optimize_pretended.py FOLDER`) it searches, says what it has the gate judge, and never gets an answer
about the second version: whoever started it may kill it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from tritonforge.analysis import analyze
from tritonforge.config import Settings
from tritonforge.diagnosis.assessment import yardstick
from tritonforge.domain.candidate import Candidate, Verdict
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.messages import Compile, Time, TimedLaunch, TimedProgram, TimeFresh, TimeResult
from tritonforge.domain.target import GpuInfo
from tritonforge.jobs.session import open_session
from tritonforge.optimize import loop, optimize
from tritonforge.rewrite import edits_between
from tritonforge.store import open_store
from tritonforge.workload.specs import parse_spec
from tritonforge.workload.subject import Subject

FILE = "scale_shift.py"
TIMES = {64: 150.0, 128: 120.0, 256: 110.0, 512: 100.0, 1024: 50.0, 2048: 60.0}
"""Median µs of a version by its block, 64 being the original's."""


def block_of(program) -> int:
    text = dict(program.overlays)[FILE]
    found = re.search(r"BLOCK_SIZE=(\d+)\)", text)
    return int(found[1]) if found else 64


class PretendedGpu:
    """Answers `Time` from a table; `log` holds what was asked: (job, block) for each program of a job."""

    def __init__(self, worker, times, *, fresh=None, lost_after=None, lost_at=None, held=None, fits=None):
        self.worker, self.hello = worker, worker.hello
        self.fresh = fresh or times
        self.held, self._measuring = held, asyncio.Event()
        self.times, self.log = times, []
        self.lost_after, self.lost_at, self.fits = lost_after, lost_at, fits
        self.ended = False
        self._launches = {}

    async def run(self, request, **options):
        if isinstance(request, Compile):
            self.log.append(("Compile", block_of(request.program)))
            if block_of(request.program) == self.lost_at:
                raise TargetUnreachable("The connection is gone.", "Try again.")
            if block_of(request.program) == self.held:  # until something else is measured
                await asyncio.wait_for(self._measuring.wait(), 120)
        if not isinstance(request, Time):
            return await self.worker.run(request, **options)
        if self.lost_after is not None:
            self.lost_after -= 1
            if self.lost_after < 0:
                raise TargetUnreachable("The connection is gone.", "Try again.")
        if len(request.programs) > 1:
            self._measuring.set()
        await asyncio.sleep(0)  # a real one is waited for, and may be cancelled there
        programs = []
        for place, program in enumerate(request.programs):
            if self.fits is not None and place >= self.fits:
                programs.append(TimedProgram((), "The GPU ran out of memory.", memory=True))
                continue
            fresh = isinstance(request, TimeFresh)
            self.log.append(("TimeFresh" if fresh else "Time", block_of(program)))
            times = self.fresh if fresh else self.times
            median = times(dict(program.overlays)[FILE], block_of(program), request.call)
            row = tuple(median * (1 + 0.001 * (n % 3)) for n in range(request.samples))
            launches = await self._launches_of(program, request.call)
            programs.append(TimedProgram(tuple(TimedLaunch(one, row) for one in launches)))
        return TimeResult(tuple(programs), (), "cupti")

    async def _launches_of(self, program, call):
        key = program, call.id
        if key not in self._launches:
            compiled = await self.worker.run(Compile(program, call, "sm_90", artefacts=()))
            self._launches[key] = [one.launch for one in compiled.launches]
        return self._launches[key]

    def blocks(self, job):
        return [block for name, block in self.log if name == job]


class PretendedGate:
    """Refuses some blocks. `judged` holds what it was asked about; it says so to `say`, and hangs where told to.

    `waits`: about a block it says nothing before another one was measured, {block: other}. `target` is the GPU that the
    search runs on, whose `log` has ("gate", block) and ("verdict", block) too.
    """

    def __init__(self, *, refuses=(), hangs_at=None, waits=(), say=lambda _: None):
        self.refuses, self.hangs_at, self.waits, self.say, self.judged = refuses, hangs_at, dict(waits), say, []
        self.target, self.calls = None, []

    def prepare(self):
        self.calls.append("prepare")

    async def close(self):
        self.calls.append("close")

    async def check(self, program, *, tile):
        block = block_of(program)
        self.judged.append(block)
        self.target.log.append(("gate", block))
        if block in self.waits:
            async with asyncio.timeout(120):
                while self.waits[block] not in self.target.blocks("Time"):  # noqa: ASYNC110 - it is a list that grows
                    await asyncio.sleep(0.01)
        self.say(f"gate {block}")
        if block == self.hangs_at:
            await asyncio.Event().wait()
        self.target.log.append(("verdict", block))
        right = block not in self.refuses
        verdict = Verdict(right, "" if right else "it differs", ("one",), "original", "exact", 0.0, 0.0)
        return SimpleNamespace(verdict=verdict, notes=())

    async def sanitised(self, program, verdict):
        return verdict


class Blocks:
    """Proposes other blocks; once one was tried, those of `then`. Those of `fused` come with another rewrite, too.

    `seen` holds, for each time that it was asked, the titles of what it was told of as accepted.
    """

    origin = "rule"

    def __init__(self, *blocks, then=(), fused=(), ready=lambda: None):
        self.blocks, self.then, self.fused, self.ready, self.seen = blocks, then, fused, ready, []

    def propose(self, task, trials=()):
        text = task.texts[FILE]
        self.seen.append([t.candidate.title for t in trials if t.accepted])
        if trials:
            self.ready()
        for block in self.then if trials else self.blocks:
            edits = edits_between(FILE, text, with_block(text, block))
            values = ("launch-parameters", (("BLOCK_SIZE", str(block)),))
            yield Candidate(f"BLOCK_SIZE={block}", edits, (("fused", ()), values) if block in self.fused else (values,))


def with_block(text: str, block: int) -> str:
    text = re.sub(r"cdiv\(n_elements, \w+\)", f"cdiv(n_elements, {block})", text)
    return re.sub(r"BLOCK_SIZE=\w+\)", f"BLOCK_SIZE={block})", text)


def table(_text, block, _call):
    return TIMES[block]


class Target:
    """One session for many searches, since starting one takes seconds. Use it as a context."""

    def __enter__(self):
        self._runner = asyncio.Runner()
        self._opening = open_session(Settings(Path.cwd()), "offline", warm=("compile",))
        self._session = self._runner.run(self._opening.__aenter__())
        return self

    def __exit__(self, *_):
        self._runner.run(self._opening.__aexit__(None, None, None))
        self._runner.close()

    def search(
        self,
        folder: Path,
        gate,
        *,
        blocks=tuple(TIMES)[1:],
        then=(),
        times=table,
        fresh=None,
        engine=None,
        thinkers=(),
        sizes=(16777259,),
        lost_after=None,
        lost_at=None,
        held=None,
        fits=None,
        **options,
    ):
        """Search on the pretended GPU; returns the result (or what it raised) and the worker."""
        text = (folder / FILE).read_text()
        (kernel,) = analyze(text, FILE).kernels
        calls = tuple(
            parse_spec(f"x=fp32[{size}] y=fp32[{size}] scale=0.5", file=FILE, function="scale_shift") for size in sizes
        )
        subject = Subject(str(folder), FILE, text, kernel, calls)
        gpu = GpuInfo("NVIDIA H200", "sm_90", 132, 150 << 30, "580.159.04")
        worker = gate.target = PretendedGpu(
            self._session.worker, times, fresh=fresh, lost_after=lost_after, lost_at=lost_at, held=held, fits=fits
        )
        described = dataclasses.replace(self._session.described, gpus=(gpu,))
        session = dataclasses.replace(self._session, worker=worker, described=described, measures=True)

        async def go():
            try:
                return await optimize(
                    subject, session, yardstick(session), [engine or Blocks(*blocks, then=then), *thinkers],
                    **{"budget_s": 300.0, "store": store, **options},
                )  # fmt: skip
            except TargetUnreachable as error:
                return error

        with mock.patch.object(loop, "gate_of", return_value=gate), open_store(folder) as store:
            return self._runner.run(go()), worker


if __name__ == "__main__":
    with Target() as target:
        target.search(
            Path(sys.argv[1]),
            PretendedGate(refuses=[1024], hangs_at=2048, say=lambda text: print(text, flush=True)),  # noqa: T201
        )
