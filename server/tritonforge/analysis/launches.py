"""Where a file launches its kernels: every form that the source shows."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from tritonforge.analysis.calling import calling
from tritonforge.analysis.discovery import JitFunction, KernelResolver
from tritonforge.analysis.flow import is_constexpr
from tritonforge.analysis.origins import Origins
from tritonforge.analysis.roles import OPTIONS
from tritonforge.analysis.scopes import CallAt, ModuleIndex, Scope, parameters_of
from tritonforge.analysis.text import SourceText
from tritonforge.analysis.tuning import follow
from tritonforge.analysis.unit import Unit
from tritonforge.domain.kernel import Autotune, LaunchSite, LaunchValue
from tritonforge.domain.source import Range

GridKind = Literal["tuple", "lambda", "variable", "function", "call", "unknown"]


@dataclass(frozen=True, eq=False)
class Launch:
    """A call that launches `kernel` over `grid` (None when it is not written there)."""

    at: CallAt
    kernel: JitFunction
    grid: ast.expr | None
    grid_scope: Scope


def find_launches(unit: Unit, resolver: KernelResolver) -> list[Launch]:
    """Return every launch of a kernel of this file, in source order."""
    launches: list[Launch] = []
    index = unit.index
    inside = {id(k.scope) for k in unit.jits.values()}
    called = [calling(part) for part in index.parts.values()]
    held = frozenset[str]().union(*(one.held for one in called))
    for at in (at for one in called for at in one.named):
        if id(at.scope) in inside:
            continue
        func = at.call.func
        if isinstance(func, ast.Name) and func.id not in held:
            continue
        if isinstance(func, ast.Subscript):
            launches += [Launch(at, k, func.slice, at.scope) for k in resolver.resolve(func.value, at.scope)]
        elif isinstance(func, ast.Attribute) and func.attr in ("run", "warmup"):
            grid = next((k.value for k in at.call.keywords if k.arg == "grid"), None)
            if grid is not None or any(k.arg is None for k in at.call.keywords):
                launches += [Launch(at, k, grid, at.scope) for k in resolver.resolve(func.value, at.scope)]
        elif isinstance(func, (ast.Name, ast.Attribute)):
            bound, scope = _bound_launcher(func, at.scope, index)
            if bound is not None:
                launches += [Launch(at, k, bound.slice, scope) for k in resolver.resolve(bound.value, scope)]
    launches.sort(key=lambda launch: (launch.at.call.lineno, launch.at.call.col_offset))
    return launches


def _bound_launcher(node: ast.expr, scope: Scope, index: ModuleIndex) -> tuple[ast.Subscript | None, Scope]:
    """Return `kernel[grid]` when `node` is a name or attribute that holds it."""
    if isinstance(node, ast.Attribute):
        held = index.attributes.get(node.attr, [])
        if len(held) == 1 and isinstance(held[0][0], ast.Subscript):
            return held[0][0], held[0][1]
        return None, scope
    assert isinstance(node, ast.Name)
    found = scope.lookup(node.id)
    if found is None:
        return None, scope
    for binding in found[1]:
        if binding.kind == "assign" and isinstance(binding.value, ast.Subscript) and not binding.element:
            return binding.value, found[0]
    return None, scope


@dataclass(frozen=True)
class Tuned:
    """What a kernel's decorators choose: `autotune` when there is one, and the names that heuristics fill in."""

    autotune: Autotune | None
    heuristics: tuple[str, ...]


