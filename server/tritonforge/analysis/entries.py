"""What in a file can be run to see its kernels launched: the main block, module-level calls, tests, benches."""

from __future__ import annotations

import ast

from tritonforge.analysis.calling import calling, root_of
from tritonforge.analysis.launches import Launch
from tritonforge.analysis.scopes import ModuleIndex, Scope, parameters_of
from tritonforge.domain.kernel import RunnableEntry

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def find_entries(index: ModuleIndex, launches: list[Launch]) -> tuple[RunnableEntry, ...]:
    """Return what can be run, most useful first: the main block, the module itself, then functions in source order."""
    reach = _Reach(index, launches)
    main: list[RunnableEntry] = []
    module: list[RunnableEntry] = []
    functions: list[RunnableEntry] = []
    for statement in index.body:
        if isinstance(statement, ast.If) and is_main_test(statement.test):
            if reach.from_statement(statement) and not main:
                main.append(RunnableEntry("main", "__main__", statement.lineno))
        elif isinstance(statement, _FUNCTIONS):
            if _is_runnable(statement) and reach.from_function(index.scopes[id(statement)]):
                functions.append(RunnableEntry("function", statement.name, statement.lineno))
        elif not isinstance(statement, ast.ClassDef) and not module and reach.from_statement(statement, imported=False):
            module.append(RunnableEntry("module", "<module>", statement.lineno))
    return (*main, *module, *functions)


def is_main_test(test: ast.expr) -> bool:
    """Tell whether an `if`'s test is `__name__ == "__main__"`."""
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = (test.left, test.comparators[0])
    named = any(isinstance(s, ast.Name) and s.id == "__name__" for s in sides)
    return named and any(isinstance(s, ast.Constant) and s.value == "__main__" for s in sides)


def _is_runnable(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return (node.name.startswith(("test_", "bench")) or node.name == "main") and runs_by_itself(node)


def runs_by_itself(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a function can be called by the recorder: every argument has a default or is parametrised."""
    if isinstance(node, ast.AsyncFunctionDef):
        return False
    given: set[str] = set()
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name == "parametrize" and isinstance(decorator, ast.Call):
            given |= _parametrised(decorator)
        elif name in ("fixture", "perf_report", "given", "jit", "skip"):
            return False
    return all(default is not None or parameter.arg in given for parameter, default in parameters_of(node))


def _parametrised(mark: ast.Call) -> set[str]:
    """Return the arguments that a `pytest.mark.parametrize` gives, as far as they are written out."""
    names = mark.args[0] if len(mark.args) > 1 else None
    items = names.elts if isinstance(names, (ast.Tuple, ast.List)) else [names]
    written = [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]
    return {part.strip() for text in written for part in text.split(",")}


class _Reach:
    """Which functions of a file get to a launch, or to a function imported from somebody's own module."""

    def __init__(self, index: ModuleIndex, launches: list[Launch]) -> None:
        self._index = index
        self._inner = [scope for scope in index.scopes.values() if scope.parent is not None]
        self._named: dict[str, list[Scope]] = {}
        for scope in self._inner:
            self._named.setdefault(scope.qualname.rpartition(".")[2], []).append(scope)
        self._readers: dict[str, list[Scope]] = {}
        for scope in index.scopes.values():
            for name in scope.names & self._named.keys():
                self._readers.setdefault(name, []).append(scope)
        self._launching = {id(launch.at.scope) for launch in launches}
        self._launching_calls = {id(launch.at.call) for launch in launches}
        called = [calling(part) for part in index.parts.values()]
        self._imported = {name for one in called for name in one.imported}
        calls_out = {at for one in called for at, roots in one.roots.items() if not roots.isdisjoint(self._imported)}
        self._known = self._closure(self._launching | calls_out)
        self._launchers = self._closure(self._launching)

    def _closure(self, begun: set[int]) -> set[int]:
        """Return the ids of scopes that get to one of those in `begun`, walking callers to a fixed point."""
        work = [scope for scope in self._inner if id(scope) in begun]
        reached = {id(scope) for scope in work}
        while work:
            scope = work.pop()
            above = self._readers.get(scope.qualname.rpartition(".")[2], [])
            for caller in [*above, *([scope.parent] if scope.parent is not None else [])]:
                if caller.parent is not None and id(caller) not in reached:
                    reached.add(id(caller))
                    work.append(caller)
        return reached

    def from_function(self, scope: Scope) -> bool:
        """Whether running this function gets to a launch or to imported code."""
        return id(scope) in self._known

    def from_statement(self, statement: ast.stmt, *, imported: bool = True) -> bool:
        """Whether running this module-level statement does; `imported=False` asks for a launch of this file only."""
        reached = self._known if imported else self._launchers
        calls = [at.call for at in self._index.parts[id(statement)].calls if at.scope is self._index.module]
        later = _calls_for_later(statement) if calls else set()
        for call in calls:
            if id(call) in later:
                continue
            if id(call) in self._launching_calls or (imported and root_of(call) in self._imported):
                return True
            for name in _names_in(call.func):
                if any(id(s) in reached for s in self._named.get(name, [])):
                    return True
        return False


def _names_in(node: ast.expr) -> list[str]:
    """Return the names and attributes that a callee is made of; what is merely passed along is not called."""
    found: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Attribute):
            found.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    return [*found, node.id] if isinstance(node, ast.Name) else found


def _calls_for_later(statement: ast.stmt) -> set[int]:
    """Return the ids of calls inside lambdas, unless the lambda is given to a benchmark that runs it at once."""
    later: set[int] = set()
    now: set[int] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and any("bench" in name for name in _names_in(node.func)):
            now |= {id(a) for a in [*node.args, *(k.value for k in node.keywords)]}
        elif isinstance(node, ast.Lambda) and id(node) not in now:
            later |= {id(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
    return later
