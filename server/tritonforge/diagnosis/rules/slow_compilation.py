"""TF405: unrolling that makes a kernel large and slow to compile."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, head_of, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.unrolling import INSTRUCTION_BYTES, Unrolled, unrolled

_SLOW_MS = 10_000.0
"""A compilation that a person waits for."""


def _look(case: Case) -> Iterable[Observation]:
    seen = unrolled(case)
    if seen is None:
        return
    compile_ms = case.compiled.compile_ms if case.compiled is not None else 0.0
    slow = seen.instructions is not None and compile_ms >= _SLOW_MS
    yield Observation(
        severity="hint" if seen.instructions is None else "warning" if slow else "information",
        range=head_of(seen.loop.range),
        message=_message(seen, compile_ms),
        provenance="source" if seen.instructions is None else "compiled",
        evidence=evidence(
            ("copies", seen.copies, "1", "source"),
            ("instructions", seen.instructions, "1", "compiled"),
            ("share_of_instructions", seen.share, "1", "compiled"),
            ("compile_time", compile_ms or None, "ms", "measured"),
        ),
    )


def _message(seen: Unrolled, compile_ms: float) -> str:
    copies = f"writes its body out {number(seen.copies)} times" if seen.copies else "writes its body out"
    advice = "use tl.range, with loop_unroll_factor where some unrolling pays"
    if seen.instructions is None or seen.share is None:
        return f"This static_range {copies}, and the compiler works on every copy; {advice}."
    took = f", and took {number(compile_ms / 1000)} s to compile" if compile_ms >= 1000 else ""
    size = number(seen.instructions * INSTRUCTION_BYTES / 1000)
    return (
        f"This static_range {copies}: the kernel has {number(seen.instructions)} instructions ({size} kB, more than an "
        f"SM's instruction cache holds), {percent(seen.share)} of them here{took}; {advice}."
    )


RULE = Rule("TF405", "slow-compilation", "source", _look)
