"""TF503: accesses without a mask where the block does not divide what it covers."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.bounds import Overrun, Unmasked, overruns, unmasked_beside_masked


def _look(case: Case) -> Iterable[Observation]:
    for seen in overruns(case):
        extreme = seen.extreme
        yield Observation(
            severity="warning",
            range=line_range(case.kernel, extreme.line),
            message=_message(seen),
            provenance="compiled",
            evidence=evidence(
                ("pointer", extreme.pointer, "", "source"),
                ("highest_element", extreme.highest, "elements", "compiled"),
                ("lowest_element", extreme.lowest if extreme.lowest < 0 else None, "elements", "compiled"),
                ("tensor_elements", seen.elements, "elements", "derived"),
                ("tensor_shape", "×".join(map(str, seen.tensor.shape)), "elements", "derived"),
                ("program", ", ".join(map(str, extreme.program)), "", "derived"),
            ),
        )
    if case.compiled is None:
        for one in unmasked_beside_masked(case):
            yield Observation(
                severity="hint",
                range=one.access.range,
                message=_hint(one),
                provenance="source",
                evidence=evidence(
                    ("masked_line", one.other.range.start.line, "", "source"), ("mask", one.other.mask, "", "source")
                ),
            )


def _message(seen: Overrun) -> str:
    extreme = seen.extreme
    verb = {"load": "reads", "store": "writes", "atomic": "updates"}[extreme.kind]
    place = ", ".join(map(str, extreme.program))
    if extreme.highest < seen.elements:
        return (
            f"Program ({place}) {verb} element {extreme.lowest} of `{extreme.pointer}`, before its first, and nothing "
            "masks it."
        )
    return (
        f"Program ({place}) {verb} up to element {number(extreme.highest)} of `{extreme.pointer}`, which has "
        f"{number(seen.elements)}, and no mask turns the lanes beyond the end off: mask them, or choose a block that "
        "divides the size."
    )


def _hint(one: Unmasked) -> str:
    verb = "load" if one.other.kind == "load" else "store"
    line = one.other.range.start.line
    return (
        f"This {one.access.kind} has no mask, while the {verb} at the same offsets on line {line} "
        f"has `{one.other.mask}`: where that turns lanes off, this one leaves the buffer."
    )


RULE = Rule("TF503", "missing-mask", "source", _look)
