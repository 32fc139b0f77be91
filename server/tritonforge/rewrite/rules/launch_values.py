"""Where a launch takes each of its values from, and whether that place can be edited."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tritonforge.domain.kernel import Kernel, LaunchSite
from tritonforge.rewrite.rules.branches import Branches, Ran, alternatives
from tritonforge.rewrite.scopes import Read, Scopes, Variable, default_of
from tritonforge.rewrite.text import Source

COMPILER_DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
"""What Triton (3.2–3.9, NVIDIA) uses for options that a launch does not give."""

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What a launch may say to the compiler, in the order in which `triton.Config` takes it behind its constexprs."""

Place = Literal["launch", "variable", "host-default", "caller", "kernel-default", "absent", "autotune", "fixed"]


class Refused(Exception):
    """Carries the one sentence of a Refusal out of the depth of a rewrite."""


class AlreadySo(Refused):
    """What was asked for stands there."""


@dataclass(frozen=True)
class Setting:
    """How one value reaches a launch.

    `literal` is the integer to edit (`value` is what it says), or the name of one in a `min(…)`, at `place`.
    `at_launch` is the expression at the launch, None when the launch does not give the value. `chain` lists the
    variables it passes through, the launch's own first. `reason` says why a `fixed` value cannot be edited where it is
    set, `unsure` why another may be edited at the launch alone. `least` and `most`: beyond them an edit of `literal`
    has no effect.
    """

    name: str
    place: Place
    value: int | None = None
    literal: ast.expr | None = None
    at_launch: ast.expr | None = None
    chain: tuple[Variable, ...] = ()
    reason: str = ""
    unsure: str = ""
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class LaunchNode:
    """One launch in the tree: the call, its grid expression, and the function around it (None at module level)."""

    call: ast.Call
    grid: ast.expr | None
    host: ast.FunctionDef | ast.AsyncFunctionDef | None


def launches_in(scopes: Scopes) -> tuple[LaunchNode, ...]:
    """Return everything in the file that has the form of a launch, of any kernel, in source order."""
    calls = [node for node in scopes.nodes if isinstance(node, ast.Call)]
    found = [LaunchNode(c, grid, scopes.function_of(c)) for c in calls if (grid := _grid_of(c)) is not None]
    return tuple(sorted(found, key=lambda n: (n.call.lineno, n.call.col_offset)))


def _grid_of(call: ast.Call) -> ast.expr | None:
    if isinstance(call.func, ast.Subscript):
        return call.func.slice
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"run", "warmup"}:
        return next((k.value for k in call.keywords if k.arg == "grid"), None)
    return None


def node_of_site(source: Source, launches: tuple[LaunchNode, ...], site: LaunchSite) -> LaunchNode | None:
    """Return the launch that `site` describes; None when the text is not what was analysed."""
    start, end = source.offsets_of(site.range)
    return next((n for n in launches if source.span(n.call) == (start, end)), None)


def kernel_function(scopes: Scopes, kernel: Kernel) -> ast.FunctionDef | None:
    """Return the kernel's `def`, found by name and line; None for kernels that are not written as one."""
    lines = range(kernel.range.start.line, kernel.range.end.line + 1)
    for node in scopes.nodes:
        if isinstance(node, ast.FunctionDef) and node.name == kernel.simple_name and node.lineno in lines:
            return node
    return None


def integer(node: ast.AST | None) -> int | None:
    """Return the value of an integer literal, None for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def literal_in(node: ast.AST | None) -> ast.expr | None:
    """Return the integer literal that `node` is, or that it wraps as `tl.constexpr(64)`."""
    if integer(node) is not None:
        assert isinstance(node, ast.expr)
        return node
    if isinstance(node, ast.Call) and called_name(node) == "constexpr" and len(node.args) == 1 and not node.keywords:
        return literal_in(node.args[0])
    return None


def called_name(call: ast.Call) -> str:
    """Return the last part of the called name (`cdiv` of `triton.cdiv`), or the empty string."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


