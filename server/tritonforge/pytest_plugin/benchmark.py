"""`kernel_benchmark`: a kernel's speed against its baseline, as a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tritonforge.diagnosis.inspect_many import Part
from tritonforge.domain.baseline import BaselineEntry, Comparison
from tritonforge.domain.errors import TritonForgeError
from tritonforge.jobs.session import Session
from tritonforge.pytest_plugin.laboratory import Laboratory
from tritonforge.pytest_plugin.subjects import (
    GivenCalls,
    call_of,
    kernel_of,
    kernels_launched,
    read_source,
    workload_of,
)
from tritonforge.regression.checking import Check
from tritonforge.regression.judging import Options
from tritonforge.regression.noise import MIN_EFFECT
from tritonforge.report import check_wording


@dataclass(frozen=True)
class Benchmark:
    """What was found: one comparison for each kernel and problem, and what is known of it now.

    `measured` tells whether times come from a GPU; else they are predicted.
    """

    comparisons: tuple[Comparison, ...]
    entries: tuple[BaselineEntry, ...]
    measured: bool

    @property
    def regressed(self) -> bool:
        """Whether any of them has regressed."""
        return any(one.status == "regressed" for one in self.comparisons)

    @property
    def time_us(self) -> float | None:
        """The time of all launches together in µs, measured or predicted; None where a part is not known."""
        times = [one.time.median if one.time else one.compiled.get("predicted_us") for one in self.entries]
        known = [float(time) for time in times if isinstance(time, int | float)]
        return sum(known) if known and len(known) == len(times) else None

    @property
    def ratio(self) -> float | None:
        """The largest after/before of all comparisons; None where there is none."""
        return max((one.ratio for one in self.comparisons if one.ratio is not None), default=None)

    @property
    def compiled(self) -> tuple[Mapping[str, Any], ...]:
        """What the compiler made of each launch: registers, spill_bytes, shared_bytes, occupancy, …."""
        return tuple(one.compiled for one in self.entries)


class KernelBenchmark:
    """What the fixture `kernel_benchmark` gives; call it."""

    def __init__(self, laboratory: Laboratory, min_effect: float | None) -> None:
        """Compare within `laboratory`; `min_effect` is the mark's."""
        self._laboratory = laboratory
        self._min_effect = min_effect

    def __call__(self, what: str | Callable[..., Any], *args: Any, **kwargs: Any) -> Benchmark:
        """Benchmark `PATH::KERNEL` on its known launches, or a host function on `args` and `kwargs`.

        The test fails when a kernel has regressed against the baseline, or cannot be run. One that is new passes; with
        `--tritonforge-update` it is written into the baseline.
        """
        laboratory = self._laboratory
        options = Options(self._min_effect or MIN_EFFECT, gate=False)  # `kernel_verify` is a test of its own

        async def work(session: Session) -> tuple[Check, tuple[Comparison, ...]]:
            check = Check(session, laboratory.store, laboratory.baseline, options)
            if isinstance(what, str):
                path, _, name = what.partition("::")
                source = read_source(laboratory, Path(path))
                part = Part(workload_of(laboratory, source), (kernel_of(source, name),), named=True)
            else:
                source, call = call_of(laboratory, what, args, kwargs)
                kernels = await kernels_launched(source, call, session, str(laboratory.root))
                given = GivenCalls(str(laboratory.root), source.analysis, source.text, laboratory.settings, (call,))
                part = Part(given, kernels, named=True)  # type: ignore[arg-type]  # as much of a workload as is asked of
            await check.look([part], update=laboratory.update)
            if check.unknown or laboratory.update:
                return check, ()
            found = await check.compare()
            # A test makes some of the baseline's launches; the others are other tests'.
            return check, tuple(one for one in found if one.status != "missing")

        try:
            check, found = laboratory.run(work)
            for kernel, why in check.unknown:
                pytest.fail(f"tritonforge: {kernel.name}: {why}", pytrace=False)
            if laboratory.update:
                for sentence in check.left_out():
                    pytest.fail(f"tritonforge: {sentence}", pytrace=False)
                laboratory.keep(check)
        except TritonForgeError as error:  # its sentence is all there is to say: no traceback
            raise pytest.fail.Exception(f"tritonforge: {error}", pytrace=False) from None
        laboratory.comparisons += found
        bad = [one for one in found if one.failed]
        if bad:
            pytest.fail("\n".join(f"tritonforge: {check_wording.sentence(one)}" for one in bad), pytrace=False)
        entries = tuple(entry for one in check.kernels for entry in one.entries.values())
        return Benchmark(found, entries, check.session.measures)
