"""Arithmetic that is slow by the element: the special-function units, and operations that become many instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.pace import pace
from tritonforge.domain.compilation import Compilation, LineInstructions
from tritonforge.domain.kernel import Operation
from tritonforge.prediction.load import executed_by_line

_BUSY = 0.6
"""Counted share of the cycles in which the special-function units work from which they hold a launch back."""
_DECIDES = 0.75
"""Share of the predicted time that a part needs to be the one that decides."""
_MOST = 0.4
"""Share of the issued instructions that one operation makes up from which it decides."""
_INT_DIVISION, _DIVISION = 20, 12
"""Instructions of one division, of integers by a value that is no constant and of IEEE floats (`LineInstructions`)."""
_DIVISIONS = frozenset({"/", "//", "%", "fmod", "div_rn", "fdiv"})
_POWERS = frozenset({"pow", "**"})
_SEQUENCES = _POWERS | {"sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "atan2", "erf", "erfc", "erfinv"}
_SEQUENCES |= {"expm1", "log1p", "lgamma", "tgamma", "cbrt", "rcbrt", "normcdf"}
"""Functions that are computed by ordinary instructions, tens of them (argument reductions, polynomials)."""

Instructions = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class SlowMath:
    """`operation`, the one that issues the most; `share` (0–1) of the time (`units`) or of instructions it takes.

    `what`: the special-function `units` decide, or the `instructions` that it becomes. `per_program` is how many
    instructions that is for the warps of one program (None: not compiled).
    """

    operation: Operation
    what: Literal["units", "instructions"]
    share: float
    per_program: float | None
    provenance: Literal["measured", "predicted"]


def slow_math(case: Case) -> SlowMath | None:
    """Judge whether slow arithmetic decides the time of a launch.

    From source alone nothing can be said: most kernels wait for memory, and their `exp` is free.
    """
    if not case.kernel.math or launch_bound(case) is not None:
        return None
    executed = _executed(case.compiled) if case.compiled is not None else {}
    counted = metric(case, "xu_active")
    if counted is not None and counted >= _BUSY:
        return _units(case, executed, counted, "measured")
    if not executed or (case.counters is None and not _decides(case)):
        return None
    if case.counters is None and case.prediction is not None and case.prediction.dominant == "special":
        return _units(case, executed, case.prediction.parts["special"] / case.prediction.time_us, "predicted")
    return _sequences(case, executed) if pace(case) == "alu" else None


def _decides(case: Case) -> bool:
    prediction = case.prediction
    return prediction is not None and prediction.parts.get(prediction.dominant, 0.0) >= _DECIDES * prediction.time_us


def _executed(compiled: Compilation) -> Instructions:
    """Warp instructions of one program by line and class."""
    known = {n: i.executed for n, i in compiled.instructions.items() if i.executed is not None}
    if known or compiled.work is None or not compiled.instructions:
        return known
    return executed_by_line(compiled, compiled.work)


def _units(
    case: Case, executed: Instructions, share: float, provenance: Literal["measured", "predicted"]
) -> SlowMath | None:
    def issued(operation: Operation) -> float:
        return sum(executed[n].get("special", 0.0) for n in _lines(operation) if n in executed)

    worst = max(case.kernel.math, key=lambda o: (issued(o), len(o.loops)))
    if executed and not issued(worst):
        return None
    return SlowMath(worst, "units", share, issued(worst) if executed else None, provenance)


def _sequences(case: Case, executed: Instructions) -> SlowMath | None:
    """The operation that becomes the most instructions, where that is a good part of all of them."""
    total = sum(sum(kinds.values()) for kinds in executed.values())
    instructions = case.compiled.instructions if case.compiled is not None else {}
    if not total:
        return None
    best: tuple[float, Operation] | None = None
    for operation in case.kernel.math:
        issued = sum(
            sum(executed[n].values()) * _part(operation, instructions[n])
            for n in _lines(operation)
            if n in executed and n in instructions
        )
        if issued >= _MOST * total and (best is None or issued > best[0]):
            best = issued, operation
    if best is None:
        return None
    provenance: Literal["measured", "predicted"] = "measured" if case.counters is not None else "predicted"
    return SlowMath(best[1], "instructions", best[0] / total, best[0], provenance)


def _part(operation: Operation, line: LineInstructions) -> float:
    """Share (0–1) of a line's instructions that the operation becomes."""
    if operation.name in _POWERS and _is_number(operation.arguments[-1:]):
        return 0.0  # the compiler multiplies
    if operation.name in _SEQUENCES:
        return 1.0
    if operation.name not in _DIVISIONS or not line.total:
        return 0.0
    found = line.functions.get("int_div", 0) * _INT_DIVISION + line.functions.get("div", 0) * _DIVISION
    return min(1.0, found / line.total)


def _is_number(arguments: tuple[str, ...]) -> bool:
    return any(text.strip().lstrip("-").replace(".", "", 1).isdigit() for text in arguments)


def _lines(operation: Operation) -> range:
    return range(operation.range.start.line, operation.range.end.line + 1)
