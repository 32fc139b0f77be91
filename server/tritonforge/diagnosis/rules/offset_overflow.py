"""TF501: offsets that 32 bits do not hold."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range, number, times
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.offsets import HOLDS, Overflow, Uneven, overflows, unevenly_widened


def _look(case: Case) -> Iterable[Observation]:
    seen = overflows(case)
    for one in seen:
        yield Observation(
            severity="error" if one.passes else "information",
            range=line_range(case.kernel, one.line),
            message=_message(one),
            provenance="compiled",
            evidence=evidence(
                ("largest_value", one.largest, "elements", "compiled"),
                ("largest_that_fits", HOLDS, "elements", "derived"),
                ("pointer", one.pointer, "", "source"),
                ("tensor_elements", one.elements, "elements", "derived"),
            ),
        )
    for uneven in unevenly_widened(case) if not seen else ():
        yield Observation(
            severity="hint",
            range=line_range(case.kernel, uneven.product.line),
            message=_hint(uneven),
            provenance="source",
            evidence=evidence(
                ("product", " × ".join(uneven.product.factors), "", "source"),
                ("pointer", uneven.pointer, "", "source"),
                ("widened_for", uneven.other, "", "source"),
            ),
        )


def _message(one: Overflow) -> str:
    if one.passes:
        return (
            f"The offset into `{one.pointer}` reaches {number(one.largest)} in this launch, and is computed in 32 "
            f"bits, which hold {number(HOLDS)}: it wraps round and another place is accessed; convert the index with "
            "`.to(tl.int64)` before it is multiplied."
        )
    return (
        f"The offset into `{one.pointer}` is computed in 32 bits and reaches {number(one.largest)} in this launch: a "
        f"tensor {times((HOLDS + 1) / one.largest)} as large makes it wrap round; convert the index with "
        "`.to(tl.int64)` before it is multiplied."
    )


def _hint(uneven: Uneven) -> str:
    product = " × ".join(_WORDS.get(name, f"`{name}`") for name in uneven.product.factors)
    return (
        f"{product} is computed in 32 bits for `{uneven.pointer}`, while the same index is widened to 64 bits for "
        f"`{uneven.other}` (line {uneven.other_line}): where that is needed, this wraps round too."
    )


_WORDS = {"program": "the program id", "loaded": "a loaded index", "loop": "the loop's variable", "lane": "the lane"}

RULE = Rule("TF501", "offset-overflow", "source", _look)
