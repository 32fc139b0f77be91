"""Tiles that a loop loads for a dot, through tensor descriptors: one thread asks for a tile, no lane has an address.

From sm_90 on a unit of its own (TMA) copies tiles of a matrix into shared memory, with zeros beyond its ends. Nothing
computes addresses and masks, or keeps them in registers. On an H200 attention took 555 µs with descriptors of keys and
values and 601 with pointers, a product of tf32 with both operands K-major 198 and 505; a product of bf16 the same; one
of tf32 with a row-major operand more (576), and so did results that were stored through a descriptor.

Preconditions: the tile's address, mask and `other` say no more than a descriptor does (`tiles`); its rows begin at
multiples of 16 bytes in the recorded launch. For those that do not, the kernel keeps its pointers, under a constexpr
that the host code computes (`aligned_rows`). Operands of 8 and 32 bits have the contraction contiguous, all of a dot's.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.aligned_rows import AlignedRows
from tritonforge.rewrite.structural.calls import name_of, value_of
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, line_of, nodes_of, replaced_in
from tritonforge.rewrite.structural.loop_options import capability
from tritonforge.rewrite.structural.loops import times_set
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.standing import Standing, statements_in_loops
from tritonforge.rewrite.structural.tiles import Axis, Product, Tile, TileReader

_LEAST_BYTES = 16
"""Of a row of a tile."""
_LARGEST = 256
"""Elements along an axis of what is copied at once."""
_HALF = 16
_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "int8": 8, "uint8": 8}
_TRACED = re.compile(r"\btorch\.compile\b|\btriton_op\b|\bwrap_triton\b")


@dataclass(frozen=True)
class _Load:
    """A statement `name = tl.load(…)` in a loop, and what it reads."""

    standing: Standing
    statement: cst.SimpleStatementLine
    name: str
    tile: Tile


class TensorDescriptors:
    """Loads of a dot's operands through descriptors."""

    name = "tensor-descriptors"
    treats = frozenset({"TF206"})
    classes: frozenset[BottleneckClass] = frozenset(
        {"latency", "tensor-core", "shared-memory", "l2-bandwidth", "dram-bandwidth", "register-spill"}
    )

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        if not capability(text) >= 90:
            raise Absent(f"{text.task.arch} has no unit that copies tiles")
        if any(name_of(n, text.tl) == "make_tensor_descriptor" for n in nodes_of(text.function)):
            raise Absent("the kernel loads through descriptors already")
        if not text.triton:
            raise Refused("triton is not imported under a name of its own")
        loads = _matrices(_loads(text))
        host = Host(text)
        if _TRACED.search(host.source.text):
            raise Refused("torch.compile traces the host code, where nothing lies at an address")
        if not (host.has_torch or "set_allocator(" in host.source.text):
            raise Refused("torch is not imported under its name")
        rows = AlignedRows(text, host, [load.tile for load in loads], _extents(text, loads))
        flag = text.fresh("ALIGNED", "ROWS_ALIGNED")
        function = _with_descriptors(text, loads, flag)
        # The last parameter, unless there are defaults, which it has to stand in front of.
        least = host.most_positional if any(p.default is not None for p in function.params.params) else 0
        function = with_parameter(function, flag, constexpr=f"{text.tl}.constexpr", least=least)
        names = " and ".join(dict.fromkeys(load.tile.pointer for load in loads))
        yield Change(f"tiles of {names} through tensor descriptors", (*text.edits(function), *rows.edits(flag)))


def _loads(text: KernelText) -> list[_Load]:
    """Return the loads of dots' operands that descriptors suit.

    Raises:
        Absent: no dot's operand is loaded in a loop.
        Refused: none of them is a tile that a descriptor can read, or one that it reads any sooner.
    """
    flow = flow_of(text.function, text.kernel, text.tl)
    found: list[_Load] = []
    across: set[str] = set()
    reasons: list[str] = []
    for standing, statement in statements_in_loops(text):
        small = statement.body[0]
        if len(statement.body) != 1 or not isinstance(small, cst.Assign) or name_of(small.value, text.tl) != "load":
            continue
        name, load = code(small.targets[0].target), small.value
        assert isinstance(load, cst.Call)
        contracted = {axis for dot in _dots(text, standing) for axis in dot.contracted(name)}
        if not contracted or len(small.targets) != 1 or times_set(standing.way[-1][0])[name] != 1:
            continue
        try:
            tile = TileReader(standing, flow).tile(load)
            _check(text, tile)
        except Refused as refused:
            reasons.append(str(refused))
            across.add(name)
            continue
        found.append(_Load(standing, statement, name, tile))
        if contracted != {tile.columns.along}:
            across.add(name)
    chosen = [load for load in found if _bits(text, load.tile.pointer) == _HALF or _are_k_major(text, load, across)]
    if chosen:
        return chosen
    if found and not reasons:
        raise Refused(
            "operands of 8 or 32 bits are none for it: one lies across the contraction, or is not rounded to tf32"
        )
    if reasons:
        raise Refused(reasons[0])
    raise Absent("no loop loads an operand of a dot")


