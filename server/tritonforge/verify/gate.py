"""The gate: a candidate becomes a suggestion only when this says that it still computes the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tritonforge.domain.candidate import Verdict
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program, Tolerance
from tritonforge.jobs import JobError, Worker
from tritonforge.verify.checking import Checking
from tritonforge.verify.comparing import Comparer
from tritonforge.verify.judgement import Evidence, Trialled, judge
from tritonforge.verify.launched import Launched
from tritonforge.verify.originals import Originals
from tritonforge.verify.references import Named
from tritonforge.verify.replaying import Place
from tritonforge.verify.sanitising import sanitiser_says

_FAULTS = frozenset(["timeout", "crashed", "memory", "cuda-error"])
"""Failures of a job that what it runs may be to blame for."""


@dataclass
class Gate:
    """Checks candidates of one program against the calls that it is used with.

    `kernel` is the kernel that candidates change; without it kernels are not launched directly. `arch` is what both
    sides are compiled for; without it precision is not compared. `grid` holds the extents of the original's grids,
    which tell the sizes of a call that count programs; where it is empty, the compiled launches do. `reference` says
    what is right, where someone knows it. `first` is an input to try before everything else.

    Inputs depend on the original and the seed alone, so what is found out about them is kept between candidates, and
    `Verdict.replay` repeats the very same check.
    """

    worker: Worker
    original: Program
    calls: tuple[Call, ...]
    on_device: bool = False
    grid: frozenset[int] = frozenset()
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(1 << 30))
    tolerance: Tolerance = field(default_factory=Tolerance)
    arch: str = ""
    kernel: Kernel | None = None
    reference: Named | None = None
    first: Place | None = None
    _originals: Originals | None = None
    _prepared: bool = False

    def prepare(self) -> None:
        """Begin to find out about the original, beside all else, whatever candidates will need; returns at once.

        For who is going to check candidates, and closes the gate in the end. A check waits for what is under way, and
        meets what goes wrong there. A candidate's inputs go before whatever still waits for a lane.
        """
        self._prepared = True
        self._known().prepare()

    async def close(self) -> None:
        """End what was begun and is still under way. The gate may be used again."""
        self._prepared = False
        if self._originals is not None:
            await self._originals.close()

    async def check(self, candidate: Program, *, tile: int = 0, candidate_kernel: Kernel | None = None) -> Trialled:
        """Run original and candidate on every input and say whether they agree.

        What costs least comes first, and the first thing that is wrong ends the check.

        Args:
            candidate: the edited program.
            tile: the largest tile size that either side uses, so that sizes cross it; 0: what the launches show.
            candidate_kernel: the candidate's kernel, where it is not of the original's name.

        Raises:
            JobError: when the worker cannot do its part, or a call of the original cannot be repeated.
        """
        named = self.reference
        evidence = Evidence(self.seed, self.tolerance, self.on_device, named.text if named else "")
        reference = named.reference if named else None
        known = self._known()
        comparer = Comparer(
            self.worker, self.original, candidate, self.tolerance, reference, self.arch, self.on_device, known.ahead
        )
        checking = Checking(known, candidate, candidate_kernel, tile, evidence, comparer)
        try:
            await checking.run(self.first)
        except JobError as error:
            if error.kind not in _FAULTS:
                raise
            evidence.refused = f"it could not be run to the end: {error.message}"
            evidence.made["results"] = f"failed: {error.message}"
        finally:
            if not self._prepared:  # nobody may come back, and what goes on would hold lanes
                await known.rest()
        return judge(evidence)

    async def sanitised(self, candidate: Program, verdict: Verdict) -> Verdict:
        """Return the verdict with what a sanitiser says: it is slow, so that only what passed otherwise is worth it.

        Raises:
            JobError: when the GPU's worker cannot do its part.
        """
        if not (verdict.accepted and self.on_device):
            return verdict
        said, reason = await sanitiser_says(self.worker, self.original, candidate, self.calls)
        checks = {**verdict.checks, "sanitiser": said}
        return replace(verdict, accepted=not reason, reason=reason or verdict.reason, checks=checks)

    async def launched(self) -> Launched:
        """Return what the original launches, compiled.

        Raises:
            JobError: when a call of it cannot be repeated.
        """
        return await self._known().launched()

    def _known(self) -> Originals:
        if self._originals is None:
            self._originals = Originals(
                self.worker,
                self.original,
                self.calls,
                self.seed,
                self.tolerance,
                self.arch,
                self.kernel,
                self.grid,
                self.on_device,
            )
        return self._originals
