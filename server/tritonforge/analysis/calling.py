"""What a top-level statement calls and imports: read once, however often the rest of its file is analysed again."""

from __future__ import annotations

import ast
import sys

from tritonforge.analysis.scopes import Binding, Calling, Part

_LIBRARIES = frozenset(
    ["torch", "triton", "numpy", "pytest", "math", "matplotlib", "pandas", "scipy", "einops", "tabulate"]
)


def calling(part: Part) -> Calling:
    """Return what a statement calls, and what it imports from neither the standard library nor the usual ones."""
    if part.calling is None:
        part.calling = _read(part)
    return part.calling


def root_of(call: ast.Call) -> str | None:
    """Return the name at the start of what is called (`a` of `a.b[0].c(…)`), None where that is no name."""
    root = call.func
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    return root.id if isinstance(root, ast.Name) else None


def _read(part: Part) -> Calling:
    imported: set[str] = set()
    held: set[str] = set()
    for bindings in (part.bindings, *(scope.bindings for scope in part.scopes.values())):
        for name, bound in bindings.items():
            if any(_is_foreign(binding) for binding in bound):
                imported.add(name)
            if any(isinstance(binding.value, ast.Subscript) for binding in bound):
                held.add(name)
    roots = {
        id(scope): frozenset(root for call in scope.calls if (root := root_of(call)) is not None)
        for scope in part.scopes.values()
        if scope.is_function
    }
    calls = part.calls
    return Calling(
        imported=frozenset(imported),
        roots=roots,
        passing=tuple(at for at in calls if at.call.args and isinstance(at.call.args[0], ast.Name)),
        curried=tuple(at for at in calls if isinstance(at.call.func, ast.Call) and len(at.call.args) == 1),
        named=tuple(at for at in calls if isinstance(at.call.func, (ast.Subscript, ast.Attribute, ast.Name))),
        held=frozenset(held),
    )


def _is_foreign(binding: Binding) -> bool:
    top = binding.path.partition(".")[0]
    foreign = top not in _LIBRARIES and top not in sys.stdlib_module_names
    return binding.kind == "import" and (foreign or not top)
