"""A loop over a row's columns in place of one block that covers the whole row.

A block is a power of two, so a row of 33,000 elements takes one of 65,536: half of the lanes have nothing to do, and
the other half of the registers spills. Tiles of a few thousand elements walk over the row once for each round of
reductions; what one pass computes is computed again in the next, from data that L2 still holds.

Preconditions: the kernel's body is straight-line code in which one tile, computed with `next_power_of_2`, spans the
row; every access to the row is masked with its length; what is reduced are sums, maxima and minima of floats; nothing
is stored to a row before the last pass begins. Three passes at most, and rows of which a block wastes a fifth or does
not fit the registers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.rules.sharing import Sharing
from tritonforge.rewrite.structural.calls import argument, grouped, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced, replaced_in

_TILES = (4096, 2048, 8192)
_LEAST_BLOCK = 8192
_LARGE_BLOCK = 32_768
_MOST_PASSES = 3
_STARTS = {"sum": "0.0", "max": 'float("-inf")', "min": 'float("inf")'}
_COMBINE = {"max": "maximum", "min": "minimum"}


class ColumnLoop:
    """Tiles of columns in place of a whole row."""

    name = "column-loop"
    treats = frozenset({"TF305", "TF106", "TF301"})
    classes: frozenset[BottleneckClass] = frozenset({"register-spill", "low-occupancy", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield tiles of 4,096, 2,048 and 8,192 elements."""
        tile = _tile(text)
        block = text.value(tile) or 0
        function = _apart(text, tile)
        passes = _Passes(text, flow_of(function, text.kernel, text.tl), tile, list(function.body.body))
        body = passes.run()
        length = text.value(passes.length)
        if length is None:
            raise Refused(f"the recorded launch does not say how large {passes.length} is")
        if block < _LARGE_BLOCK and (block < _LEAST_BLOCK or length > 0.8 * block):
            raise Absent(f"a block of {block} holds rows of {length} elements well enough")
        function = text.with_body(body)
        edits = text.edits(function)
        for size in _TILES:
            if size < block:
                yield Change(
                    f"rows in tiles of {size} columns",
                    (*edits, *_host_edits(text, tile, size)),
                    ((tile, str(size)),),
                    {tile: size},
                )


def _tile(text: KernelText) -> str:
    if any(isinstance(n, cst.For | cst.While) for n in nodes_of(text.function)):
        raise Absent("the kernel loops already")
    for site in text.sites:
        for name, value in site.constexprs:
            if name in text.kernel.tiles and value.source in {"next_power_of_2", "local", "expression", "call"}:
                origin = value.origin or value.range
                start, end = text.source.offsets_of(origin) if origin is not None else (0, 0)
                if "next_power_of_2" in text.source.text[start:end] or value.source == "next_power_of_2":
                    if any(name in tiles for _, tiles in text.kernel.program_axes):
                        raise Absent(f"{name} divides the programs' work")
                    return name
    raise Absent("no block covers a whole row")


def _apart(text: KernelText, tile: str) -> cst.FunctionDef:
    """Return the kernel with reductions that stand among the row's elements as statements of their own."""
    flow = flow_of(text.function, text.kernel, text.tl)
    made: list[tuple[cst.CSTNode, Replacement]] = []
    names: set[str] = set()
    for statement in text.function.body.body:
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        small = statement.body[0]
        value = small.value if isinstance(small, cst.Assign) else None
        wide = [value] if value is not None else [n for n in nodes_of(small) if name_of(n, text.tl) == "store"]
        shapes = [flow.of(w.args[0].value if isinstance(w, cst.Call) and value is None else w).shape for w in wide]
        if not any(shape is not None and tile in shape for shape in shapes):
            continue
        inner: list[tuple[cst.CSTNode, Replacement]] = []
        lines: list[cst.BaseStatement] = []
        for node in nodes_of(statement):
            kind = name_of(node, text.tl)
            if not isinstance(node, cst.Call) or kind not in _STARTS:
                continue
            shape = flow.of(node.args[0].value).shape
            if shape is None or tile not in shape:
                continue
            if any(name_of(n, text.tl) in _STARTS for n in nodes_of(node)):
                raise Refused(f"{code(node)} reduces what was reduced in the same expression")
            of = node.args[0].value
            wish = f"{of.value}_{kind}" if isinstance(of, cst.Name) else f"row_{kind}"
            name = text.fresh(wish, f"{wish}_of_row", but=names)
            names.add(name)
            lines.append(cst.parse_statement(f"{name} = {code(node)}"))
            inner.append((node, cst.Name(name)))
        if inner:
            line = replaced_in(statement, inner)
            assert isinstance(line, cst.SimpleStatementLine)
            made.append((statement, cst.FlattenSentinel([*lines, line])))
    return replaced(text.function, made)


