"""Values that change from call to call and are constants of the compiled kernel, so that each one compiles anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.extents import is_counter, is_length
from tritonforge.domain.kernel import Kernel, LaunchValue, Parameter
from tritonforge.domain.launch import Launch, Scalar

_SEVERAL = 3
"""Distinct values among the known launches from which a constexpr counts as one that changes."""


@dataclass(frozen=True)
class Recompiled:
    """`parameter` is a constexpr that changes: `because` of a host loop, its name, or the known launches' `values`.

    `place` is where a launch passes it, None where that does not show.
    """

    parameter: Parameter
    because: Literal["loop", "length", "counter", "launches"]
    value: LaunchValue | None
    values: tuple[int, ...] = ()


def recompiled(case: Case) -> tuple[Recompiled, ...]:
    """Return the constexprs that change from call to call though the kernel could take them at run time.

    Left out: tiles and flags (they have few values), what an autotuner or heuristic sets, literals, and sizes that the
    text needs at compile time: the bound of a `static_range`, the extent of a block.
    """
    kernel = case.kernel
    found = []
    for parameter in kernel.parameters:
        if not parameter.constexpr or parameter.role != "meaning" or _is_needed(kernel, parameter.name):
            continue
        seen = _judge(case, kernel, parameter)
        if seen is not None:
            found.append(seen)
    return tuple(found)


def _judge(case: Case, kernel: Kernel, parameter: Parameter) -> Recompiled | None:
    name = parameter.name
    passed = [(dict(site.arguments).get(name), dict(site.constexprs).get(name)) for site in kernel.launch_sites]
    for written, value in passed:
        if value is None or written is None:
            continue
        if value.source == "loop":
            return Recompiled(parameter, "loop", value)
        if value.source not in {"parameter", "expression"}:
            continue
        values = tuple(sorted(set(_values(case.launches, name))))
        if is_counter(name):
            return Recompiled(parameter, "counter", value, values)
        if is_length(name, written):
            return Recompiled(parameter, "launches" if len(values) >= _SEVERAL else "length", value, values)
    return None


def _values(launches: tuple[Launch, ...], name: str) -> Iterator[int]:
    for launch in launches:
        for key, value in (*launch.problem.constexprs, *launch.config.constexprs):
            if key == name and isinstance(value, Scalar) and type(value.value) is int:
                yield value.value


def _is_needed(kernel: Kernel, name: str) -> bool:
    """Whether the text needs the value at compile time: it bounds an unrolled loop."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(
        loop.kind == "static_range" and word.search(f"{loop.start} {loop.stop} {loop.step}") for loop in kernel.loops
    )
