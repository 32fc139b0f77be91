"""Attention of one query with grouped heads: a program for each head of keys, with all heads of queries that share it.

A program for each head of queries loads the keys and values of its group again, converts them again, and reduces every
row of products by itself. With the queries of a group as the rows of a block, keys and values are loaded once, and both
sums are a `tl.dot`. The dots are in fp32 (`input_precision="ieee"`), as the sums of products were: what a tensor core
multiplies in 16 bits would round the weights.

Preconditions: the head is a program id of its own, which decides about keys and values by `head // group` alone; what
else depends on it are addresses, rows and their sums, with at least 16 elements a row; the host function shows that the
heads are those of the keys times the group. `split-loop` goes on from it where that leaves few programs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import (
    KernelText,
    Names,
    Replacement,
    code,
    line_of,
    nodes_of,
    replaced,
)
from tritonforge.rewrite.structural.lanes import Lanes
from tritonforge.rewrite.structural.loops import names_in
from tritonforge.rewrite.structural.parameters import with_parameter

_LANES = 9
"""Stands for the program axis of the lanes while the kernel is read; the grid has no such axis."""
_MOST_WARPS = 16
_LEAST, _MOST = 16, 64
"""The least extent of a dot along what is summed, and the most heads of queries in a program."""


class GroupedHeads:
    """Query heads of one group as the rows of a block."""

    name = "grouped-heads"
    treats = frozenset({"TF101", "TF201"})
    classes: frozenset[BottleneckClass] = frozenset(
        {"dram-bandwidth", "l2-bandwidth", "redundant-traffic", "latency", "no-tensor-core", "fp32-compute"}
    )

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        shared = _shared(text)
        group = _number(text, shared.group)
        if group is None:
            raise Refused(f"the recorded launch does not say what {code(shared.group)} is")
        heads = text.launch.config.grid[shared.axis]
        if group < 2 or heads % group:
            raise Absent("every head of queries has keys of its own")
        rows = 1 << (group - 1).bit_length()
        if rows > _MOST:
            raise Refused(f"{group} heads of queries are too many for one program")
        host = Host(text)
        lanes = text.fresh(*_tile_names(text))
        function, keys_at_once = _grouped(text, shared, lanes)
        function = with_parameter(function, lanes, constexpr=f"{text.tl}.constexpr", least=host.most_positional)
        if not text.triton:
            raise Refused("triton is not imported under a name of its own")
        edits = list(text.edits(function))
        pairs = []
        for site in range(len(host.nodes)):
            extent = host.extent(site, shared.axis)
            whole, keys = _evenly(text, host, shared, site, extent)
            edits.append(text.source.replace(extent, keys))
            words = f"{text.triton}.cdiv({whole}, {keys})"
            pairs.append([(lanes, f"{text.triton}.next_power_of_2({words})")])
        grid = list(text.launch.config.grid)
        grid[shared.axis] = heads // group
        title = f"one program for the {group} heads that share keys and values"
        values = {lanes: rows}
        warps = _warps(text, rows * keys_at_once)
        if warps is not None:
            values["num_warps"] = warps
            for site, pair in enumerate(pairs):
                given = next((k.value for k in host.nodes[site].call.keywords if k.arg == "num_warps"), None)
                if given is None:
                    pair.append(("num_warps", str(warps)))
                else:
                    edits.append(text.source.replace(given, str(warps)))
        edits += host.keywords(pairs)
        parameters = () if warps is None else (("num_warps", str(warps)),)
        yield Change(title, tuple(dict.fromkeys(edits)), parameters, values, (grid[0], grid[1], grid[2]))


@dataclass(frozen=True)
class _Shared:
    """`variable` is the program id of `axis`, set by `line`; `quotients` are all `variable // group` in the kernel."""

    variable: str
    axis: int
    line: cst.SimpleStatementLine
    program: cst.BaseExpression
    group: cst.BaseExpression
    quotients: tuple[cst.BinaryOperation, ...]


def _shared(text: KernelText) -> _Shared:
    """Find the program id that others share by its quotient.

    Raises:
        Absent: there is none.
    """
    nodes = list(nodes_of(text.function))
    for line in text.function.body.body:
        one = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if not isinstance(one, cst.Assign) or len(one.targets) != 1 or not isinstance(one.targets[0].target, cst.Name):
            continue
        assert isinstance(line, cst.SimpleStatementLine)
        call = one.value
        if not isinstance(call, cst.Call) or name_of(call, text.tl) != "program_id":
            continue
        name, axis = one.targets[0].target.value, integer(value_of(call, "program_id", "axis"))
        quotients = tuple(
            n
            for n in nodes
            if isinstance(n, cst.BinaryOperation)
            and isinstance(n.operator, cst.FloorDivide)
            and isinstance(n.left, cst.Name)
            and n.left.value == name
        )
        if axis is None or not quotients or len({code(_bare(q.right)) for q in quotients}) != 1:
            continue
        others = [n for n in nodes if isinstance(n, cst.Name) and n.value == name]
        if len(others) == len(quotients) + 1:
            continue  # nothing else depends on it: `batch = pid // heads`
        _check_ids(text, nodes, axis)
        return _Shared(name, axis, line, call, _bare(quotients[0].right), quotients)
    raise Absent("no program id stands for a head that shares keys with others")


def _check_ids(text: KernelText, nodes: list[cst.CSTNode], axis: int) -> None:
    asked = [n for n in nodes if isinstance(n, cst.Call) and name_of(n, text.tl) == "program_id"]
    if sum(integer(value_of(n, "program_id", "axis")) in {axis, None} for n in asked) > 1:
        raise Refused(f"the program id of axis {axis} is asked for twice")
    if any(isinstance(n, cst.Call) and name_of(n, text.tl) == "num_programs" for n in nodes):
        raise Refused("the kernel asks for the number of its programs")


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=(), rpar=())


def _number(text: KernelText, node: cst.BaseExpression) -> int | None:
    """Return what `group` or `heads // kv_heads` comes to in the recorded launch."""
    if isinstance(node, cst.Name):
        return text.value(node.value)
    if isinstance(node, cst.Integer):
        return node.evaluated_value
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.FloorDivide):
        whole, part = _number(text, node.left), _number(text, node.right)
        return whole // part if whole is not None and part else None
    return None


def _warps(text: KernelText, scores: int) -> int | None:
    """Return how many warps give each thread one score at most; None where the launch has them already.

    A dot in fp32 holds a row of queries and of keys in registers for every score of a thread, and two do not fit.
    """
    now = text.value("num_warps") or 4
    wanted = min(_MOST_WARPS, 1 << max(0, -(-scores // 32) - 1).bit_length())
    return wanted if wanted > now else None


def _tile_names(text: KernelText) -> list[str]:
    if any(tile.startswith("BLOCK") for tile in text.kernel.tiles):
        return ["BLOCK_H", "BLOCK_HEADS", "HEADS_PER_PROGRAM"]
    return ["HEADS", "HEADS_PER_PROGRAM"]


# The kernel.


def _grouped(text: KernelText, shared: _Shared, lanes: str) -> tuple[cst.FunctionDef, int]:
    """Return the kernel with all heads of a group, and the keys of a round."""
    body = list(text.function.body.body)
    parameters = {p.name for p in text.kernel.parameters}
    if names_in(shared.group) - parameters:
        raise Refused(f"{code(shared.group)} is more than parameters of the kernel")
    tl, fresh = text.tl, Names(text)
    named = _named(text, shared.quotients[0])
    line = named[0] if named else shared.line
    place = body.index(line)
    between = body[body.index(shared.line) + 1 : place]
    if any(shared.variable in names_in(s) for s in between):
        raise Refused(f"{shared.variable} is used before its quotient")
    keys = named[1] if named else fresh("kv_head", "shared_head")
    # The group is a parameter, or one parameter divided by another.
    quotient = shared.group if isinstance(shared.group, cst.BinaryOperation) else None
    parts = [code(quotient.left), code(quotient.right)] if quotient is not None else []
    group = fresh("group", "group_size") if parts else code(shared.group)
    member, real = fresh("member", "group_member"), fresh("in_group", "is_member")
    # As it is read: the head is a program id that no other value depends on.
    head = line_of(f"{shared.variable} = {tl}.program_id({_LANES})")
    first = line_of(f"{keys} = {tl}.program_id({shared.axis})")
    comments = [x for one in dict.fromkeys((shared.line, line)) for x in one.leading_lines]
    said = cst.EmptyLine(comment=cst.Comment(f"# The heads of queries that share {keys}."))
    lines: list[cst.BaseStatement] = [
        line_of(f"{keys} = {code(shared.program)}").with_changes(
            leading_lines=comments, trailing_whitespace=line.trailing_whitespace
        ),
        # Rounded up, so that it is never none: a call may have fewer heads of queries than of keys.
        *([line_of(f"{group} = {tl}.cdiv({', '.join(parts)})")] if parts else []),
        line_of(f"{member} = {tl}.arange(0, {lanes})").with_changes(leading_lines=[said]),
        line_of(f"{shared.variable} = {keys} * {group} + {member}").with_changes(
            trailing_whitespace=shared.line.trailing_whitespace if named else cst.TrailingWhitespace()
        ),
        line_of(f"{real} = ({member} < {group}) & ({shared.variable} < {parts[0]})")
        if parts
        else line_of(f"{real} = {member} < {group}"),
    ]
    made: list[tuple[cst.CSTNode, Replacement]] = [(shared.line, head if named else cst.FlattenSentinel([first, head]))]
    if named:
        made.append((named[0], first))
    made += [(q, cst.Name(keys)) for q in shared.quotients if not named or q is not shared.quotients[0]]
    reading = text.reading(replaced(text.function, made))
    flow = flow_of(reading.function, text.kernel, tl)
    keys_at_once = _check_products(reading, flow)
    placed = _placed(reading.function, head, first, lines)
    new = Lanes(reading, flow, _LANES, lanes, real, placed, _initials(flow))
    return reading.function.with_changes(body=new.block(reading.function.body)), keys_at_once


def _named(text: KernelText, quotient: cst.BinaryOperation) -> tuple[cst.SimpleStatementLine, str] | None:
    """Return the statement of the kernel's body that gives a quotient a name, and the name."""
    for line in text.function.body.body:
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            match line.body[0]:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                    if value is quotient:
                        return line, name
                case _:
                    pass
    return None


