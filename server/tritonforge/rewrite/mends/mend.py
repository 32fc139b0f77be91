"""What a mend is, and what all of them are made with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.source import Edit, Range
from tritonforge.rewrite.rules.keyword_arguments import insert_keywords
from tritonforge.rewrite.rules.launch_values import kernel_function
from tritonforge.rewrite.scopes import read


@dataclass(frozen=True)
class Mend:
    """One way to mend a finding. `title` says what is written; `changes_results`: whether other values come out."""

    code: str
    title: str
    edits: tuple[Edit, ...]
    changes_results: bool = True

    @property
    def label(self) -> str:
        """Words for a menu: what it does, and that it is no change for speed."""
        note = " (changes what is computed)" if self.changes_results else ""
        return f"Mend {self.code}: {self.title}{note}"


class Place:
    """A line of a kernel: `kernel` as analysed, the syntax tree of its file, and the `message` of the finding.

    Raises:
        SyntaxError: when the text cannot be parsed.
    """

    def __init__(self, kernel: Kernel, text: str, line: int, message: str = "") -> None:
        self.kernel = kernel
        self.line = line
        self.message = message
        self.source, self.scopes = read(kernel.file, text)

    @cached_property
    def function(self) -> ast.FunctionDef | None:
        """The kernel's `def`."""
        return kernel_function(self.scopes, self.kernel)

    def call_at(self, place: Range) -> ast.Call | None:
        """Return the call that a range of the analysis covers."""
        span = self.source.offsets_of(place)
        calls = (n for n in self.scopes.nodes if isinstance(n, ast.Call))
        return next((call for call in calls if self.source.span(call) == span), None)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield every node of the kernel."""
        if self.function is not None:
            yield from ast.walk(self.function)

    def on_line(self, node: ast.expr) -> bool:
        """Tell whether a node begins before the line's end and ends behind its start."""
        return node.lineno <= self.line <= (node.end_lineno or node.lineno)

    def with_keywords(self, call: ast.Call, pairs: list[tuple[str, str]]) -> tuple[Edit, ...]:
        """Return the edits that add keyword arguments, in the style of the call."""
        return insert_keywords(self.source, call, pairs)

    def language(self, node: ast.AST) -> str:
        """Return `load` for `tl.load(…)`: what is called of the language, as it is usually imported; else nothing."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return ""
        owner = node.func.value
        return node.func.attr if isinstance(owner, ast.Name) and owner.id in {"tl", "triton"} else ""

    def known_before(self, expression: ast.expr, at: ast.AST) -> bool:
        """Tell whether all that `expression` reads is a parameter, or surely set above `at`, and set nowhere else."""
        lineno = getattr(at, "lineno", 0)
        parameters = {p.name for p in self.kernel.parameters}
        around = [one for one in self.scopes.ancestors(at) if isinstance(one, ast.For | ast.If | ast.While)]
        for name in (n for n in ast.walk(expression) if isinstance(n, ast.Name)):
            stores = self._sets(name.id)
            if name.id in parameters:
                if stores:
                    return False
                continue
            variable = self.scopes.resolve(name)
            if variable is None or variable.scope is not self.function:
                continue  # a module's name, such as `tl`
            blocks = [
                one for n in stores for one in self.scopes.ancestors(n) if isinstance(one, ast.For | ast.If | ast.While)
            ]
            if len(stores) != 1 or stores[0].lineno >= lineno or any(one not in around for one in blocks):
                return False
        return True

    def _sets(self, name: str) -> list[ast.Name]:
        """Return the places where the kernel sets a variable."""
        return [n for n in self.nodes() if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
