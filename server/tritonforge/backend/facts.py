"""What is found out about a kernel's launches, as an editor shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tritonforge.diagnosis.heat import Heat, heat_of
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.counters import Counters
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.profile import Roofline
from tritonforge.domain.results import OptimizeResult, ProfileResult
from tritonforge.prediction import disagreement

if TYPE_CHECKING:
    from tritonforge.diagnosis.assessment import Assessed

CodeState = tuple[str, tuple[str, ...]]
"""A kernel's code and the code that launches it, as hashes."""


@dataclass(frozen=True)
class LaunchFacts:
    """One launch: its time in µs with where that comes from, its share (0–1) of the roofline, what it compiled to."""

    launch: Launch
    time_us: float | None
    provenance: Literal["measured", "predicted"]
    interval: tuple[float, float] | None = None
    fraction: float | None = None
    bound: str = ""
    bottleneck: Bottleneck | None = None
    compilation: Compilation | None = None
    heat: Heat = field(default_factory=Heat)
    counters: Counters | None = None
    roofline: Roofline | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    """µs of the predicted time by what causes them."""
    doubt: str | None = None
    """Why measurement and model cannot both be right, where they are far apart."""


@dataclass(frozen=True)
class KernelFacts:
    """What is known of a kernel as it stood in `text`. `target` names where it was found out."""

    kernel: Kernel
    text: str
    target: str
    launches: tuple[LaunchFacts, ...]
    findings: tuple[Finding, ...]

    @property
    def first(self) -> LaunchFacts | None:
        """The launch that matters most."""
        return min(self.launches, key=lambda one: one.launch.rank, default=None)


def launch_facts(assessed: Iterable[Assessed], profiled: ProfileResult | None = None) -> tuple[LaunchFacts, ...]:
    """Turn assessed launches into facts; with measured times where there are any."""
    times = {p.launch.id: p.time_us for p in profiled.profiles if p.time_us} if profiled else {}
    return tuple(
        LaunchFacts(
            launch=one.launch,
            time_us=time.median if time else one.prediction.time_us if one.prediction else None,
            provenance="measured" if time else "predicted",
            interval=time.ci95 if time else one.prediction.interval if one.prediction else None,
            fraction=one.roofline.fraction if one.roofline else None,
            bound=one.roofline.bound if one.roofline else "",
            bottleneck=one.bottleneck,
            compilation=one.compilation,
            heat=heat_of(one.case),
            counters=one.case.counters,
            roofline=one.roofline,
            parts=one.prediction.parts if one.prediction else {},
            doubt=disagreement(one.prediction, time.median) if time else None,
        )
        for one in assessed
        for time in (times.get(one.launch.id),)
    )


def of_original(result: OptimizeResult, text: str, target: str) -> KernelFacts:
    """Return what an optimisation showed of the original that it began with."""
    assessed = {one.compilation.launch: one for one in result.assessments}
    launches = []
    for launch in result.launches:
        one, place = assessed.get(launch.id), result.rooflines.get(launch.id)
        time, predicted = result.baseline_us.get(launch.id), one.prediction if one else None
        measured = result.provenance == "measured"
        launches.append(
            LaunchFacts(
                launch=launch,
                time_us=time,
                provenance=result.provenance,
                interval=predicted.interval if predicted and not measured else None,
                fraction=place.fraction if place else None,
                bound=place.bound if place else "",
                bottleneck=one.bottleneck if one else None,
                compilation=one.compilation if one else None,
                roofline=place,
                parts=predicted.parts if predicted else {},
                doubt=disagreement(predicted, time) if measured else None,
            )
        )
    return KernelFacts(result.kernel, text, target, tuple(launches), result.findings)


def state_of(kernel: Kernel) -> CodeState:
    """Return what facts about a kernel depend on: its code and the code that launches it."""
    return kernel.code_hash, tuple(sorted(site.site_hash for site in kernel.launch_sites))