def describe_launch(launch: Launch, tuned: Tuned, unit: Unit, origins: Origins, *, own: bool = True) -> LaunchSite:
    """Turn a launch into the noun (all but its hash). `own` is false for a kernel that is defined in another file."""
    text = unit.text
    host = launch.at.scope.function()
    grid, grid_kind, grid_range = _grid(launch, text)
    given, hidden = _given_arguments(launch)
    parameters = parameters_of(launch.kernel.node)
    names = {parameter.arg for parameter, _ in parameters}
    arguments = tuple((p.arg, text.segment(given[p.arg][0])) for p, _ in parameters if p.arg in given)

    def value_of(name: str, default: ast.expr | None) -> LaunchValue:
        if name in given:
            node, scope = given[name]
            value = origins.launch_value(node, scope)
            if scope is not launch.at.scope or node not in _written(launch.at.call):
                return LaunchValue(value.text, "kwargs", None, value.origin)
            return value
        if name in tuned.heuristics:
            return LaunchValue("", "heuristic")
        if _is_tuned(name, tuned.autotune, has_default=default is not None):
            return LaunchValue("", "autotune")
        if hidden:
            return LaunchValue("", "kwargs")
        if default is not None and not own:
            return LaunchValue(ast.unparse(default), "default")
        if default is not None:
            return LaunchValue(text.segment(default), "default", None, text.range(default))
        return LaunchValue("", "absent")

    constexprs = tuple((p.arg, value_of(p.arg, d)) for p, d in parameters if is_constexpr(p.annotation))
    extra = [k for k in given if k not in names and k not in OPTIONS]
    options = tuple((name, value_of(name, None)) for name in [*OPTIONS, *extra])
    return LaunchSite(
        file=unit.file,
        host=host.qualname if host is not None else None,
        range=text.range(launch.at.call),
        grid=grid,
        grid_kind=grid_kind,
        grid_range=grid_range,
        arguments=arguments,
        constexprs=constexprs,
        options=options,
    )


def true_sizes(launch: Launch, origins: Origins) -> set[str]:
    """Return the constexprs that this launch sets to a tensor's extent: they are no block sizes to choose."""
    given, _ = _given_arguments(launch)
    constexprs = {p.arg for p, _ in parameters_of(launch.kernel.node) if is_constexpr(p.annotation)}
    return {name for name, (node, scope) in given.items() if name in constexprs and origins.is_true_size(node, scope)}


def _is_tuned(name: str, autotune: Autotune | None, *, has_default: bool) -> bool:
    if autotune is None:
        return False
    if name in ("num_warps", "num_stages"):  # every triton.Config carries both
        return True
    if autotune.configs:
        return any(name == key for c in autotune.configs for key, _ in (*c.constexprs, *c.options))
    return name not in OPTIONS and not has_default


def _written(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords if k.arg is not None)]


def _given_arguments(launch: Launch) -> tuple[dict[str, tuple[ast.expr, Scope]], bool]:
    """Return what the launch gives by name, and whether `*args` or `**kwargs` may hide more."""
    call, scope = launch.at.call, launch.at.scope
    names = [p.arg for p, _ in parameters_of(launch.kernel.node)]
    given: dict[str, tuple[ast.expr, Scope]] = {}
    hidden = False
    for position, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            hidden = True
            break
        if position < len(names):
            given[names[position]] = (argument, scope)
    for keyword in call.keywords:
        if keyword.arg is not None:
            if keyword.arg not in ("grid", "warmup"):
                given[keyword.arg] = (keyword.value, scope)
            continue
        entries, where = follow(keyword.value, scope)
        if isinstance(entries, ast.Dict) and all(isinstance(k, ast.Constant) for k in entries.keys):
            for key, value in zip(entries.keys, entries.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    given.setdefault(key.value, (value, where))
        elif isinstance(entries, ast.Call) and isinstance(entries.func, ast.Name) and entries.func.id == "dict":
            hidden = hidden or bool(entries.args) or any(k.arg is None for k in entries.keywords)
            for item in entries.keywords:
                if item.arg is not None:
                    given.setdefault(item.arg, (item.value, where))
        else:
            hidden = True
    return given, hidden


def _grid(launch: Launch, text: SourceText) -> tuple[str, GridKind, Range | None]:
    """Return the grid's text with a name resolved one step, its kind and its place; the place holds that text."""
    node = launch.grid
    if node is None:
        return "", "unknown", None
    if isinstance(node, ast.Name):
        found = launch.grid_scope.lookup(node.id)
        binding = found[1][0] if found is not None and len(found[1]) == 1 else None
        if binding is not None and binding.kind == "function":
            return text.segment(binding.node), "function", text.range(binding.node)
        if binding is not None and binding.kind == "assign" and binding.value is not None and not binding.element:
            kind = _kind(binding.value)
            return text.segment(binding.value), "variable" if kind == "tuple" else kind, text.range(binding.value)
        return node.id, "variable", text.range(node)
    return text.segment(node), _kind(node), text.range(node)


def _kind(node: ast.expr) -> GridKind:
    if isinstance(node, (ast.Tuple, ast.List)):
        return "tuple"
    if isinstance(node, ast.Lambda):
        return "lambda"
    if isinstance(node, ast.Call):
        return "call"
    if isinstance(node, ast.Name):
        return "variable"
    return "unknown"