def _are_k_major(text: KernelText, load: _Load, across: set[str]) -> bool:
    """Tell whether what is loaded goes to tensor cores as it is, and so does what they multiply it by.

    In 16 bits they take operands in either order. In others an operand across the contraction is turned by all threads.
    """
    dots = [dot for dot in _dots(text, load.standing) if load.name in dot.names]
    return not any(dot.is_exact or across & dot.names for dot in dots)


@dataclass(frozen=True)
class _Dot:
    """A dot: the names of its operands, whether it reads them transposed, whether it multiplies in all of fp32."""

    left: tuple[str, bool]
    right: tuple[str, bool]
    is_exact: bool

    @property
    def names(self) -> set[str]:
        """The names of both operands."""
        return {self.left[0], self.right[0]}

    def contracted(self, name: str) -> Iterator[int]:
        """Yield which axis of `name` the dot contracts, for each time that it multiplies it."""
        if self.left[0] == name:
            yield 0 if self.left[1] else 1
        if self.right[0] == name:
            yield 1 if self.right[1] else 0


def _dots(text: KernelText, standing: Standing) -> Iterator[_Dot]:
    """Yield the dots in the innermost loop around a statement."""
    for node in nodes_of(standing.way[-1][0]):
        if isinstance(node, cst.Call) and name_of(node, text.tl) == "dot" and len(node.args) >= 2:
            left, right = (_operand(text, arg.value) for arg in node.args[:2])
            exact = "ieee" in code(node) or value_of(node, "dot", "allow_tf32") is not None
            yield _Dot(left, right, exact)


def _operand(text: KernelText, node: cst.BaseExpression) -> tuple[str, bool]:
    """Return what an operand is called, and whether it is transposed."""
    if isinstance(node, cst.Attribute) and node.attr.value == "T":
        return code(node.value), True
    if isinstance(node, cst.Call) and name_of(node, text.tl) == "trans" and len(node.args) == 1:
        return code(node.args[0].value), True
    return code(node), False


def _bits(text: KernelText, pointer: str) -> int:
    tensor = dict(text.launch.problem.arguments).get(pointer)
    dtype = tensor.dtype if isinstance(tensor, Tensor) else ""
    return 8 if dtype.startswith("float8") else _BITS.get(dtype, 0)


def _check(text: KernelText, tile: Tile) -> None:
    """Check the sizes of a tile in the recorded launch.

    Raises:
        Refused: a descriptor does not take it.
    """
    bits = _bits(text, tile.pointer)
    if not bits:
        raise Refused(f"{tile.pointer} holds what is not multiplied through descriptors")
    extents = [text.size(axis.extent) for axis in (tile.rows, tile.columns)]
    rows, columns = extents
    if rows is None or columns is None:
        raise Refused(f"how large the tiles of {tile.pointer} are is not known")
    if max(rows, columns) > _LARGEST:
        raise Refused(f"tiles of {tile.pointer} have more than {_LARGEST} elements along an axis")
    if columns * bits // 8 < _LEAST_BYTES:
        raise Refused(f"a row of {tile.pointer}'s tiles has fewer than {_LEAST_BYTES} bytes")


def _matrices(loads: Sequence[_Load]) -> list[_Load]:
    """Return the loads with their matrices' ends: as another load of the same matrix has them where a mask is missing.

    Raises:
        Refused: of none of them does anything say where its matrix ends.
    """
    out = []
    for load in loads:
        tile = load.tile
        same = [one.tile for one in loads if one.tile.place == tile.place]
        rows = _ending(tile.rows, [one.rows for one in same])
        columns = _ending(tile.columns, [one.columns for one in same])
        if rows.bound and columns.bound:
            out.append(dataclasses.replace(load, tile=dataclasses.replace(tile, rows=rows, columns=columns)))
    if not out:
        raise Refused(f"nothing says where the matrix of {loads[0].tile.pointer} ends")
    return out


