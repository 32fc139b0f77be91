"""The work of many programs in a loop of fewer: a program goes on to the tile as many further as there are programs.

`for tile in range(tl.program_id(0), tiles, tl.num_programs(0))` visits every tile, however many programs there are.
What does not depend on the tile stays in front of the loop.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.rewrite.rules.grid import meta_key
from tritonforge.rewrite.rules.launch_values import Refused, called_name
from tritonforge.rewrite.structural.calls import integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import (
    KernelText,
    Names,
    Replacement,
    code,
    line_of,
    nodes_of,
    replaced_in,
)
from tritonforge.rewrite.structural.loops import has_effect, names_in, put, sets, times_set
from tritonforge.rewrite.structural.workspace import grid_tuple


def with_own_pointers(text: KernelText) -> KernelText:
    """Return the kernel with `x_ptr += row * stride` as a new variable, so that every round begins at the parameter.

    What comes back is for reading and transforming; its edits are those of `text`.
    """
    known = {p.name for p in text.kernel.parameters}
    counted = times_set(text.function.body)
    fresh = Names(text)
    own: dict[str, cst.BaseExpression] = {}
    body: list[cst.CSTNode] = []
    for statement in text.function.body.body:
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        moved = (
            isinstance(small, cst.AugAssign)
            and isinstance(small.operator, cst.AddAssign)
            and isinstance(small.target, cst.Name)
            and small.target.value in known
            and counted[small.target.value] == 1
        )
        if moved:
            assert isinstance(small, cst.AugAssign)
            assert isinstance(statement, cst.SimpleStatementLine)
            name = code(small.target)
            stem = name.removesuffix("_ptr")
            new = fresh(f"{stem}_here", f"{stem}_start")
            line = line_of(f"{new} = {name} + {code(small.value)}")
            kept = {"leading_lines": statement.leading_lines, "trailing_whitespace": statement.trailing_whitespace}
            body.append(put(line.with_changes(**kept), own))
            own[name] = cst.Name(new)
        else:
            body.append(put(statement, own) if own else statement)
    return text.reading(text.with_body(body)) if own else text


@dataclass(frozen=True)
class Extent:
    """How many programs there are along an axis: as the kernel says it, and what launches must pass for that."""

    words: str
    passed: tuple[tuple[str, str], ...] = ()


def extent_of(text: KernelText, host: Host, axis: int, wish: str) -> Extent:
    """Return how the kernel can say the number of programs along an axis of its grid.

    Args:
        text: the kernel.
        host: its one launch.
        axis: of the grid's tuple.
        wish: the name of a new parameter, should one be needed.

    Raises:
        Refused: it is not known at the launch.
    """
    return _extent(text, host, grid_tuple(host).elts[axis], axis, wish)


def _extent(text: KernelText, host: Host, element: ast.expr, axis: int, wish: str) -> Extent:
    source, words = text.source, text.source.segment(element)
    for parameter in text.kernel.parameters:
        given = host.argument(0, parameter.name)
        if given is not None and source.segment(given) == words and parameter.role != "pointer":
            return Extent(parameter.name)
    if isinstance(element, ast.BinOp) and isinstance(element.op, ast.Mult):
        parts = [_extent(text, host, e, axis, wish) for e in (element.left, element.right)]
        if not all(part.passed for part in parts):
            return Extent(" * ".join(p.words for p in parts), tuple(pair for p in parts for pair in p.passed))
    if isinstance(element, ast.Call) and called_name(element) == "cdiv" and len(element.args) == 2:
        size, tile = element.args
        whole = next((p.name for p in text.kernel.parameters if _passes(text, host, p.name, size)), "")
        by = _tile_of(text, host, tile, axis)
        if whole and by:
            return Extent(f"{text.tl}.cdiv({whole}, {by})")
        if by and host.says_at_launch(0, size) and not _asks_launch(host, size):
            name = text.fresh("size", "elements", "total_size")
            return Extent(f"{text.tl}.cdiv({name}, {by})", ((name, source.segment(size)),))
    if _asks_launch(host, element) or not host.says_at_launch(0, element):
        raise Refused(f"the number of programs, {words}, is not known at the launch")
    name = text.fresh(wish, f"num_{wish}", f"{wish}_count")
    return Extent(name, ((name, words),))


def _asks_launch(host: Host, element: ast.expr) -> bool:
    """Tell whether an expression of the grid reads what the launch passes."""
    return any(isinstance(n, ast.Name) and n.id in host.grids[0].meta for n in ast.walk(element))


def _tile_of(text: KernelText, host: Host, tile: ast.expr, axis: int) -> str:
    """Return the constexpr of the kernel that an expression of the grid divides by."""
    key = meta_key(host.grids[0], tile)
    known = {p.name for p in text.kernel.parameters if p.constexpr}
    by = key if key in known else next((n for n in sorted(known) if _passes(text, host, n, tile)), "")
    if not by and isinstance(tile, ast.Constant):
        # The number is the size of the tile that divides the work along this axis, so the kernel's own is meant.
        divides = dict(text.kernel.program_axes).get(axis, ())
        by = next((t for t in divides if len(divides) == 1 and text.value(t) == tile.value), "")
    return by or ""


def _passes(text: KernelText, host: Host, parameter: str, wanted: ast.expr) -> bool:
    given = host.argument(0, parameter)
    # A number says little: that a parameter is just as large may be chance.
    return (
        given is not None
        and not isinstance(wanted, ast.Constant)
        and text.source.segment(given) == text.source.segment(wanted)
    )


@dataclass(frozen=True)
class Split:
    """A kernel's body: what stays in front of a loop over tiles, and what goes into it."""

    before: list[cst.BaseStatement]
    inside: list[cst.BaseStatement]


