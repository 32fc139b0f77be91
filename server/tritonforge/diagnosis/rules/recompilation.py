"""TF402: a constexpr whose value changes from call to call."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.recompiling import Recompiled, recompiled

_SHOWN = 6


def _look(case: Case) -> Iterable[Observation]:
    for seen in recompiled(case):
        observed = seen.because == "launches"
        compile_ms = case.compiled.compile_ms if case.compiled is not None else 0.0
        place = seen.value.range if seen.value is not None else None
        yield Observation(
            severity="information" if observed or seen.because == "loop" else "hint",
            range=place or case.kernel.name_range,
            message=_message(seen, compile_ms if observed else 0.0),
            provenance="derived" if observed else "source",
            evidence=evidence(
                ("constexpr", seen.parameter.name, "1", "source"),
                ("passed", seen.value.text if seen.value is not None else None, "1", "source"),
                ("values", ", ".join(map(str, seen.values[:_SHOWN])) if observed else None, "1", "derived"),
                ("compile_time", compile_ms if observed and compile_ms else None, "ms", "measured"),
            ),
        )


def _message(seen: Recompiled, compile_ms: float) -> str:
    advice = "pass it as an ordinary argument (without tl.constexpr)"
    took = f", about {number(compile_ms / 1000)} s each" if compile_ms >= 100 else ""
    why, also = {
        "loop": ("changes with every round of a host loop, and each value compiles anew", ""),
        "counter": ("changes from call to call, as its name says, and each value compiles anew", ""),
        "length": ("follows the data's length, and each new length compiles anew", ", or round it up to few values"),
        "launches": (
            f"has {len(seen.values)} values in the known launches, and each compiles anew{took}",
            ", or round it up to few values",
        ),
    }[seen.because]
    return f"The constexpr `{seen.parameter.name}` {why}; {advice}{also}."


RULE = Rule("TF402", "recompilation", "source", _look)