def _ending(axis: Axis, others: Sequence[Axis]) -> Axis:
    """Return an axis with where its matrix ends: what a mask says, or one tile that all of it is."""
    bounds = [one.bound for one in (axis, *others) if one.bound]
    return dataclasses.replace(axis, bound=bounds[0] if bounds else axis.extent if axis.first == "0" else "")


def _extents(text: KernelText, loads: Sequence[_Load]) -> list[Product]:
    """Return what a row of a tile is as wide as, where the launch passes a size for it and no number."""
    settings = text.settings()
    nodes = text.nodes_of_sites()
    wide = dict.fromkeys(load.tile.columns.extent for load in loads)
    return [
        (extent,)
        for extent in wide
        if not extent.isdecimal() and any(settings.of(node, extent).place == "fixed" for node in nodes)
    ]


def _with_descriptors(text: KernelText, loads: Sequence[_Load], flag: str) -> cst.FunctionDef:
    """Return the kernel with descriptors in front of its loops, and loads through them where `flag` is set."""
    fresh = Names(text, {flag})
    made: dict[Tile, tuple[str, int]] = {}
    lines: dict[int, list[cst.SimpleStatementLine]] = {}
    calls: dict[int, cst.SimpleStatementLine] = {}
    for load in loads:
        tile = load.tile
        matrix = _matrix(tile)
        if matrix not in made:
            stem = tile.pointer.removesuffix("_ptr")
            made[matrix] = fresh(f"{stem}_desc", f"{tile.pointer}_desc"), load.standing.outermost
            shape = f"[{tile.rows.bound}, {tile.columns.bound}], [{tile.rows.stride or '1'}, 1]"
            block = f"[{tile.rows.extent}, {tile.columns.extent}]"
            call = f"{text.tl}.make_tensor_descriptor({tile.base}, {shape}, {block})"
            lines.setdefault(load.standing.outermost, []).append(line_of(f"{made[matrix][0]} = {call}"))
        turned = ".T" if tile.transposed else ""
        words = f"{made[matrix][0]}.load([{tile.rows.first}, {tile.columns.first}]){turned}"
        calls[id(load.statement)] = line_of(f"{load.name} = {words}")
    body = list(text.function.body.body)
    out: list[cst.BaseStatement] = []
    for place, statement in enumerate(body):
        if place in lines:
            out.append(cst.If(cst.Name(flag), cst.IndentedBlock(lines[place])))
        out.append(_rewritten(statement, calls, flag))  # type: ignore[arg-type]
    return text.with_body(out)


def _matrix(tile: Tile) -> Tile:
    """Return what tiles that are read through one descriptor have in common."""
    rows, columns = (dataclasses.replace(axis, along=0, first="") for axis in (tile.rows, tile.columns))
    return dataclasses.replace(tile, rows=rows, columns=columns, multiples=(), ones=())


def _rewritten(statement: cst.BaseStatement, calls: dict[int, cst.SimpleStatementLine], flag: str) -> cst.BaseStatement:
    """Return a statement of the kernel's body with branches in the place of loads in it."""
    blocks = [n for n in (statement, *nodes_of(statement)) if isinstance(n, cst.IndentedBlock)]
    made: list[tuple[cst.CSTNode, cst.CSTNode]] = []
    # Innermost blocks have the loads; one that holds another of those is made of it.
    for block in reversed(blocks):
        if not any(id(s) in calls for s in block.body):
            continue
        made.append((block, block.with_changes(body=_branched(block.body, calls, flag))))
    for old, new in made:
        after = replaced_in(statement, [(old, new)])
        assert isinstance(after, cst.BaseStatement)
        statement = after
    return statement


def _branched(
    body: Sequence[cst.BaseStatement], calls: dict[int, cst.SimpleStatementLine], flag: str
) -> list[cst.BaseStatement]:
    """Return a body in which each run of loads is a branch on `flag`; comments above the first stay above it."""
    out: list[cst.BaseStatement] = []
    run: list[cst.BaseStatement] = []
    for statement in (*body, None):
        if statement is not None and id(statement) in calls:
            run.append(statement)
            continue
        if run:
            first = run[0]
            assert isinstance(first, cst.SimpleStatementLine)
            plain = [first.with_changes(leading_lines=()), *run[1:]]
            out.append(
                cst.If(
                    cst.Name(flag),
                    cst.IndentedBlock([calls[id(one)] for one in run]),
                    cst.Else(cst.IndentedBlock(plain)),
                    leading_lines=first.leading_lines,
                )
            )
            run = []
        if statement is not None:
            out.append(statement)
    return out