def split_body(text: KernelText, flow: Flow, axes: set[int]) -> Split:
    """Return the body with what depends on no program id of `axes` apart, where that can come first.

    Raises:
        Refused: programs end early, or move their parameters on, which only one round could do.
    """
    known = {p.name for p in text.kernel.parameters}
    counted = times_set(text.function.body)
    if any(isinstance(node, cst.Return) for node in nodes_of(text.function.body)):
        raise Refused("some programs end early")
    moved = known & set(counted)
    if moved:
        raise Refused(f"{min(moved)} is set again in the kernel, which the next round would see")
    before: list[cst.BaseStatement] = []
    inside: list[cst.BaseStatement] = []
    late: set[str] = set()
    stored = False
    for place, statement in enumerate(text.function.body.body):
        assert isinstance(statement, cst.BaseStatement)
        if place == 0 and text.function.get_docstring() is not None:
            before.append(statement)
            continue
        own = sets(statement)
        early = (
            isinstance(statement, cst.SimpleStatementLine)
            and len(statement.body) == 1
            and isinstance(statement.body[0], cst.Assign)
            and all(counted[n] == 1 for n in own)
            and not flow.of(statement.body[0].value).programs & axes
            and not late & names_in(statement.body[0].value)
            and not _asks(text, statement)
            and not (stored and _loads(text, statement))
        )
        if early:
            before.append(statement)
        else:
            inside.append(statement)
            late |= own
            stored = stored or has_effect(statement, text.tl)
    return Split(before, inside)


def _asks(text: KernelText, node: cst.CSTNode) -> bool:
    """Tell whether a statement is not the same wherever it stands: it draws, waits or has an effect."""
    return any(
        (name_of(n, text.tl) or "").startswith(("atomic_", "store", "rand", "debug_", "inline_"))
        for n in nodes_of(node)
    )


def _loads(text: KernelText, node: cst.CSTNode) -> bool:
    return any(name_of(n, text.tl) == "load" for n in nodes_of(node))


