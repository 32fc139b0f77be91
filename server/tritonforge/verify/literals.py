"""Whole numbers that a candidate's text has and the original's has not: what may be right on one side of them only.

A grid of at most 188 programs, a loop of at most ten tiles, a branch for up to 4096 columns: each is right up to its
number. Inputs are chosen to cross such numbers (see `reaching`). Numbers that say how work is cut (tiles, warps,
shapes, axes) are no limits and are left out.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tritonforge.domain.messages import Program
from tritonforge.verify.signature import text_of

_SMALLEST = 2
_MOST_BITS = 64
_TUNING = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "axis", "dim", "key", "num_buffers"})
_LIMITS = frozenset({"min", "max", "minimum", "maximum", "clamp"})
_COUNTS_PROGRAMS = ("cdiv", "program_id", "num_programs", "//")
_EXACT = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
_SEVERAL = (ast.Tuple, ast.List, ast.Set)
_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.IfExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Literal:
    """A new whole number.

    `compared`: something is compared with it or cut off at it. `exactly`: something is asked to be just this. `tiles`:
    it is a factor of something that is not constant, so that it may count tiles. `programs`: what it is compared with
    counts programs.
    """

    value: int
    line: int
    compared: bool = False
    tiles: bool = False
    programs: bool = False
    exactly: bool = False


def new_literals(original: Program, candidate: Program) -> tuple[Literal, ...]:
    """Return the new whole numbers of a candidate, those that something is compared with first, each value once."""
    found: dict[int, Literal] = {}
    for file, after in candidate.overlays:
        before = text_of(original, file)
        if before is None or before == after:
            continue
        for one in literals_added(before, after):
            other = found.get(one.value)
            found[one.value] = one if other is None else _both(one, other)
    return tuple(sorted(found.values(), key=lambda one: (not one.compared, -one.value)))


def _both(one: Literal, other: Literal) -> Literal:
    """Return a number that stands in two places as one."""
    chosen = max(one, other, key=lambda each: (each.compared, each.programs, each.tiles))
    return replace(chosen, exactly=one.exactly or other.exactly)


def literals_added(before: str, after: str) -> tuple[Literal, ...]:
    """Return the whole numbers that the functions of one text have more often than the same functions of another."""
    try:
        old, new = ast.parse(before), ast.parse(after)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    fixed = _numbers(old)
    had = {name: Counter(one.value for one in _literals(node, fixed)) for name, node in _functions(old)}
    anywhere: Counter[int] = Counter()
    for counted in had.values():
        anywhere |= counted
    found: list[Literal] = []
    fixed = _numbers(new)
    for name, node in _functions(new):
        left = Counter(had.get(name, anywhere))
        for one in sorted(
            _literals(node, fixed), key=lambda one: one.compared
        ):  # what is compared counts as what is new
            if left[one.value]:
                left[one.value] -= 1
            else:
                found.append(one)
    return tuple(found)


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the outermost functions and methods of a module, and the rest of it as one, with their names."""
    rest: list[ast.stmt] = []
    waiting = [("", node) for node in module.body]
    while waiting:
        prefix, node = waiting.pop(0)
        if isinstance(node, _FUNCTIONS):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            waiting += [(f"{prefix}{node.name}.", inner) for inner in node.body]
        elif not (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)):
            rest.append(node)
    yield "", ast.Module(rest, [])


def _literals(function: ast.AST, fixed: Mapping[str, int]) -> list[Literal]:
    names = _assigned(function)
    own = {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    own |= {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
    fixed = {**{name: value for name, value in fixed.items() if name not in own}, **_numbers(function)}
    found: list[Literal] = []
    waiting: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(function, ())]
    while waiting:
        node, above = waiting.pop()
        value = _value(node, fixed) if isinstance(node, ast.expr) else None
        if value is None:
            waiting += [(child, (*above, node)) for child in ast.iter_child_nodes(node)]
        elif value >= _SMALLEST and isinstance(node, ast.expr):
            one = _judged(node, value, above, names)
            if one is not None:
                found.append(one)
    return found


def _numbers(scope: ast.AST) -> dict[str, int]:
    """Return the names that stand for one whole number throughout a function, or a module's own statements."""
    if isinstance(scope, _FUNCTIONS):
        nodes = list(ast.walk(scope))
    else:
        own = (one for one in getattr(scope, "body", ()) if not isinstance(one, (*_FUNCTIONS, ast.ClassDef)))
        nodes = [node for one in own for node in ast.walk(one)]
    stored = (one.id for one in nodes if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load))
    bound = Counter((*stored, *(one.arg for one in nodes if isinstance(one, ast.arg))))
    values: dict[str, int] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=value) if bound[name] == 1:
                number = _value(value, values)
                if number is not None:
                    values[name] = number
    return values


