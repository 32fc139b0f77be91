"""What a proposal is held against: the kernel and host functions that it may replace, and what they use."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tritonforge.analysis.discovery import find_jit_functions
from tritonforge.analysis.names import dotted
from tritonforge.analysis.scopes import Scope, index_module
from tritonforge.analysis.text import SourceText
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.source import Range
from tritonforge.rewrite.text import Source

_TYPE = re.compile(r"(?:torch|triton\.language)\.(?:b?float|u?int|bool|half|double|long)\w*")


@dataclass(frozen=True)
class Replaceable:
    """A function that a proposal may replace: its node, the scope that it is defined in, its place with decorators."""

    kind: Literal["kernel", "host"]
    node: ast.FunctionDef
    scope: Scope
    range: Range
    start: int
    end: int
    indent: str

    @cached_property
    def dumps(self) -> tuple[str, ...]:
        """Its statements, so that equal ones can be found."""
        return tuple(map(ast.dump, self.node.body))

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name in it, its decorators and annotations included."""
        return frozenset(node.id for node in ast.walk(self.node) if isinstance(node, ast.Name))

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that it binds itself."""
        return frozenset(bound_names(self.node))

    @cached_property
    def paths(self) -> frozenset[str]:
        """Every dotted expression in it, as written (`tl.extra.libdevice.tanh`)."""
        return frozenset(ast.unparse(node) for node in ast.walk(self.node) if isinstance(node, ast.Attribute))

    @cached_property
    def read(self) -> frozenset[str]:
        """Those of `paths` that are values by themselves: neither called nor on the way to something else."""
        other = {
            id(node.func if isinstance(node, ast.Call) else node.value)
            for node in ast.walk(self.node)
            if isinstance(node, (ast.Call, ast.Attribute))
        }
        nodes = (node for node in ast.walk(self.node) if isinstance(node, ast.Attribute) and id(node) not in other)
        return frozenset(map(ast.unparse, nodes))

    @cached_property
    def grids(self) -> frozenset[str]:
        """The grids of its launches, as trees."""
        calls = (node.func for node in ast.walk(self.node) if isinstance(node, ast.Call))
        return frozenset(ast.dump(one.slice) for one in calls if isinstance(one, ast.Subscript))

    @cached_property
    def called(self) -> frozenset[str]:
        """The names that it calls."""
        calls = (node.func for node in ast.walk(self.node) if isinstance(node, ast.Call))
        return frozenset(one.id for one in calls if isinstance(one, ast.Name))

    @cached_property
    def launched(self) -> frozenset[str]:
        """The names that it launches: `name[grid](…)`."""
        calls = (node.func for node in ast.walk(self.node) if isinstance(node, ast.Call))
        return frozenset(
            one.value.id for one in calls if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name)
        )

    @cached_property
    def bare(self) -> frozenset[str]:
        """The names that stand by themselves in it: neither called nor looked into."""
        other = {
            id(node.func if isinstance(node, ast.Call) else node.value)
            for node in ast.walk(self.node)
            if isinstance(node, (ast.Call, ast.Attribute))
        }
        return frozenset(n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and id(n) not in other)

    @cached_property
    def texts(self) -> frozenset[str]:
        """Every string in it."""
        return frozenset(
            node.value for node in ast.walk(self.node) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )


class Original:
    """One file with one of its kernels, as a proposal finds it.

    `functions` are those that may be replaced, by simple name; a host function is one that launches the kernel in the
    same file. A name that two of them share cannot be told apart and is in `ambiguous` instead.

    Raises:
        SyntaxError: when the text is no Python.
        LookupError: when the kernel is not found in it.
    """

    def __init__(self, text: str, kernel: Kernel) -> None:
        self.source = Source(kernel.file, text)
        self.kernel = kernel
        self.index = index_module(self.source.tree)
        self._jits = {id(jit.node) for jit in find_jit_functions(self.index).values()}
        self._text = SourceText(text)
        self.functions: dict[str, Replaceable] = {}
        self.ambiguous: set[str] = set()
        hosts = list(dict.fromkeys(site.host for site in kernel.launch_sites if site.host and site.file == kernel.file))
        for scope in self.index.functions():
            node = scope.node
            if not isinstance(node, ast.FunctionDef):
                continue
            where = self._text.definition_range(node)
            if scope.qualname == kernel.name and where.start.line <= kernel.name_range.start.line <= where.end.line:
                self._add("kernel", node, scope, where)
            elif scope.qualname in hosts:
                self._add("host", node, scope, where)
        if not any(one.kind == "kernel" for one in self.functions.values()):
            raise LookupError(kernel.name)

    def _add(self, kind: Literal["kernel", "host"], node: ast.FunctionDef, scope: Scope, where: Range) -> None:
        start, end = self.source.offsets_of(where)
        line = self.source.line_starts[where.start.line - 1]
        before = self.source.text[line:start]
        around = scope.parent or self.index.module
        if node.name in self.functions or node.name in self.ambiguous or before.strip():
            # Two of one name, or a function that does not begin its line.
            if self.functions.get(node.name) is not None and self.functions[node.name].kind == "kernel":
                return
            self.functions.pop(node.name, None)
            self.ambiguous.add(node.name)
            if kind != "kernel":
                return
        self.functions[node.name] = Replaceable(kind, node, around, where, start, end, before)

    @property
    def entry(self) -> Replaceable:
        """The kernel itself."""
        return next(one for one in self.functions.values() if one.kind == "kernel")

    @property
    def hosts(self) -> tuple[Replaceable, ...]:
        """The host functions, in text order."""
        return tuple(sorted((one for one in self.functions.values() if one.kind == "host"), key=lambda one: one.start))

    def segment(self, one: Replaceable) -> str:
        """Return a function's text with its decorators, moved to the left edge, with line feeds alone."""
        return dedented(self._text.slice(one.range), one.indent, one.node)

    def path(self, node: ast.expr, scope: Scope) -> str | None:
        """Return the canonical path of a dotted expression whose root an import binds in the file, else None."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return None
        found = scope.lookup(root.id)
        if found is None:
            return dotted(node, scope) if root.id in {"tl", "triton"} else None
        if all(binding.kind == "import" for binding in found[1]):
            return dotted(node, scope)
        return None

    def is_jit(self, name: str, scope: Scope) -> bool:
        """Tell whether a name stands for jit functions of the file and nothing else."""
        found = scope.lookup(name)
        return found is not None and all(id(binding.node) in self._jits for binding in found[1])

    def is_data(self, name: str, scope: Scope) -> bool:
        """Tell whether a name certainly stands for numbers, types and the like, and not for something to be called."""
        found = scope.lookup(name)
        if found is None:
            return False
        return all(
            binding.kind == "assign"
            and binding.value is not None
            and not binding.augmented
            and self._is_plain_value(binding.value, found[0])
            for binding in found[1]
        )

    def _is_plain_value(self, value: ast.expr, scope: Scope) -> bool:
        match value:
            case ast.Constant():
                return True
            case ast.UnaryOp(operand=operand):
                return self._is_plain_value(operand, scope)
            case ast.BinOp(left=left, right=right):
                return self._is_plain_value(left, scope) and self._is_plain_value(right, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return all(self._is_plain_value(part, scope) for part in parts)
            case ast.Dict(keys=keys, values=values):
                return all(one is not None and self._is_plain_value(one, scope) for one in (*keys, *values))
            case ast.Call(func=function, args=arguments, keywords=[]):
                made = self.path(function, scope) in {
                    "triton.language.constexpr",
                    "triton.next_power_of_2",
                    "triton.cdiv",
                }
                return made and all(self._is_plain_value(one, scope) for one in arguments)
            case ast.Name() | ast.Attribute():
                path = self.path(value, scope) or ""
                return bool(_TYPE.fullmatch(path)) or (isinstance(value, ast.Name) and self.is_data(value.id, scope))
            case _:
                return False

    @cached_property
    def imports(self) -> Counter[tuple[str, str]]:
        """What the file's imports bind at module level: (name, module path), wherever they stand."""
        return Counter(pair for node in ast.walk(self.source.tree) for pair in imported(node))


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that an import statement binds, each with what it stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], f"{alias.name} as {alias.asname}"
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}:{alias.name}"


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a function binds: parameters, targets, nested functions."""
    for one in ast.walk(node):
        if isinstance(one, ast.arg):
            yield one.arg
        elif isinstance(one, ast.Name) and isinstance(one.ctx, (ast.Store, ast.Del)):
            yield one.id
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and one is not node:
            yield one.name


def dedented(text: str, indent: str, node: ast.FunctionDef) -> str:
    """Return a function's text without `indent` before its lines, but for those inside strings of several lines."""
    return _shifted(text, node, lambda line: line.removeprefix(indent))


def indented(text: str, indent: str, node: ast.FunctionDef) -> str:
    """Return a function's text (its first line at the left edge) with `indent` before the lines after the first."""
    return _shifted(text, node, lambda line: indent + line if line.strip() else line)


def _shifted(text: str, node: ast.FunctionDef, shift: Callable[[str], str]) -> str:
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    inside = {
        line - first
        for one in ast.walk(node)
        if isinstance(one, (ast.Constant, ast.JoinedStr)) and one.end_lineno is not None
        if not isinstance(one, ast.Constant) or isinstance(one.value, (str, bytes))
        for line in range(one.lineno + 1, one.end_lineno + 1)
    }
    lines = text.split("\n")
    return "\n".join(line if number == 0 or number in inside else shift(line) for number, line in enumerate(lines))
