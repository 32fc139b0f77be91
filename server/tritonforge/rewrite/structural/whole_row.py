"""The whole row in one block: passes over a row, tile by tile, become one read that stays in registers.

A tile that covers the row makes every loop over its tiles go round once, so the loops are taken away and what they load
again is kept. Nothing else of the computation changes: it is the kernel as written, at another tile size.

Preconditions: at least two loops `for … in range(0, N, BLOCK)` over one N and one BLOCK stand in the kernel's body;
their accesses are masked with N; BLOCK serves nothing else and its value is set where it can be edited; the recorded
rows fit the registers of a program. A load is kept only while nothing may have been stored to memory in between, and
where masked elements are filled in otherwise only for results that the same mask keeps out of memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.rules.sharing import Sharing
from tritonforge.rewrite.structural.calls import integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of
from tritonforge.rewrite.structural.straight import simplified

MOST_ELEMENTS = 32_768
"""Of a row: 64 floats for each thread of 16 warps."""


@dataclass(frozen=True)
class Passes:
    """The loops over a row's tiles: `extent` is N, `tile` BLOCK."""

    extent: str
    tile: str
    loops: tuple[cst.For, ...]


class WholeRow:
    """One block for the whole row."""

    name = "whole-row"
    treats = frozenset({"TF103", "TF304", "TF208"})
    classes: frozenset[BottleneckClass] = frozenset({"redundant-traffic", "latency", "dram-bandwidth", "l2-bandwidth"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        if not text.triton:
            raise Refused("triton is not imported under a name of its own, so that next_power_of_2 is not at hand")
        passes = passes_of(text)
        if len(passes.loops) < 2:
            raise Absent("the kernel goes over its rows once")
        flow = flow_of(text.function, text.kernel, text.tl)
        check_loops(text, flow, passes)
        length = text.value(passes.extent)
        if length is None:
            raise Refused(f"the recorded launch does not say how large {passes.extent} is")
        block = 1 << max(length - 1, 1).bit_length()
        if block > MOST_ELEMENTS:
            raise Refused(f"rows of {length} elements do not fit the registers of a program")
        function = unlooped(text, passes)
        edits = (*text.edits(function), *_host_edits(text, passes))
        yield Change("each row kept in registers", edits, (), {passes.tile: block})


def passes_of(text: KernelText) -> Passes:
    """Return the loops over a row's tiles that stand in the kernel's body, those of the tile that has the most.

    Raises:
        Refused: there are none.
    """
    found: dict[tuple[str, str], list[cst.For]] = {}
    tiles = set(text.kernel.tiles)
    for statement in text.function.body.body:
        if not isinstance(statement, cst.For) or not isinstance(statement.target, cst.Name):
            continue
        bounds = statement.iter
        if not isinstance(bounds, cst.Call) or code(bounds.func) not in {"range", f"{text.tl}.range"}:
            continue
        parts = [code(a.value) for a in bounds.args if a.keyword is None]
        if len(parts) == 3 and parts[0] == "0" and parts[2] in tiles and parts[1].isidentifier():
            found.setdefault((parts[1], parts[2]), []).append(statement)
    if not found:
        raise Absent("no loop of the kernel goes over the tiles of a row")
    (extent, tile), loops = max(found.items(), key=lambda pair: len(pair[1]))
    return Passes(extent, tile, tuple(loops))


def check_loops(text: KernelText, flow: Flow, passes: Passes) -> None:
    """Check that one round of each loop with a tile that covers the row is the same as all rounds.

    Raises:
        Refused: it is not; the sentence says where.
    """
    tile, extent = passes.tile, passes.extent
    if text.kernel.parameter(extent) is None:
        raise Refused(f"{extent} is computed in the kernel")
    if any(tile in tiles for _, tiles in text.kernel.program_axes):
        raise Refused(f"{tile} divides the programs' work, too")
    if text.kernel.autotune is not None or text.kernel.heuristics:
        raise Refused(f"{tile} is chosen by a decorator")
    bounds = {id(n) for loop in passes.loops for n in nodes_of(loop.iter)}
    for node in nodes_of(text.function.body):
        uses = isinstance(node, cst.Name) and node.value == tile and id(node) not in bounds
        if uses and not _is_extent(text, node):
            raise Refused(f"{tile} is computed with, not only the size of a block")
        if isinstance(node, cst.Assign | cst.AugAssign):
            targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
            if any(code(t) == extent for t in targets):
                raise Refused(f"{extent} is set again in the kernel")
    for loop in passes.loops:
        if loop.orelse is not None or any(isinstance(n, cst.Break | cst.Continue) for n in nodes_of(loop)):
            raise Refused("a loop over the row's tiles is left early")
        for node in nodes_of(loop.body):
            name = name_of(node, text.tl)
            if name is None or not isinstance(node, cst.Call):
                continue
            if name.startswith("atomic_"):
                raise Refused("a loop over the row's tiles has an atomic")
            if name in {"load", "store"}:
                _check_mask(text, flow, node, name, passes)


def _is_extent(text: KernelText, name: cst.CSTNode) -> bool:
    """Tell whether a use of the tile is the extent of a block: `arange(0, BLOCK)`, `zeros((BLOCK,), …)`."""
    for node in nodes_of(text.function.body):
        if name_of(node, text.tl) in {"arange", "zeros", "full"} and isinstance(node, cst.Call):
            shape = node.args[1].value if name_of(node, text.tl) == "arange" and len(node.args) > 1 else None
            shape = shape or value_of(node, name_of(node, text.tl) or "", "shape")
            if shape is name or (shape is not None and any(n is name for n in nodes_of(shape))):
                return shape is name or isinstance(shape, cst.Tuple | cst.List)
    return False


def _check_mask(text: KernelText, flow: Flow, call: cst.Call, name: str, passes: Passes) -> None:
    shape = flow.of(call.args[0].value).shape
    if shape is None or passes.tile not in shape:
        if name == "store":
            raise Refused("a loop over the row's tiles stores something that is no block")
        return
    mask = value_of(call, name, "mask")
    words = code(mask) if mask is not None else ""
    if words.isidentifier():
        words = next(
            (
                code(n.value)
                for n in nodes_of(text.function.body)
                if isinstance(n, cst.Assign) and code(n.targets[0].target) == words
            ),
            "",
        )
    if passes.extent not in words:
        raise Refused(f"the {name} of {code(call.args[0].value)} is not masked with {passes.extent}")


def unlooped(text: KernelText, passes: Passes) -> cst.FunctionDef:
    """Return the kernel with the body of each loop in the loop's place, loads that repeat dropped."""
    statements: list[tuple[cst.BaseStatement, int]] = []
    for statement in text.function.body.body:
        assert isinstance(statement, cst.BaseStatement)
        if statement not in passes.loops:
            statements.append((statement, -1))
            continue
        assert isinstance(statement, cst.For)
        variable = code(statement.target)
        number = passes.loops.index(statement)
        for place, inner in enumerate(statement.body.body):
            once = inner.visit(_AtZero(variable))
            assert isinstance(once, cst.BaseStatement)
            if place == 0 and isinstance(once, cst.SimpleStatementLine):
                once = once.with_changes(leading_lines=[*statement.leading_lines, *once.leading_lines])
            statements.append((once, number))
    body = text.function.body
    assert isinstance(body, cst.IndentedBlock)
    return text.function.with_changes(body=body.with_changes(body=simplified(text, statements)))


class _AtZero(cst.CSTTransformer):
    """Puts 0 for a loop's variable, and leaves it out of sums."""

    def __init__(self, variable: str) -> None:
        super().__init__()
        self.variable = variable

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        if isinstance(updated_node.operator, cst.Add):
            if integer(updated_node.left) == 0 and code(original_node.left) == self.variable:
                return _bare(updated_node, updated_node.right)
            if integer(updated_node.right) == 0 and code(original_node.right) == self.variable:
                return _bare(updated_node, updated_node.left)
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return cst.Integer("0") if updated_node.value == self.variable else updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)


def _bare(whole: cst.BinaryOperation, part: cst.BaseExpression) -> cst.BaseExpression:
    """Return a summand in the brackets of the sum, where it is one that needs them."""
    if whole.lpar and not part.lpar and isinstance(part, cst.BinaryOperation | cst.Comparison):
        return part.with_changes(lpar=whole.lpar, rpar=whole.rpar)
    return part


def _host_edits(text: KernelText, passes: Passes) -> tuple[Edit, ...]:
    host = Host(text)
    settings = text.settings()
    sharing = Sharing(text.scopes, host.nodes, host.nodes, host.grids)
    edits: list[Edit] = []
    for site, node in enumerate(host.nodes):
        length = host.argument(site, passes.extent)
        if length is None:
            raise Refused(f"what the launch at line {node.call.lineno} passes for {passes.extent} cannot be seen")
        setting = settings.of(node, passes.tile)
        given = text.source.segment(length)
        # A row without an element has a block too, unless the original computes its own in this very way.
        asked = setting.chain[-1].single if setting.chain else setting.at_launch
        empty = isinstance(asked, ast.expr) and "next_power_of_2" in text.source.segment(asked)
        words = f"{text.triton}.next_power_of_2({given if empty else f'max({given}, 1)'})"
        if setting.place == "autotune":
            raise Refused(f"{passes.tile} is chosen by the autotuner")
        if setting.at_launch is None:
            if setting.place not in {"absent", "kernel-default"}:
                raise Refused(setting.reason or f"where {passes.tile} is set cannot be edited")
            pairs = [[(passes.tile, words)] if i == site else [] for i in range(len(host.nodes))]
            edits.extend(e for e in host.keywords(pairs) if e.text)
            continue
        variable = setting.chain[-1] if setting.chain else None
        if variable is not None and variable.parameter is not None:
            # The parameter of the host function stays what it was to its callers: the least that a block may be.
            least = text.source.segment(setting.at_launch)
            whole = f"{text.triton}.next_power_of_2({given})"
            edits.append(text.source.replace(setting.at_launch, f"max({least}, {whole})"))
            continue
        place: ast.expr = setting.at_launch
        if variable is not None and isinstance(variable.single, ast.expr) and not sharing.used_elsewhere(setting.chain):
            names = {n.id for n in ast.walk(length) if isinstance(n, ast.Name)}
            if all(_known_before(text, name, variable.single) for name in names):
                place = variable.single
        if "next_power_of_2" in text.source.segment(place) and "min(" not in text.source.segment(place):
            raise Refused(f"{passes.tile} covers a row already")
        edits.append(text.source.replace(place, words))
    return tuple(dict.fromkeys(edits))


def _known_before(text: KernelText, name: str, place: ast.expr) -> bool:
    """Tell whether `name` has its value already where `place` is computed."""
    function = text.scopes.function_of(place)
    if function is None:
        return False
    arguments = function.args
    if name in {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}:
        return True
    set_at = [
        n.lineno
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]
    return bool(set_at) and max(set_at) < place.lineno