@dataclass
class _Passes:
    """The kernel's body, statement by statement, as passes over tiles; `length` is the row's length, a parameter."""

    text: KernelText
    flow: Flow
    tile: str
    statements: Sequence[cst.CSTNode]
    length: str = ""
    wide: list[tuple[int, cst.SimpleStatementLine]] = field(default_factory=list)
    out: list[cst.BaseStatement] = field(default_factory=list)
    loops: int = 0
    stored: bool = False
    names: set[str] = field(default_factory=set)
    said: set[int] = field(default_factory=set)

    def run(self) -> list[cst.BaseStatement]:
        """Return the new body.

        Raises:
            Refused: it is not straight-line code over one row.
        """
        statements = self.statements
        index = 0
        while index < len(statements):
            statement = statements[index]
            if not isinstance(statement, cst.SimpleStatementLine):
                if self.is_wide(statement):
                    raise Refused("a condition decides about what is done with the row")
                self.out.append(statement)  # type: ignore[arg-type]
                index += 1
                continue
            if self.reductions(statement):
                index = self.reduce(statements, index)
            elif self.is_wide(statement):
                if self.is_store(statement):
                    index = self.store(statements, index)
                else:
                    self.wide.append((index, statement))
                    index += 1
            else:
                self.out.append(statement)
                index += 1
        if not self.loops:
            raise Refused("nothing is done with the row")
        return self.out

    def is_wide(self, node: cst.CSTNode) -> bool:
        """Tell whether a statement has to do with the row's elements."""
        for one in nodes_of(node):
            shape = self.flow.of(one).shape
            if shape is not None and self.tile in shape:
                if shape != (self.tile,):
                    raise Refused("the block has another axis, too")
                return True
            if isinstance(one, cst.Name) and one.value == self.tile:
                return True
        return False

    def is_store(self, statement: cst.SimpleStatementLine) -> bool:
        value = statement.body[0].value if isinstance(statement.body[0], cst.Expr) else None
        return (name_of(value, self.text.tl) or "").startswith(("store", "atomic")) if value is not None else False

    def reductions(self, statement: cst.CSTNode) -> list[cst.Call]:
        """Return the reductions of the row in a statement."""
        found = []
        for node in nodes_of(statement):
            name = name_of(node, self.text.tl)
            if isinstance(node, cst.Call) and name in {"sum", "max", "min", "argmax", "argmin", "xor_sum", "cumsum"}:
                shape = self.flow.of(node.args[0].value).shape
                if shape is None or self.tile in shape:
                    plain = name in _STARTS and not any(
                        argument(node, name, p) for p in ("keep_dims", "return_indices")
                    )
                    if not plain:
                        raise Refused(f"{code(node)} cannot be put together from tiles")
                    found.append(node)
        return found

    def reduce(self, statements: Sequence[cst.CSTNode], index: int) -> int:
        """Emit the loop of one round of reductions; returns where to go on."""
        group: list[tuple[int, cst.SimpleStatementLine]] = []
        set_here: set[str] = set()
        at = index
        while at < len(statements):
            statement = statements[at]
            if not isinstance(statement, cst.SimpleStatementLine):
                break
            calls = self.reductions(statement)
            if calls:
                needed = self.needed(at, statement)
                reads = {n for _, s in needed for n in _reads(s)} | _reads(statement)
                if reads & set_here:
                    break
                group.append((at, statement))
                set_here |= _sets(statement)
            elif self.is_wide(statement) and not self.is_store(statement) and not (_reads(statement) & set_here):
                self.wide.append((at, statement))
            else:
                break
            at += 1
        before = {i: one for place, statement in group for i, one in self.needed(place, statement)}
        steps: list[cst.BaseStatement] = []
        behind: list[cst.BaseStatement] = []
        for _, statement in group:
            changed: cst.CSTNode = statement
            for call in self.reductions(statement):
                kind = name_of(call, self.text.tl) or ""
                term = call.args[0].value
                self.check_float(term)
                wish = next(iter(sorted(_sets(statement))), "total")
                name = self.text.fresh(f"{wish}_parts", f"{wish}_{kind}", f"{wish}_{kind}_parts", but=self.names)
                self.names.add(name)
                start = f"{self.text.tl}.full(({self.tile},), {_STARTS[kind]}, {self.text.tl}.float32)"
                if kind == "sum":
                    start = f"{self.text.tl}.zeros(({self.tile},), {self.text.tl}.float32)"
                self.out.append(cst.parse_statement(f"{name} = {start}"))
                bare = code(term.with_changes(lpar=(), rpar=()))
                step = f"{name} += {bare}"
                if kind != "sum":
                    step = f"{name} = {self.text.tl}.{_COMBINE[kind]}({name}, {bare})"
                steps.append(cst.parse_statement(step))
                changed = replaced_in(changed, [(term, cst.Name(name))])
            assert isinstance(changed, cst.BaseStatement)
            behind.append(changed)
        self.loop([before[i] for i in sorted(before)], steps)
        self.out += behind
        return at

    def store(self, statements: Sequence[cst.CSTNode], index: int) -> int:
        """Emit the loop of stores of the row; returns where to go on."""
        group: list[cst.BaseStatement] = []
        needed: dict[int, cst.SimpleStatementLine] = {}
        at = index
        while at < len(statements):
            statement = statements[at]
            if not isinstance(statement, cst.SimpleStatementLine) or self.reductions(statement):
                break
            if not self.is_wide(statement):
                break
            if self.is_store(statement):
                needed |= dict(self.needed(at, statement))
                group.append(statement)
                needed[at] = statement
            else:
                self.wide.append((at, statement))
            at += 1
        self.loop([needed[i] for i in sorted(needed)], [])
        self.stored = True
        return at

    def needed(self, index: int, statement: cst.CSTNode) -> list[tuple[int, cst.SimpleStatementLine]]:
        """Return the statements over the row that one needs, in order: the last before it that set what it reads."""
        found: dict[int, cst.SimpleStatementLine] = {}
        waiting = [(index, name) for name in _reads(statement)]
        while waiting:
            place, name = waiting.pop()
            for i, one in reversed(self.wide):
                if i < place and name in _sets(one):
                    if i not in found:
                        found[i] = one
                        waiting += [(i, n) for n in _reads(one)]
                    break
        return sorted(found.items())

    def loop(self, statements: Sequence[cst.SimpleStatementLine], steps: Sequence[cst.BaseStatement]) -> None:
        self.loops += 1
        if self.loops > _MOST_PASSES:
            raise Refused(f"the row would be walked over more than {_MOST_PASSES} times")
        variable = self.text.fresh("start", "first", "offset")
        body: list[cst.BaseStatement] = []
        for statement in statements:
            for node in nodes_of(statement):
                name = name_of(node, self.text.tl)
                if isinstance(node, cst.Call) and name in {"load", "store"}:
                    self.check_access(node, name)
            line = replaced_in(statement, list(self.moved(statement, variable)))
            assert isinstance(line, cst.SimpleStatementLine)
            # What is said of a statement is said once, however often it is made.
            first = id(statement) not in self.said
            self.said.add(id(statement))
            body.append(line.with_changes(leading_lines=[x for x in line.leading_lines if x.comment and first]))
        if not self.length:
            raise Refused("no access to the row is masked with its length")
        head = cst.parse_statement(f"for {variable} in range(0, {self.length}, {self.tile}):\n    pass\n")
        assert isinstance(head, cst.For)
        assert isinstance(head.body, cst.IndentedBlock)
        self.out.append(head.with_changes(body=head.body.with_changes(body=[*body, *steps])))

    def moved(self, statement: cst.CSTNode, variable: str) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
        """Yield the lanes of the row in a statement, with those of a tile in their place."""
        for parent in (statement, *nodes_of(statement)):
            for node in parent.children:
                if name_of(node, self.text.tl) == "arange" and self.flow.of(node).shape == (self.tile,):
                    new = cst.parse_expression(f"{variable} + {code(node)}")
                    tight = isinstance(parent, cst.BinaryOperation) and not isinstance(parent.operator, cst.Add)
                    yield node, grouped(new) if tight or isinstance(parent, cst.Subscript | cst.Attribute) else new

    def check_access(self, call: cst.Call, name: str) -> None:
        if self.stored and name == "load":
            raise Refused("the row is read again after something was stored")
        mask = value_of(call, name, "mask")
        words = code(mask) if mask is not None else ""
        if words.isidentifier():
            words = next((code(s) for _, s in reversed(self.wide) if words in _sets(s)), "")
        lengths = [
            p.name
            for p in self.text.kernel.parameters
            if p.role in {"scalar", "stride", "meaning"} and re.search(rf"<\s*{p.name}\b", words)
        ]
        if len(lengths) != 1 or (self.length and self.length != lengths[0]):
            raise Refused(f"the {name} of {code(call.args[0].value)} is not masked with the row's length alone")
        self.length = lengths[0]

    def check_float(self, term: cst.BaseExpression) -> None:
        tensors = [v for _, v in self.text.launch.problem.arguments if isinstance(v, Tensor)]
        whole = isinstance(term, cst.Comparison) or "int" in code(term)
        if whole or any(not t.dtype.startswith(("float", "bfloat")) for t in tensors):
            raise Refused(f"{code(term)} may be whole numbers")