def _placed(
    function: cst.FunctionDef, head: cst.BaseStatement, first: cst.BaseStatement, lines: list[cst.BaseStatement]
) -> dict[int, list[cst.BaseStatement]]:
    """Return what takes the place of the two statements that the kernel is read with."""
    out: dict[int, list[cst.BaseStatement]] = {}
    for statement in function.body.body:
        if code(statement).strip() == code(head).strip():
            out[id(statement)] = []
        elif code(statement).strip() == code(first).strip():
            out[id(statement)] = lines
    return out


def _initials(flow: Flow) -> frozenset[int]:
    """Return the assignments that give a loop its first value of something that depends on the lane from then on."""
    out: set[int] = set()
    for met in flow.meets.values():
        for name, pair in met.items():
            if {_LANES in value.programs for value in pair} != {True, False}:
                continue
            plain = next(value for value in pair if _LANES not in value.programs)
            if not plain.definitions:
                raise Refused(f"the parameter {name} becomes a value of the head in a loop or branch")
            out |= plain.definitions
    return frozenset(out)


def _check_products(text: KernelText, flow: Flow) -> int:
    """Check that heads share tiles that they sum products with, large enough for a dot; returns the most rows of one.

    Raises:
        Absent: there are none.
        Refused: an extent is too small.
    """
    tiles = [t for n in nodes_of(text.function) if (t := _tile(text, flow, n)) is not None]
    if not tiles:
        raise Absent("no products of a head's row and a tile are summed")
    shapes = [flow.of(tile).shape or () for tile in tiles]
    for extent in (e for shape in shapes for e in shape):
        if (text.size(extent) or 0) < _LEAST:
            raise Refused(f"{extent} is below {_LEAST}, the least extent of a dot")
    return max((text.size(shape[0]) or 0 for shape in shapes if shape), default=0)


