"""Which lines and branches of interpreted kernels ran: marks that are written into a kernel when it is rewritten.

A mark is one item assignment, so that following every statement costs next to nothing, where tracing the interpreter
would slow every function that it is made of. Branches are the sides of `if`, `while` and conditional expressions; masks
and `tl.where` choose lanes rather than lines and are no branches.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from triton.runtime import interpreter

from tritonforge.domain.coverage import KernelCoverage

_HITS = "_tritonforge_hits"
_TAKEN = "_tritonforge_taken"
_hits = bytearray()


@dataclass
class _Branch:
    mark: int
    line: int
    side: str
    fixed: bool
    """Whether constexprs alone decide: the compiler leaves the other side out."""
    inside: tuple[int, ...]
    """The marks of the branches around it, outermost first."""


@dataclass
class _Function:
    name: str
    file: str
    statements: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    """Mark, line, and the marks of the branches around it."""
    branches: list[_Branch] = field(default_factory=list)


_functions: dict[tuple[str, int, str, int], _Function] = {}


def install() -> None:
    """Put what marks refer to where rewritten kernels find it: in the interpreter's module."""
    setattr(interpreter, _HITS, _hits)
    setattr(interpreter, _TAKEN, _taken)


def _taken(mark: int, value: Any) -> Any:
    _hits[mark] = 1
    return value


def mark(function: ast.FunctionDef, name: str, file: str, constexprs: frozenset[str], identity: int) -> None:
    """Write marks into a rewritten kernel, in place. Its nodes must have their positions in the file already.

    Args:
        function: the kernel's definition.
        name: its name, for the report.
        file: the path of its file.
        constexprs: its parameters that the compiler knows.
        identity: tells two programs' versions of a kernel apart.
    """
    found = _Function(name, file)
    _functions[file, function.lineno, name, identity] = found
    _Marker(found, constexprs | _fixed_locals(function, constexprs)).body(function.body, ())
    ast.fix_missing_locations(function)


def _fixed_locals(function: ast.FunctionDef, constexprs: frozenset[str]) -> frozenset[str]:
    """Return the local names that are annotated as constexprs."""
    annotated = [node for node in ast.walk(function) if isinstance(node, ast.AnnAssign)]
    fixed = [node.target for node in annotated if "constexpr" in ast.unparse(node.annotation)]
    return frozenset(target.id for target in fixed if isinstance(target, ast.Name)) - constexprs


class _Marker(ast.NodeTransformer):
    def __init__(self, function: _Function, constexprs: frozenset[str]) -> None:
        self._function, self._constexprs = function, constexprs
        self._inside: tuple[int, ...] = ()
        self._line = 0

    def body(self, statements: list[ast.stmt], inside: tuple[int, ...]) -> None:
        """Mark every statement of a block, in place."""
        marked: list[ast.stmt] = []
        for i, statement in enumerate(statements):
            if i == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                marked.append(statement)  # a docstring
                continue
            number = _new()
            self._function.statements.append((number, statement.lineno, inside))
            marked.append(ast.copy_location(_hit(number), statement))
            self._inside, self._line = inside, statement.lineno
            inside = self._statement(statement, inside)
            marked.append(statement)
        statements[:] = marked

    def _statement(self, statement: ast.stmt, inside: tuple[int, ...]) -> tuple[int, ...]:
        """Mark what is in a statement, and return the marks of the branches around what follows it."""
        follows = inside
        if isinstance(statement, (ast.If, ast.While)):
            statement.test = self.visit(statement.test)
            fixed = self._is_fixed(statement.test)
            sides = ("true", "false") if isinstance(statement, ast.If) else ("entered", "left")
            blocks = (statement.body, statement.orelse)
            numbers = [self._branch(statement.lineno, side, fixed=fixed, inside=inside) for side in sides]
            for number, other, block in zip(numbers, reversed(numbers), blocks, strict=True):
                if block and isinstance(block[-1], (ast.Return, ast.Raise)):
                    follows = (*inside, other)
                self.body(block, (*inside, number))
                block.insert(0, ast.copy_location(_hit(number), statement))
        elif isinstance(statement, (ast.For, ast.With)):
            if isinstance(statement, ast.For):
                statement.iter = self.visit(statement.iter)
            self.body(statement.body, inside)
        elif not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            self.generic_visit(statement)
        return follows

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        fixed = self._is_fixed(node.test)
        self.generic_visit(node)
        for side, arm in (("true", "body"), ("false", "orelse")):
            branch = self._branch(self._line, side, fixed=fixed, inside=self._inside)
            marked = ast.Call(ast.Name(_TAKEN, ast.Load()), [ast.Constant(branch), getattr(node, arm)], [])
            setattr(node, arm, ast.copy_location(marked, node))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def _branch(self, line: int, side: str, *, fixed: bool, inside: tuple[int, ...]) -> int:
        number = _new()
        self._function.branches.append(_Branch(number, line, side, fixed, inside))
        return number

    def _is_fixed(self, test: ast.expr) -> bool:
        """Tell whether a condition is known when the kernel is compiled."""
        if isinstance(test, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops):
            return True  # `x_ptr is None`
        if isinstance(test, (ast.BoolOp, ast.UnaryOp)):
            parts = test.values if isinstance(test, ast.BoolOp) else [test.operand]
            return all(self._is_fixed(part) for part in parts)
        names = [n.id for n in ast.walk(test) if isinstance(n, ast.Name)]
        calls = any(isinstance(n, ast.Call) for n in ast.walk(test))
        return not calls and all(name in self._constexprs for name in names)


