"""Give kernels, as they are rewritten for interpretation, the values that they have when they are compiled.

The interpreter runs a kernel as plain Python. Compiled, the variable of `for i in range(…)` is a 32-bit scalar of the
device with methods such as `.to`, and so is a number that is handed to a helper; interpreted both are Python numbers.
"""

from __future__ import annotations

import ast
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

from tritonforge.worker.interpreter import covering

_LOOPS = {"range", "tl.range"}
_TO = "_tritonforge_to"
_INDEX = "_tritonforge_index"


def install() -> None:
    """Patch the interpreter's rewriter, once, for the whole process."""
    original = getattr(interpreter, "ASTTransformer", None)
    rewriter = getattr(interpreter, "FunctionRewriter", None)
    if original is None or rewriter is None:
        return
    # What is in the interpreter's module is put into a kernel's globals when it is rewritten.
    setattr(interpreter, _TO, _to)
    setattr(interpreter, _INDEX, _index)
    covering.install()
    rewriter.ast_transformer = _transformer(original)()
    rewriter._compile_and_exec = _compiled(rewriter._compile_and_exec)


def _compiled(original: Any) -> Any:
    def compile_and_exec(self: Any, tree: ast.Module) -> Any:
        """Compile a kernel that a factory made inside a function that gives it the factory's variables."""
        _mark(self, tree)
        cells = dict(zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=False))
        if not cells or not isinstance(tree.body[0], ast.FunctionDef):
            return original(self, tree)
        kernel = tree.body[0]
        given = [ast.arg(name) for name in cells]
        arguments = ast.arguments([], given, None, [], [], None, [])
        body: list[ast.stmt] = [kernel, ast.Return(ast.Name(kernel.name, ast.Load()))]
        factory = ast.FunctionDef("_tritonforge_factory", arguments, body, [])
        if hasattr(ast, "TypeAlias"):  # Python 3.12
            vars(factory)["type_params"] = []
        tree.body[0] = ast.copy_location(factory, kernel)
        ast.fix_missing_locations(tree)
        space: dict[str, Any] = dict(self.kwargs)
        for name, value in vars(interpreter).items():
            self.fn.__globals__.setdefault(name, value)
        exec(compile(tree, self.filename, "exec"), self.fn.__globals__, space)
        return space["_tritonforge_factory"](*(cell.cell_contents for cell in cells.values()))

    return compile_and_exec


def _mark(rewriter: Any, tree: ast.Module) -> None:
    """Let the kernel tell which of its lines run."""
    kernel = tree.body[0]
    if isinstance(kernel, ast.FunctionDef):
        function = rewriter.fn
        kinds = getattr(function, "__annotations__", {})
        constexprs = frozenset(name for name, kind in kinds.items() if "constexpr" in str(kind))
        name = function.__qualname__.replace("<locals>.", "")
        covering.mark(kernel, name, rewriter.filename, constexprs, id(function))


def _transformer(original: Any) -> Any:
    class Transformer(original):  # type: ignore[misc]
        def visit_Assign(self, node: ast.Assign) -> Any:  # noqa: N802 - the name that ast looks for
            node.value = self.visit(node.value)
            if len(node.targets) > 1:
                first, *others = node.targets
                # `a = b = 0` assigns from right to left; the original takes one target only.
                return [
                    self.visit_Assign(ast.Assign([first], node.value)),
                    *(ast.Assign([target], _loaded(first)) for target in others),
                ]
            return super().visit_Assign(node)

        def visit_For(self, node: ast.For) -> Any:  # noqa: N802 - the name that ast looks for
            self.generic_visit(node)
            loops = isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) in _LOOPS
            if loops and isinstance(node.target, ast.Name):
                made = ast.Call(ast.Name(_INDEX, ast.Load()), [ast.Name(node.target.id, ast.Load())], [])
                node.body.insert(0, ast.Assign([ast.Name(node.target.id, ast.Store())], made))
            return node

        def visit_Call(self, node: ast.Call) -> Any:  # noqa: N802 - the name that ast looks for
            self.generic_visit(node)
            if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
                node.func.value = ast.Call(ast.Name(_TO, ast.Load()), [node.func.value], [])
            return node

    return Transformer


def _loaded(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body


def _to(value: Any) -> Any:
    """Return a number as a scalar of the device, and anything else as it is."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, (bool, int, float)):
        return interpreter.interpreter_semantic.to_tensor(value, False)
    return value


def _index(value: Any) -> Any:
    if type(value) is int:
        return interpreter.interpreter_semantic.to_tensor(value, False)
    return value
