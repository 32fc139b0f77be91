"""What a rule is: a code, a name, the evidence it needs, and one function from a `Case` to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.domain.finding import Finding, Severity
from tritonforge.domain.provenance import Evidence, Provenance
from tritonforge.domain.source import Range

Need = Literal["source", "compilation", "launch", "counters", "time"]
"""The least evidence with which a rule can say something: source text alone, a compilation, a launch of which
something is known (a compilation or counters), counters, or a time (measured, else predicted)."""


_OTHERWISE = " So it is with the configuration that was recorded; the autotuner may choose another one."


@dataclass(frozen=True)
class Observation:
    """A finding before it is signed with the code and name of its rule."""

    severity: Severity
    range: Range
    message: str
    provenance: Provenance
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    estimated_gain: float | None = None


@dataclass(frozen=True)
class Rule:
    """One entry of the catalogue. `look` yields what it sees; `check` signs it.

    `tunable`: what it finds hangs on tiles, warps and stages. Of an autotuned kernel that was never run those of the
    recorded configuration are known, and not those that the tuner would choose: then nothing is a warning.
    """

    code: str
    name: str
    needs: Need
    look: Callable[[Case], Iterable[Observation]]
    tunable: bool = False

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield the findings of this rule on `case`; nothing when the case has less evidence than the rule needs."""
        if not self._has_what_it_needs(case):
            return
        unsure = self.tunable and _may_be_tuned_otherwise(case)
        for seen in self.look(case):
            lowered = unsure and seen.severity == "warning"
            yield Finding(
                code=self.code,
                name=self.name,
                severity="information" if lowered else seen.severity,
                file=case.kernel.file,
                range=seen.range,
                message=seen.message + (_OTHERWISE if lowered else ""),
                provenance=seen.provenance,
                evidence=seen.evidence,
                estimated_gain=seen.estimated_gain,
                launch=case.launch_id,
            )

    def _has_what_it_needs(self, case: Case) -> bool:
        if self.needs == "compilation":
            return case.compiled is not None
        if self.needs == "counters":
            return case.counters is not None
        if self.needs == "launch":
            return case.compiled is not None or case.counters is not None
        if self.needs == "time":
            return case.time_us is not None
        return True


def _may_be_tuned_otherwise(case: Case) -> bool:
    tuner = case.kernel.autotune
    if tuner is None or len(tuner.configs) == 1:
        return False
    ran = case.time is not None or case.counters is not None
    return not ran and (case.launch is None or case.launch.time_us is None)