def _reads(node: cst.CSTNode) -> set[str]:
    targets = {id(t.target) for t in nodes_of(node) if isinstance(t, cst.AssignTarget)}
    return {n.value for n in nodes_of(node) if isinstance(n, cst.Name) and id(n) not in targets}


def _sets(node: cst.CSTNode) -> set[str]:
    out = {code(t.target) for t in nodes_of(node) if isinstance(t, cst.AssignTarget)}
    return out | {code(n.target) for n in nodes_of(node) if isinstance(n, cst.AugAssign | cst.AnnAssign)}


def _host_edits(text: KernelText, tile: str, size: int) -> list[Edit]:
    host = Host(text)
    settings = text.settings()
    sharing = Sharing(text.scopes, host.nodes, host.nodes, host.grids)
    edits: list[Edit] = []
    for node in host.nodes:
        setting = settings.of(node, tile)
        place = setting.at_launch
        variable = setting.chain[-1] if setting.chain else None
        if variable is not None and isinstance(variable.single, ast.expr) and not sharing.used_elsewhere(setting.chain):
            place = variable.single
        if place is None or (variable is not None and variable.parameter is not None):
            raise Refused(f"where {tile} is set cannot be edited")
        edits.append(text.source.replace(place, f"min({text.source.segment(place)}, {size})"))
    return list(dict.fromkeys(edits))
