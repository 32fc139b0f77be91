"""TF603: a known launch that the compiler refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.domain.rule_names import DOES_NOT_COMPILE

_SAID = re.compile(r"(?:\S+ does not compile: )?(?:line (?P<line>\d+): )?(?P<why>.*)", re.DOTALL)
_MOST = 300


def _look(case: Case) -> Iterable[Observation]:
    compilation = case.compilation
    if compilation is None or compilation.error is None:
        return
    said = _SAID.fullmatch(compilation.error)
    assert said is not None  # every part of it may be empty
    why = " ".join(said["why"].split()) or "the compiler gives no reason"
    why = why if len(why) <= _MOST else f"{why[: _MOST - 1]}…"
    lines = range(case.kernel.range.start.line, case.kernel.range.end.line + 1)
    line = int(said["line"]) if said["line"] else None
    yield Observation(
        severity="error",
        range=line_range(case.kernel, line) if line in lines and line is not None else case.kernel.name_range,
        message=f"{case.kernel.name} does not compile for {compilation.arch}: {why}{'' if why[-1] in '.!?…' else '.'}",
        provenance="compiled",
        evidence=evidence(
            ("arch", compilation.arch, "", "compiled"),
            ("triton", compilation.triton or None, "", "compiled"),
        ),
    )


RULE = Rule(DOES_NOT_COMPILE, "does-not-compile", "source", _look)