def _tile(text: KernelText, flow: Flow, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return `tile` of `tl.sum(row[None, :] * tile, axis=1)`, where the row alone depends on the head."""
    if not isinstance(node, cst.Call) or name_of(node, text.tl) != "sum":
        return None
    inner = node.args[0].value
    if not isinstance(inner, cst.BinaryOperation) or len(flow.of(inner).shape or ()) != 2:
        return None
    others = [s for s in (inner.left, inner.right) if _LANES not in flow.of(s).programs]
    return others[0] if len(others) == 1 else None


# The host code.


def _evenly(text: KernelText, host: Host, shared: _Shared, site: int, extent: ast.expr) -> tuple[str, str]:
    """Return heads of queries and of keys as a launch says them, where the group is one divided by the other.

    Raises:
        Refused: the number of programs is not seen to be the heads of keys times the group.
    """
    number = text.source.segment(extent)
    words: list[tuple[str, ast.expr | None]] = []
    if isinstance(shared.group, cst.BinaryOperation):
        for side in (shared.group.left, shared.group.right):
            given = host.argument(site, side.value) if isinstance(side, cst.Name) else None
            words.append((text.source.segment(given) if given is not None else "", given))
    else:
        given = host.argument(site, code(shared.group))
        variable = host.scopes.resolve(given) if isinstance(given, ast.Name) else None
        value = variable.single if variable is not None else given
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.FloorDiv):
            words = [(text.source.segment(side), side) for side in (value.left, value.right)]
    if len(words) != 2 or words[0][0] != number or not words[1][0]:
        raise Refused(f"the launch does not show that {number} heads are divided evenly among the heads of keys")
    keys, node = words[1]
    assert node is not None
    if not _known_at(host, node, extent):
        raise Refused(f"{keys} is not known where the grid is made")
    return number, keys


def _known_at(host: Host, node: ast.expr, place: ast.expr) -> bool:
    """Tell whether an expression means at an earlier place of the host function what it means at the launch."""
    for name in ast.walk(node):
        variable = host.scopes.resolve(name) if isinstance(name, ast.Name) else None
        if variable is None or isinstance(variable.scope, ast.Module):
            continue
        late = (
            isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Store)
            and n.id == variable.name
            and n.lineno >= place.lineno
            for n in ast.walk(variable.scope)
        )
        if any(late):
            return False
    return True