def _new() -> int:
    _hits.append(0)
    return len(_hits) - 1


def _hit(number: int) -> ast.stmt:
    place = ast.Subscript(ast.Name(_HITS, ast.Load()), ast.Constant(number), ast.Store())
    return ast.Assign([place], ast.Constant(1))


@dataclass
class Cover:
    """The marks that were reached in the blocks of `covering`."""

    reached: bytearray = field(default_factory=bytearray)

    def add(self, other: Cover) -> None:
        """Add what another has reached."""
        self.reached += bytes(max(0, len(other.reached) - len(self.reached)))
        for at, hit in enumerate(other.reached):
            if hit:
                self.reached[at] = 1

    def report(self) -> tuple[KernelCoverage, ...]:
        """Return the coverage of every kernel and helper that ran at all."""
        self.reached += bytes(len(_hits) - len(self.reached))
        ran = [f for f in _functions.values() if any(self.reached[number] for number, _, _ in f.statements)]
        return tuple(self._of(function) for function in sorted(ran, key=lambda f: (f.file, f.statements[0][1])))

    def _of(self, function: _Function) -> KernelCoverage:
        decided = [b for b in function.branches if b.fixed and not self.reached[b.mark]]
        dead = {b.mark for b in decided}
        lines: dict[int, bool] = {}
        for number, line, inside in function.statements:
            if dead.isdisjoint(inside):
                lines[line] = lines.get(line, False) or bool(self.reached[number])
        branches = [b for b in function.branches if not b.fixed and dead.isdisjoint(b.inside)]
        missed = [b for b in branches if not self.reached[b.mark]]
        return KernelCoverage(
            function.name,
            function.file,
            lines=len(lines),
            lines_run=sum(lines.values()),
            branches=len(branches),
            branches_taken=len(branches) - len(missed),
            missed_lines=tuple(sorted(line for line, ran in lines.items() if not ran)),
            missed_branches=tuple((b.line, b.side) for b in missed),
            constexpr_branches=tuple((b.line, b.side) for b in decided),
        )


@contextlib.contextmanager
def covering(cover: Cover) -> Iterator[None]:
    """Add what runs in the block to `cover`."""
    _hits[:] = bytes(len(_hits))
    try:
        yield
    finally:
        reached = cover.reached
        reached += bytes(len(_hits) - len(reached))
        at = _hits.find(1)
        while at >= 0:
            reached[at] = 1
            at = _hits.find(1, at + 1)