def program_ids(text: KernelText, axes: set[int]) -> list[tuple[cst.Call, int]]:
    """Return the calls that ask for a program id of `axes`.

    Raises:
        Refused: one asks for a computed axis, a helper asks, or the kernel asks how many programs there are.
    """
    for helper in text.kernel.helpers:
        place = helper.range
        lines = text.text.splitlines()[place.start.line - 1 : place.end.line] if place is not None else []
        if any("program_id(" in line or "num_programs(" in line for line in lines):
            raise Refused(f"{helper.name}, which the kernel calls, asks for a program id of its own")
    return _ids_in(text, text.function, axes)


def _ids_in(text: KernelText, within: cst.CSTNode, axes: set[int]) -> list[tuple[cst.Call, int]]:
    found = []
    for node in nodes_of(within):
        called = name_of(node, text.tl)
        if not isinstance(node, cst.Call) or called not in {"program_id", "num_programs"}:
            continue
        if called == "num_programs":
            raise Refused("the kernel asks for the number of its programs")
        axis = integer(value_of(node, "program_id", "axis"))
        if axis is None:
            raise Refused("a program id is asked for along an axis that is computed")
        if axis in axes:
            found.append((node, axis))
    return found


def in_loop(
    text: KernelText, statements: Sequence[cst.BaseStatement], ids: Mapping[int, str]
) -> list[cst.BaseStatement]:
    """Return statements with other words in the place of program ids (`ids`: axis → words)."""
    out: list[cst.BaseStatement] = []
    for statement in statements:
        made: list[tuple[cst.CSTNode, Replacement]] = []
        for call, axis in _ids_in(text, statement, set(ids)):
            cast = next(
                (
                    n
                    for n in nodes_of(statement)
                    if isinstance(n, cst.Call) and isinstance(n.func, cst.Attribute) and n.func.value is call
                ),
                None,
            )
            if cast is not None and len(cast.args) == 1:
                # In Triton's interpreter a loop's variable is a number, which has no methods.
                words = f"{text.tl}.cast({ids[axis]}, {code(cast.args[0].value)})"
                made.append((cast, cst.parse_expression(words)))
            else:
                word = cst.parse_expression(ids[axis])
                simple = isinstance(word, cst.Name) or _alone(statement, call)
                made.append((call, word if simple else cst.parse_expression(f"({ids[axis]})")))
        new = replaced_in(statement, made) if made else statement
        assert isinstance(new, cst.BaseStatement)
        if not _says_nothing(new):
            out.append(new)
    return out


def _alone(statement: cst.CSTNode, call: cst.Call) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Assign)
        and statement.body[0].value is call
    )


def _says_nothing(statement: cst.CSTNode) -> bool:
    """Tell whether a statement sets a variable to itself."""
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Assign):
        return False
    return code(statement.body[0].targets[0].target) == code(statement.body[0].value)


def tile_name(text: KernelText, axis: int) -> str:
    """Return the kernel's own variable for a program id that is asked for once, else a new name."""
    calls = program_ids(text, {axis})
    for line in text.function.body.body:
        if isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Assign):
            target = line.body[0].targets[0].target
            if len(calls) == 1 and line.body[0].value is calls[0][0] and isinstance(target, cst.Name):
                return target.value
    return text.fresh("tile", "program", "tile_id")


def plural_of(tile: str) -> str:
    """Return what a number of tiles is called, where one of them is called `tile`."""
    return "tiles" if tile.endswith("id") or tile == "tile" else f"{tile}s"


def loop_over(head: str, body: Sequence[cst.BaseStatement]) -> cst.For:
    """Return a loop with a body."""
    loop = cst.parse_statement(f"{head}\n    pass\n")
    assert isinstance(loop, cst.For)
    lines = list(body)
    first = lines[0]
    if isinstance(first, cst.SimpleStatementLine):
        lines[0] = first.with_changes(leading_lines=[x for x in first.leading_lines if x.comment])
    return loop.with_changes(body=loop.body.with_changes(body=lines))
