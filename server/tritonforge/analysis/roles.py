"""What each parameter of a kernel is for, and which tiles each program axis walks over."""

from __future__ import annotations

import ast
import re

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.facts import Facts
from tritonforge.analysis.flow import is_constexpr
from tritonforge.analysis.scopes import parameters_of
from tritonforge.analysis.text import SourceText
from tritonforge.domain.kernel import Autotune, Parameter, ParameterRole

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Launch options that every kernel takes."""

_PER_PROGRAM = re.compile(r"block|tile|per_|unroll")


def read_parameters(
    kernel: JitFunction, facts: Facts, autotune: Autotune | None, sized: set[str], text: SourceText
) -> tuple[Parameter, ...]:
    """Return the kernel's parameters with their roles.

    `sized` names constexprs that some launch sets to a true size: tuning those would change the result.
    """
    configs = autotune.configs if autotune is not None else ()
    tuned = {name for config in configs for name, value in config.constexprs if value.isdecimal()}
    parameters = []
    for index, (argument, default) in enumerate(parameters_of(kernel.node)):
        constexpr = is_constexpr(argument.annotation)
        role = _constexpr_role(argument.arg, facts, tuned, sized) if constexpr else _runtime_role(argument.arg, facts)
        parameters.append(
            Parameter(
                name=argument.arg,
                index=index,
                constexpr=constexpr,
                role=role,
                annotation=text.segment(argument.annotation) if argument.annotation is not None else None,
                default=text.segment(default) if default is not None else None,
            )
        )
    return tuple(parameters)


def program_axes(facts: Facts, parameters: tuple[Parameter, ...]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return, for each program axis, the tile parameters that multiply it. Several on one axis: a flattened grid.

    A constexpr that only groups programs (`GROUP_SIZE_M`) multiplies a program id too, but sizes no block.
    """
    tiles = {p.name for p in parameters if p.role == "tile"} & (facts.tile_uses | facts.stop_uses)
    found = ((axis, tuple(name for name in names if name in tiles)) for axis, names in sorted(facts.axes.items()))
    return tuple((axis, names) for axis, names in found if names)


def _constexpr_role(name: str, facts: Facts, tuned: set[str], sized: set[str]) -> ParameterRole:
    if name in OPTIONS:
        return "option"
    strong = name in facts.tile_uses
    if name in tuned and (strong or name not in facts.flag_uses):
        return "tile"  # its author tunes it
    if name in facts.size_uses or name in sized:
        return "stride" if _strided(name, facts) else "meaning"
    if strong:
        return "tile"
    # Rows per program: multiplies a program id and bounds a loop, without any block of that size. So does a count of
    # tiles; only the name tells them apart.
    if name in facts.program_multiples & facts.stop_uses and _PER_PROGRAM.search(name.lower()):
        return "tile"
    return "stride" if _strided(name, facts) else "meaning"


def _strided(name: str, facts: Facts) -> bool:
    return "stride" in name.lower() and "compare" not in facts.uses.get(name, ())


def _runtime_role(name: str, facts: Facts) -> ParameterRole:
    uses = facts.uses.get(name, set())
    if name in facts.pointers:
        return "pointer"
    if name in OPTIONS:
        return "option"
    in_address = name in facts.address_factors or "stride" in uses
    if in_address and uses <= {"multiply", "stride"}:
        return "stride"
    if "stride" in name.lower() and "compare" not in uses:
        return "stride"
    lowered = name.lower()
    if not uses or uses <= {"argument", "test"}:
        if lowered.endswith(("ptr", "ptrs")) or lowered.startswith("ptr") or "desc" in lowered:
            return "pointer"
        return "unknown"
    return "scalar"


def returns_value(kernel: JitFunction) -> bool:
    """Tell whether the function returns something: entry kernels never do."""
    return any(
        r.value is not None and not (isinstance(r.value, ast.Constant) and r.value.value is None)
        for r in kernel.scope.returns
    )