class Settings:
    """The settings of one kernel's launches in one file; `function` is its `def` where that is in another file."""

    def __init__(self, source: Source, scopes: Scopes, kernel: Kernel, function: ast.FunctionDef | None = None) -> None:
        self.source = source
        self.scopes = scopes
        self.kernel = kernel
        self.own = source.file == kernel.file
        self.function = kernel_function(scopes, kernel) if self.own else function
        self.branches = Branches(scopes)

    def of(self, launch: LaunchNode, name: str, values: Mapping[str, int] | None = None) -> Setting:
        """Say how the constexpr or option `name` reaches `launch`.

        `values` are what the launch was seen to run with: they tell which branch of the host code set a value.
        """
        ran = self._ran(launch.call, values or {})
        given = self._given(launch.call, name, ran)
        if isinstance(given, str):
            return Setting(name, "fixed", reason=given)
        if isinstance(given, tuple):
            variable, entry = given
            setting = self._resolve(name, entry, entry, (), ran)
            # Whoever else spreads the same dict sees the edit too; and the launch itself spells no value.
            place: Place = "variable" if setting.literal is not None else "fixed"
            return replace(setting, place=place, at_launch=None, chain=(variable, *setting.chain))
        if given is not None:
            return self._resolve(name, given, given, (), ran)
        autotune = self.kernel.autotune
        if autotune is not None:
            tuned = {key for config in autotune.configs for key, _ in (*config.constexprs, *config.options)}
            if name in tuned or not autotune.configs or name in OPTIONS:
                return Setting(name, "autotune")
        if name in self.kernel.heuristics:
            return Setting(name, "fixed", reason=f"{name} is chosen by @triton.heuristics")
        default = default_of(self.function, name) if self.function else None
        if default is not None:
            literal = literal_in(default)
            if literal is None:
                return Setting(name, "fixed", reason=f"{name} has the computed default {ast.unparse(default)}")
            return Setting(name, "kernel-default", integer(literal), literal if self.own else None)
        if self.kernel.parameter(name) is not None:
            return Setting(name, "fixed", reason=f"the launch gives no value for {name} that can be seen")
        return Setting(name, "absent", COMPILER_DEFAULTS.get(name))

    def entry(self, call: ast.Call, name: str) -> tuple[ast.Name, ast.expr] | None:
        """Return the dict variable that a launch spreads and its entry for `name`, where it is seen to hold one."""
        given = self._given(call, name, Ran())
        if not isinstance(given, tuple):
            return None
        spread = (k.value for k in call.keywords if k.arg is None and isinstance(k.value, ast.Name))
        return next(((node, given[1]) for node in spread if self.scopes.resolve(node) is given[0]), None)

    def _ran(self, call: ast.Call, values: Mapping[str, int]) -> Ran:
        """Return what a recorded launch tells of itself and of the variables that it was passed."""
        named = [(k.arg, k.value) for k in call.keywords if k.arg is not None]
        starred = next((i for i, a in enumerate(call.args) if isinstance(a, ast.Starred)), len(call.args))
        named += [(p.name, call.args[p.index]) for p in self.kernel.parameters if p.index < starred]
        variables = {}
        for name, node in named:
            variable = self.scopes.resolve(node) if isinstance(node, ast.Name) else None
            if variable is not None and name in values:
                variables[variable] = values[name]
        return Ran(values, variables)

    def _given(self, call: ast.Call, name: str, ran: Ran) -> ast.expr | tuple[Variable, ast.expr] | str | None:
        """Return what the launch passes for `name`, and the dict variable it is in; why nobody can tell; or None."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        parameter = self.kernel.parameter(name)
        hidden = f"{name} may be hidden in {{}} at line {call.lineno}"
        if parameter is not None:
            for index, argument in enumerate(call.args):
                if isinstance(argument, ast.Starred):
                    return hidden.format(self.source.segment(argument))
                if index == parameter.index:
                    return argument
        for keyword in call.keywords:
            if keyword.arg is not None:
                continue
            entries = self._entries(keyword.value, name, ran)
            if entries is None:
                return hidden.format(f"**{self.source.segment(keyword.value)}")
            if name in entries:
                variable = self.scopes.resolve(keyword.value) if isinstance(keyword.value, ast.Name) else None
                return (variable, entries[name]) if variable is not None else entries[name]
        return None

    def _entries(self, node: ast.expr, name: str, ran: Ran) -> dict[str, ast.expr] | None:
        """Return a dict that is written out, at the launch or in a variable, as far as it concerns `name`.

        None when `name` may be in it without being seen: an entry with another key, or a use of the variable other than
        spreading it, reading an entry or setting another one. Of several dicts that branches set, the one is returned
        that the launch was seen to run with.
        """
        if not isinstance(node, ast.Name):
            return _written(node)
        found = self._dicts(node, name)
        if len(found) > 1:
            found = [entries for entries in found if self._fits(entries, ran)]
        return found[0] if len(found) == 1 else None

    def _dicts(self, node: ast.Name, name: str) -> list[dict[str, ast.expr]]:
        """Return the dicts that a variable may be, one for each branch; none where `name` may be hidden in it."""
        variable = self.scopes.resolve(node)
        if variable is None or variable.parameter is not None:
            return []
        if not all(self._harmless(read, name) for read in variable.reads):
            return []
        values = [one for v in variable.values if isinstance(v, ast.expr) for one in alternatives(v)]
        found = [entries for entries in map(_written, values) if entries is not None]
        return found if len(found) == len(values) >= len(variable.values) else []

    def _fits(self, entries: Mapping[str, ast.expr], ran: Ran) -> bool:
        """Tell whether a launch that ran as it did may have got these entries; not where nothing was recorded."""
        values = {key: self.branches.possible(entry, ran) for key, entry in entries.items() if key in ran.values}
        return bool(values) and all(v is None or ran.values[key] in v for key, v in values.items())

    def _harmless(self, read: Read, name: str) -> bool:
        """Tell whether a use of a dict hides nothing of `name`: it is spread, an entry read, or another one set."""
        parent = self.scopes.parents[read]
        if isinstance(parent, ast.keyword):
            return parent.arg is None
        key = parent.slice if isinstance(parent, ast.Subscript) and parent.value is read else None
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            return False
        assert isinstance(parent, ast.Subscript)
        return key.value != name or isinstance(parent.ctx, ast.Load)

    def _resolve(self, name: str, at: ast.expr, node: ast.expr, chain: tuple[Variable, ...], ran: Ran) -> Setting:
        literal = literal_in(node)
        if literal is not None:
            return Setting(name, "variable" if chain else "launch", integer(literal), literal, at, chain)
        if isinstance(node, ast.Name | ast.Attribute) and len(chain) < 5:
            variable = self.scopes.resolve(node)
            if variable is None:
                how = "not set here" if isinstance(node, ast.Name) else self._how_set(node)
                return Setting(name, "fixed", at_launch=at, reason=_comes_from(name, node, how))
            if variable.parameter is not None:
                return self._of_parameter(name, at, (*chain, variable))
            value = variable.single
            if isinstance(value, ast.expr):
                return self._resolve(name, at, value, (*chain, variable), ran)
            places = [one for v in variable.values if isinstance(v, ast.expr) for one in alternatives(v)]
            if name in ran.values and len(places) >= len(variable.values) > 1:
                return self._chosen(name, at, places, (*chain, variable), ran)
            how = self._how_given(variable)
            if isinstance(node, ast.Attribute):
                how = self._how_set(node)
            reason = _comes_from(name, node, how)
            return Setting(name, "fixed", at_launch=at, chain=(*chain, variable), reason=reason)
        if name in ran.values and isinstance(node, ast.IfExp):
            return self._chosen(name, at, list(alternatives(node)), chain, ran)
        if name in ran.values and isinstance(node, ast.Call) and called_name(node) in {"min", "max"}:
            return self._bounded(name, at, node, chain, ran)
        if isinstance(node, ast.Subscript) and (entry := self._entry_of(node)) is not None:
            variable, entries = entry
            if len(entries) == 1:
                return self._resolve(name, at, entries[0], (*chain, variable), ran)
            if name in ran.values:
                return self._chosen(name, at, entries, (*chain, variable), ran)
        return Setting(name, "fixed", at_launch=at, chain=chain, reason=_why_fixed(name, node))

    def _chosen(
        self, name: str, at: ast.expr, places: Sequence[ast.expr], chain: tuple[Variable, ...], ran: Ran
    ) -> Setting:
        """Resolve that one of `places` which can have given the launch what it ran with."""
        wanted = ran.values[name]
        found = [p for p in places if self.branches.taken(p, ran, wanted)]
        settings = [self._resolve(name, at, p, chain, ran) for p in found]
        if len(settings) == 1:
            one = settings[0]
            return one if one.literal is not None else replace(one, value=wanted)
        lines = " and ".join(dict.fromkeys(str(p.lineno) for p in found or places))
        if not found:
            reason = f"this launch ran with {name}={wanted}, which is set at none of the lines {lines}"
            return Setting(name, "fixed", at_launch=at, chain=chain, reason=reason)
        sure = [
            s
            for s, p in zip(settings, found, strict=True)
            if s.literal and self.branches.possible(p, ran) == frozenset([wanted])
        ]
        unsure = (
            f"{name}={wanted} may come from line {lines}" if " " not in lines else f"lines {lines} set {name}={wanted}"
        )
        if len(sure) < len(settings):
            reasons = {s.reason for s in settings}
            reason = reasons.pop() if len(reasons) == 1 else f"{unsure}, and nothing says which of them did"
            return Setting(name, "fixed", wanted, at_launch=at, chain=chain, reason=reason)
        return replace(sure[0], chain=chain, unsure=unsure)

    def _bounded(self, name: str, at: ast.expr, node: ast.Call, chain: tuple[Variable, ...], ran: Ran) -> Setting:
        """Resolve the argument of `min(…)` or `max(…)` that gave the launch its value, where that is a number.

        `min(64, next_power_of_2(n))` is a tile of 64 for all but small sizes, and a number that may be set.
        """
        wanted, lowest = ran.values[name], called_name(node) == "min"
        plain = isinstance(node.func, ast.Name) and self.scopes.resolve(node.func) is None and not node.keywords
        fixed = Setting(name, "fixed", wanted, at_launch=at, chain=chain, reason=_why_fixed(name, node))
        if not plain or any(isinstance(a, ast.Starred) for a in node.args):
            return fixed
        for argument in node.args:
            mine = self.branches.possible(argument, ran)
            others = [self.branches.possible(a, ran) for a in node.args if a is not argument]
            known = [v for v in others if v is not None]
            if integer(argument) is not None:
                decides = integer(argument) == wanted
            else:
                beyond = all((min(v) > wanted) if lowest else (max(v) < wanted) for v in known)
                decides = (mine is None or wanted in mine) and beyond and len(known) == len(others)
            if not decides:
                continue
            setting = self._cap(name, at, argument, chain, ran)
            if setting.literal is None:
                return setting if lowest is False else fixed
            limit = (min if lowest else max)((wanted, *(min(v) if lowest else max(v) for v in known)))
            if len(known) == len(others):
                limit = min(map(min, known)) if lowest else max(map(max, known))
            if lowest:
                return replace(setting, most=limit if setting.most is None else min(limit, setting.most))
            return replace(setting, least=limit if setting.least is None else max(limit, setting.least))
        return fixed

    def _cap(self, name: str, at: ast.expr, node: ast.expr, chain: tuple[Variable, ...], ran: Ran) -> Setting:
        """Resolve a number in a `min(…)`: a constant that others may read, too, is replaced where it is read."""
        if isinstance(node, ast.Name) and self.branches.possible(node, ran) is not None:
            variable = self.scopes.resolve(node)
            if variable is not None and variable.parameter is None and len(variable.reads) > 1:
                return Setting(name, "variable" if chain else "launch", ran.values[name], node, at, chain)
        return self._resolve(name, at, node, chain, ran)

    def _entry_of(self, node: ast.Subscript) -> tuple[Variable, list[ast.expr]] | None:
        """Return the variable and the entries, one for each branch, that `sizes["m"]` reads of dicts written out."""
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(node.value, ast.Name) or not isinstance(key, str):
            return None
        variable, dicts = self.scopes.resolve(node.value), self._dicts(node.value, key)
        entries = [one[key] for one in dicts if key in one]
        return (variable, entries) if variable is not None and entries and len(entries) == len(dicts) else None

    def _how_given(self, variable: Variable) -> str:
        """Say why a variable is not taken for a number."""
        if len(variable.values) != 1:
            return f"set in {len(variable.values)} places"
        for node in self.scopes.nodes:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            names = (n for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))
            if any(n.id == variable.name and self.scopes.set_by(n) is variable for n in names):
                return f"one of the results of {ast.unparse(node.value)} at line {node.lineno}"
        return "imported or computed"

    def _how_set(self, node: ast.Attribute) -> str:
        """Say why an attribute is not taken for a constant."""
        for other in self.scopes.nodes:
            if isinstance(other, ast.Attribute) and other.attr == node.attr and not isinstance(other.ctx, ast.Load):
                return f"set on an object at line {other.lineno}"
        return "no constant that a class of this file sets in one place"

    def _of_parameter(self, name: str, at: ast.expr, chain: tuple[Variable, ...]) -> Setting:
        variable = chain[-1]
        function = variable.scope
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or len(variable.values) > 0:
            how = "is set again" if variable.values else "is that of a lambda"
            reason = f"{name} comes from the parameter {variable.name}, which {how}"
            return Setting(name, "fixed", at_launch=at, chain=chain, reason=reason)
        calls = [(c, a) for c in self._calls_of(function) for a in self._argument(c, function, variable.name)]
        default = default_of(function, variable.name)
        where = f"the parameter {variable.name} of {function.name}()"
        if default is None and len(calls) == 1 and (literal := literal_in(calls[0][1])) is not None:
            return Setting(name, "caller", integer(literal), literal, at, chain)
        if calls:
            reason = f"{name} is {where}, which its caller sets at line {calls[0][0].lineno}"
            return Setting(name, "fixed", at_launch=at, chain=chain, reason=reason)
        literal = literal_in(default)
        if literal is None:
            how = f"has the default {self.source.segment(default)}" if default is not None else "has no default"
            return Setting(name, "fixed", at_launch=at, chain=chain, reason=f"{name} is {where}, which {how}")
        return Setting(name, "host-default", integer(literal), literal, at, chain)

    def _calls_of(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
        """Yield the calls that may be of `function`: by its name, as a method, or as `forward` through `apply`."""
        owner = self.scopes.parents[function]
        for node in self.scopes.nodes:
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == function.name:
                variable = self.scopes.resolve(node.func)
                if variable is not None and variable.scope is self.scopes.scope_of(function):
                    yield node
            elif isinstance(node.func, ast.Attribute) and isinstance(owner, ast.ClassDef):
                through_apply = function.name == "forward" and ast.unparse(node.func) == f"{owner.name}.apply"
                if node.func.attr == function.name or through_apply:
                    yield node

    def _argument(
        self, call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str
    ) -> Iterator[ast.expr]:
        """Yield what `call` passes for the parameter, if it does."""
        yield from (k.value for k in call.keywords if k.arg == name)
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if isinstance(call.func, ast.Attribute) and (names[:1] in (["self"], ["cls"]) or call.func.attr == "apply"):
            names = names[1:]
        if name in names and names.index(name) < len(call.args):
            yield call.args[names.index(name)]


def _written(node: ast.expr) -> dict[str, ast.expr] | None:
    """Return the entries of a dict that is written out with all its keys."""
    if isinstance(node, ast.Dict):
        keys = [k.value if isinstance(k, ast.Constant) else None for k in node.keys]
        texts = [k for k in keys if isinstance(k, str)]
        return dict(zip(texts, node.values, strict=True)) if len(texts) == len(keys) else None
    if isinstance(node, ast.Call) and called_name(node) == "dict" and not node.args:
        named = {k.arg: k.value for k in node.keywords if k.arg is not None}
        return named if len(named) == len(node.keywords) else None
    return None


def _comes_from(name: str, node: ast.expr, how: str) -> str:
    text = ast.unparse(node)
    return f"{name} is {how}" if text == name else f"{name} comes from {text}, which is {how}"


def _why_fixed(name: str, node: ast.expr) -> str:
    text = ast.unparse(node)
    if any(isinstance(n, ast.Call) and called_name(n) == "next_power_of_2" for n in ast.walk(node)):
        return f"{name} is {text}, so that one block covers a whole row"
    return f"{name} is computed as {text}"
