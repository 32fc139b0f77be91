"""What in a file can be run to see its kernels launched: the main block, module-level calls, tests, benches."""

from __future__ import annotations

import ast
import sys

from tritonforge.analysis.launches import Launch
from tritonforge.analysis.scopes import CallAt, ModuleIndex, Scope, parameters_of
from tritonforge.domain.kernel import RunnableEntry

_LIBRARIES = frozenset(
    ["torch", "triton", "numpy", "pytest", "math", "matplotlib", "pandas", "scipy", "einops", "tabulate"]
)
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
        self._by_statement: dict[int, list[CallAt]] = {}
        for at in index.calls:
            self._by_statement.setdefault(id(at.statement), []).append(at)
        self._named: dict[str, list[Scope]] = {}
        for scope in index.scopes.values():
            if scope.parent is not None:
                self._named.setdefault(scope.qualname.rpartition(".")[2], []).append(scope)
        self._children: dict[int, list[Scope]] = {}
        for scope in index.scopes.values():
            if scope.parent is not None:
                self._children.setdefault(id(scope.parent), []).append(scope)
        self._launching = {id(launch.at.scope) for launch in launches}
        self._launching_calls = {id(launch.at.call) for launch in launches}
        self._imported = self._own_imports()
        self._known = self._closure(imported=True)
        self._launchers = self._closure(imported=False)

    def _own_imports(self) -> set[str]:
        """Names imported from neither the standard library nor the usual libraries."""
        names: set[str] = set()
        for scope in self._index.scopes.values():
            for name, bindings in scope.bindings.items():
                for binding in bindings:
                    top = binding.path.partition(".")[0]
                    foreign = top not in _LIBRARIES and top not in sys.stdlib_module_names
                    if binding.kind == "import" and (foreign or not top):
                        names.add(name)
        return names

    def _closure(self, *, imported: bool) -> set[int]:
        """Return the ids of scopes that reach a launch (or an imported function), walking callers to a fixed point."""
        reached: set[int] = set()
        for scope in self._index.scopes.values():
            calls_out = imported and scope.is_function and any(self._calls_imported(call) for call in scope.calls)
            if scope.parent is not None and (id(scope) in self._launching or calls_out):
                reached.add(id(scope))
        readers: dict[str, list[Scope]] = {}
        for scope in self._index.scopes.values():
            for name in scope.names & self._named.keys():
                readers.setdefault(name, []).append(scope)
        work = [s for s in self._index.scopes.values() if id(s) in reached]
        while work:
            scope = work.pop()
            above = readers.get(scope.qualname.rpartition(".")[2], [])
            for caller in [*above, *([scope.parent] if scope.parent is not None else [])]:
                if caller.parent is not None and id(caller) not in reached:
                    reached.add(id(caller))
                    work.append(caller)
        return reached

    def _calls_imported(self, call: ast.Call) -> bool:
        root = call.func
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        return isinstance(root, ast.Name) and root.id in self._imported

    def from_function(self, scope: Scope) -> bool:
        """Whether running this function gets to a launch or to imported code."""
        return id(scope) in self._known

    def from_statement(self, statement: ast.stmt, *, imported: bool = True) -> bool:
        """Whether running this module-level statement does; `imported=False` asks for a launch of this file only."""
        reached = self._known if imported else self._launchers
        calls = [at.call for at in self._by_statement.get(id(statement), []) if at.scope is self._index.module]
        later = _calls_for_later(statement) if calls else set()
        for call in calls:
            if id(call) in later:
                continue
            if id(call) in self._launching_calls or (imported and self._calls_imported(call)):
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
