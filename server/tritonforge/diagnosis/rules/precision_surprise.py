"""TF505: dots and sums that keep fewer digits than one would think."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.precision import Rounded, half_accumulators, rounded


def _look(case: Case) -> Iterable[Observation]:
    for seen in rounded(case):
        yield Observation(
            severity="warning",
            range=line_range(case.kernel, seen.line),
            message=_message(seen),
            provenance="compiled",
            evidence=evidence(
                ("format", seen.element, "", "compiled"),
                ("operands", ", ".join(seen.sources) or None, "", "compiled"),
                ("elements", seen.extent or None, "elements", "compiled"),
            ),
        )
    if case.compiled is None:
        for dot in half_accumulators(case):
            yield Observation(
                severity="hint",
                range=dot.range,
                message=_ACCUMULATOR.format(element=dict(dot.keywords)["out_dtype"].rpartition(".")[2]),
                provenance="source",
            )


_ACCUMULATOR = (
    "This dot accumulates in {element}: every partial sum is rounded to it; leave out out_dtype, so that it "
    "accumulates in float32, and convert the result."
)


def _message(seen: Rounded) -> str:
    if seen.what == "tf32":
        names = " and ".join(f"`{name}`" for name in seen.sources)
        return (
            f"The float32 elements of {names} are rounded to tf32 (10 bits of mantissa) before this dot multiplies "
            'them, which is Triton\'s default and not PyTorch\'s: say input_precision="ieee" (or "tf32x3"), or "tf32" '
            "where that is meant."
        )
    if seen.what == "accumulator":
        return _ACCUMULATOR.format(element=seen.element)
    if seen.what == "loop":
        return (
            f"A loop adds up in {seen.element}: every addition is rounded to it; accumulate in float32 and convert the "
            "result."
        )
    return (
        f"This sum over {seen.extent} elements adds in {seen.element}: convert them with `.to(tl.float32)` first, and "
        "the result back."
    )


RULE = Rule("TF505", "precision-surprise", "source", _look)
