"""Which tiles the host code of a recorded launch lets be set after all, and why others stay as they are.

The analysis of a file calls a value that is set in several places, or computed, no free choice. With a recorded launch
an edit is often possible: the launch tells which branch was taken, and whether the number in a `min(…)` decided. It is
possible where the rewrite makes it, so that is what is asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.domain.candidate import Candidate
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.rewrite.plausibility import Facts, why_not
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.launch_parameters import recorded_values, rewrite_launch
from tritonforge.rewrite.shapes import WARPS
from tritonforge.rewrite.space import Parameter

_DIFFER = "the recorded launches ran with different values of {}, and an edit has to hold for all of them."


@dataclass(frozen=True)
class Settable:
    """`free` are the tiles that can be set although their value is no literal; `why` says of the others why not."""

    free: frozenset[str] = frozenset()
    why: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, texts: Mapping[str, str], launches: Sequence[Launch], arch: str) -> Settable:
        """Ask the rewrite of launch parameters for half and twice of what the first launch ran with."""
        launch = launches[0]
        facts = Facts.of(kernel, launch, arch)
        if kernel.autotune is not None:
            left = {name: f"the autotuner's configs leave {name} to the launch." for name in facts.fixed}
            return cls(why=left | {name: f"{name} is chosen by @triton.heuristics." for name in kernel.heuristics})
        free, why = set[str](), dict[str, str]()
        for name in (n for n in kernel.tiles if n in facts.fixed):
            now = facts.current[name]
            for value in (now // 2, now * 2):
                alike = ran_alike(launches, [name])
                made = rewrite_launch(kernel, texts, {name: value}, launch, in_branches=alike) if value else None
                if isinstance(made, Refusal):
                    here = None if alike else rewrite_launch(kernel, texts, {name: value}, launch)
                    why.setdefault(name, made.reason if not isinstance(here, Candidate) else _DIFFER.format(name))
                elif made is not None:
                    free.add(name)
                    break
        return cls(frozenset(free), {name: reason for name, reason in why.items() if name not in free})

    def shown_on(self, kernel: Kernel) -> Kernel:
        """Return `kernel` with launches whose values say which of them are free."""
        if not self.free:
            return kernel
        sites = tuple(
            dataclasses.replace(
                site,
                constexprs=tuple(
                    (name, dataclasses.replace(value, source="local") if name in self.free else value)
                    for name, value in site.constexprs
                ),
            )
            for site in kernel.launch_sites
        )
        return dataclasses.replace(kernel, launch_sites=sites)

    def refusals(self, space: Sequence[Parameter], kernel: Kernel, launch: Launch, arch: str) -> Iterator[Refusal]:
        """Yield why nothing else is tried, for each parameter that keeps its value."""
        facts = Facts.of(kernel, launch, arch)
        for one in space:
            if len(one.values) > 1 or one.current is None:
                continue
            reason = self.why.get(one.name) or _implausible(one, facts)
            if reason:
                yield Refusal(f"{one.name} stays {one.current}: {reason}", "launch-parameters")


def ran_alike(launches: Sequence[Launch], names: Iterable[str]) -> bool:
    """Tell whether all launches ran with the same values: else a branch is that of some of them alone.

    An edit there would set a value for these, and the others would be taken to have it.
    """
    values = [recorded_values(launch) for launch in launches]
    return all(len({one.get(name) for one in values}) == 1 for name in names)


def _implausible(parameter: Parameter, facts: Facts) -> str:
    """Return what speaks against every other value of a parameter, where something does."""
    now = parameter.current or 0
    others: Collection[int] = WARPS if parameter.name == "num_warps" else (now // 2, now * 2)
    if parameter.name == "num_stages":
        others = (now + 1, now - 1)
    if parameter.name in facts.fixed:
        return ""
    reasons = [why_not({parameter.name: value}, facts) for value in others if value != now]
    return next((f"{reason}." for reason in reasons if reason), "")
