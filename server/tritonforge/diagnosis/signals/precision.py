"""Arithmetic in fewer digits than the types of the tensors promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import tensors
from tritonforge.domain.kernel import Operation
from tritonforge.domain.semantics import DotFormat, SumFormat

_STATED = frozenset(["input_precision", "allow_tf32"])
_LONG_SUM = 64
"""Elements from which the rounding errors of a sum in 16 bits matter: √64 roundings of 2⁻¹¹ are 0.4 %."""
_FIRST_TF32 = 80
"""The compute capability from which tensor cores have tf32."""


@dataclass(frozen=True)
class Rounded:
    """A dot or sum on `line` in a type that keeps fewer digits than one would think."""

    line: int
    what: Literal["tf32", "accumulator", "sum", "loop"]
    element: str
    sources: tuple[str, ...] = ()
    extent: int = 0


def rounded(case: Case) -> tuple[Rounded, ...]:
    """Return where the compiled launch computes in fewer digits without having been asked to."""
    known = case.compiled.semantics if case.compiled is not None else None
    if known is None:
        return ()
    found = [one for dot in known.dots for one in _of_dot(case, dot)]
    found += [one for total in known.sums for one in _of_sum(total)]
    return tuple(dict.fromkeys(found))


def _of_dot(case: Case, dot: DotFormat) -> list[Rounded]:
    found = []
    by_default = dot.operand == "f32" and dot.precision == "tf32" and dot.sources and not _stated(case, dot)
    if by_default and _has_tf32(case) and _is_all_wide(case):
        found.append(Rounded(dot.line, "tf32", "tf32", dot.sources))
    if dot.result in {"f16", "bf16"} and dot.operand in {"f16", "bf16"}:
        found.append(Rounded(dot.line, "accumulator", dot.result, extent=dot.contraction))
    return found


def _of_sum(total: SumFormat) -> list[Rounded]:
    if total.loop:
        return [Rounded(total.line, "loop", total.element)]
    return [Rounded(total.line, "sum", total.element, extent=total.extent)] if total.extent >= _LONG_SUM else []


def _has_tf32(case: Case) -> bool:
    arch = case.compilation.arch if case.compilation is not None else ""
    digits = arch.removeprefix("sm_").rstrip("af")
    return arch.startswith("sm_") and digits.isdigit() and int(digits) >= _FIRST_TF32


def _is_all_wide(case: Case) -> bool:
    """Tell whether every float that the launch is given has 32 bits or more: beside 16-bit ones tf32 loses little."""
    floats = [t.dtype for t in tensors(case.launch).values() if "float" in t.dtype]
    return all(dtype in {"float32", "float64"} for dtype in floats)


def _stated(case: Case, dot: DotFormat) -> bool:
    """Tell whether the source says which precision it wants on that line."""
    return any(
        _STATED & set(dict(one.keywords)) or len(one.arguments) > 3
        for one in case.kernel.dots
        if one.range.start.line <= dot.line <= one.range.end.line
    )


def half_accumulators(case: Case) -> tuple[Operation, ...]:
    """Return the dots whose source asks for a 16-bit result."""
    return tuple(
        one
        for one in case.kernel.dots
        if dict(one.keywords).get("out_dtype", "").rpartition(".")[2].strip() in {"float16", "bfloat16"}
    )
