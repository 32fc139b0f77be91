"""TF602: combinations of version, architecture and program that are known to go wrong."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.hazards import hazards
from tritonforge.diagnosis.sizes import site_of


def _look(case: Case) -> Iterable[Observation]:
    for seen in hazards(case):
        compilation = case.compilation
        site = site_of(case) if seen.line is None else None
        here = site.grid_range if site is not None and site.file == case.kernel.file else None
        yield Observation(
            severity=seen.severity,
            range=line_range(case.kernel, seen.line) if seen.line is not None else here or case.kernel.name_range,
            message=seen.text,
            provenance="compiled",
            evidence=evidence(
                ("reported", seen.source, "", "source"),
                ("triton", compilation.triton if compilation is not None else None, "", "compiled"),
                ("arch", compilation.arch if compilation is not None else None, "", "compiled"),
            ),
        )


RULE = Rule("TF602", "version-hazard", "launch", _look)