def _value(node: ast.expr, fixed: Mapping[str, int]) -> int | None:
    """Return the value of an expression of whole numbers alone, some of which have the names in `fixed`."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return fixed.get(node.id)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, fixed), _value(node.right, fixed)
        return None if left is None or right is None else _combined(node.op, left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand, fixed)
        return None if inner is None else -inner
    return None


def _combined(op: ast.operator, left: int, right: int) -> int | None:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.LShift() | ast.Pow() if not 0 <= right <= _MOST_BITS:
            return None
        case ast.LShift():
            return left << right
        case ast.Pow():
            return int(left**right)
        case ast.FloorDiv() if right:
            return left // right
        case _:
            return None


def _judged(node: ast.expr, value: int, above: tuple[ast.AST, ...], names: dict[str, str]) -> Literal | None:
    """Say what a number is for; None where it says how work is cut."""
    tiles = False
    inner: ast.AST = node
    for outer in reversed(above):
        if isinstance(outer, ast.keyword):
            if outer.arg in _TUNING:
                return None
        elif isinstance(outer, ast.Compare):
            others = [part for part in (outer.left, *outer.comparators) if part is not inner]
            programs = _of_programs(others, names)
            exactly = any(isinstance(op, _EXACT) for op in outer.ops)
            return Literal(value, node.lineno, compared=True, tiles=tiles, programs=programs, exactly=exactly)
        elif isinstance(outer, ast.MatchValue) or (isinstance(outer, ast.Dict) and inner in outer.keys):
            return Literal(value, node.lineno, compared=True, exactly=True)
        elif isinstance(outer, ast.Call):
            called = ast.unparse(outer.func).rpartition(".")[2]
            if called in _LIMITS:
                others = [part for part in outer.args if part is not inner]
                return Literal(value, node.lineno, compared=True, tiles=tiles, programs=_of_programs(others, names))
            if called in {"range", "static_range"} and outer.args[min(1, len(outer.args) - 1)] is inner:
                return Literal(value, node.lineno, compared=True, tiles=tiles)
            break
        elif isinstance(outer, ast.Tuple) and inner is node and _is_grid(outer, above):
            return Literal(value, node.lineno, compared=True, programs=True)
        elif isinstance(outer, _SEVERAL) and _is_asked_for(outer, above):
            pass  # one of several that something may be
        elif not isinstance(outer, _ARITHMETIC):
            break
        tiles = tiles or (isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Mult))
        inner = outer
    # A power of two that nothing is compared with is a tile, a shape or a step.
    return None if value & (value - 1) == 0 else Literal(value, node.lineno, tiles=tiles)


def _is_grid(node: ast.Tuple, above: tuple[ast.AST, ...]) -> bool:
    """Tell whether a tuple is a launch's grid: between brackets, or what something called `grid` is."""
    outer = above[above.index(node) - 1] if node in above[1:] else None
    if isinstance(outer, ast.Assign):
        return any("grid" in ast.unparse(target).lower() for target in outer.targets)
    return isinstance(outer, ast.Subscript) and any(isinstance(one, ast.Call) and one.func is outer for one in above)


def _is_asked_for(node: ast.AST, above: tuple[ast.AST, ...]) -> bool:
    """Tell whether something is asked to be one of what stands in `node`."""
    outer = above[above.index(node) - 1]
    return isinstance(outer, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in outer.ops)


def _of_programs(nodes: list[ast.expr], names: dict[str, str]) -> bool:
    texts = [ast.unparse(node) for node in nodes]
    texts += [
        names[one.id] for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in names
    ]
    return any(word in text for text in texts for word in _COUNTS_PROGRAMS)


def _assigned(function: ast.AST) -> dict[str, str]:
    """Return what each name is assigned last, but for arithmetic: an offset is no number of programs."""
    return {
        target.id: ast.unparse(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and not isinstance(node.value, ast.BinOp)
    }
