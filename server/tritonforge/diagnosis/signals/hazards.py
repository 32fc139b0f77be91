"""Combinations of Triton's version, architecture and program that are known to give wrong results, or not to start.

Each entry names where it was reported, so that it can be looked up and taken out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.versions import version_of
from tritonforge.domain.finding import Severity

_MOST_PROGRAMS = 65_535
"""Programs along the second and third axis of a CUDA grid (CUDA C++ Programming Guide, compute capabilities)."""


@dataclass(frozen=True)
class Hazard:
    """`text` says what goes wrong and what to do, `source` who reported it; `line` None: of the whole launch."""

    text: str
    source: str
    severity: Severity
    line: int | None = None


def hazards(case: Case) -> Iterator[Hazard]:
    """Yield what is known to go wrong with this launch, on the architecture and version it was compiled for."""
    yield from _too_many_programs(case)
    compiled = case.compiled
    version = version_of(compiled.triton) if compiled is not None else None
    if compiled is None or compiled.semantics is None or version is None:
        return
    for dot in compiled.semantics.dots:
        # Two dots into one accumulator within one iteration, on tcgen05, which tiles of 64 rows and more take.
        if dot.chained and dot.rows >= 64 and compiled.arch.startswith(("sm_100", "sm_103")):
            if (3, 6, 0) <= version < (3, 8, 0):
                yield Hazard(
                    "Two dots add to one accumulator in one iteration, which Triton 3.6 and 3.7 compile to wrong "
                    "results on Blackwell: give each its own accumulator and add them after the loop.",
                    "triton-lang/triton#10821, linkedin/Liger-Kernel#1435",
                    "warning",
                    dot.line,
                )
        elif dot.transposed and compiled.arch.startswith("sm_90") and compiled.num_warps >= 4:
            if version[:2] == (3, 2):
                yield Hazard(
                    "A transposed result of a dot is an operand of another, for which Triton 3.2 was seen to compute "
                    "wrong results on Hopper: compare with a reference, or upgrade.",
                    "triton-lang/triton#6124",
                    "information",
                    dot.line,
                )
            elif (3, 4, 0) <= version < (3, 7, 1):
                yield Hazard(
                    "A transposed result of a dot is an operand of another, for which Triton 3.4 to 3.7.0 were seen "
                    "to compute wrong results on Hopper: compare with a reference, or upgrade to 3.7.1.",
                    "fla-org/flash-linear-attention#640, fla-org/flash-linear-attention#983",
                    "information",
                    dot.line,
                )


def _too_many_programs(case: Case) -> Iterator[Hazard]:
    arch = case.compilation.arch if case.compilation is not None else ""
    if case.launch is None or not arch.startswith("sm_"):
        return
    for axis, extent in enumerate(case.launch.config.grid):
        if axis and extent > _MOST_PROGRAMS:
            yield Hazard(
                f"The grid has {extent:,} programs along axis {axis}, and CUDA starts no more than {_MOST_PROGRAMS:,} "
                "there, so the launch fails: put the long axis first.",
                "CUDA C++ Programming Guide",
                "error",
            )
