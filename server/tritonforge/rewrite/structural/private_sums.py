"""Atomics of every program in private sums first: a program goes through many tiles and adds to memory once.

What programs add to one place is summed up in registers while a program goes from tile to tile, and a histogram of
each tile (`tl.histogram`) is added to one of the program. Memory sees one atomic for each program and element, or bin,
in place of one for each tile or element.

Preconditions: `tl.atomic_add` whose result is unused, in the kernel's body itself, on fp32, int32 or int64; either its
address does not depend on the programs of one axis, or it is a pointer plus loaded integers and 1 is added for each of
them, to a tensor of at most 4,096 bins whose length the host function shows. Along the axis there are many programs,
they do not end early, and nobody reads what is added to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.domain.source import Edit
from tritonforge.prediction.gpus import gpu_for
from tritonforge.rewrite.rules.launch_values import Refused, called_name
from tritonforge.rewrite.structural.calls import argument, integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, line_of, nodes_of
from tritonforge.rewrite.structural.loops import names_in
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.walking import (
    Split,
    extent_of,
    in_loop,
    loop_over,
    plural_of,
    split_body,
    tile_name,
    with_own_pointers,
)
from tritonforge.rewrite.structural.workspace import grid_tuple

_MOST_BINS = 4096
_DTYPES = frozenset({"float32", "int32", "int64"})


@dataclass(frozen=True)
class _Update:
    """An atomic: the statement, its address, what it adds, its mask; `index` where its address is looked up."""

    line: cst.SimpleStatementLine
    call: cst.Call
    pointer: str
    dtype: str
    index: cst.BaseExpression | None = None


class PrivateSums:
    """Sums in registers in place of most atomics."""

    name = "private-sums"
    treats = frozenset({"TF107"})
    classes: frozenset[BottleneckClass] = frozenset({"atomic-contention", "latency", "l2-bandwidth"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield as many tiles for each program as leave about 8, 2 or 32 programs for each multiprocessor."""
        written, text = text, with_own_pointers(text)
        calls = [n for n in nodes_of(text.function) if name_of(n, text.tl) == "atomic_add"]
        if not calls:
            raise Absent("no atomic adds up anything")
        flow = flow_of(text.function, text.kernel, text.tl)
        axis = _axis(text, flow)
        updates = [_update(text, flow, axis, call) for call in calls if isinstance(call, cst.Call)]
        host = Host(text)
        if len(host.nodes) != 1:
            raise Refused("the kernel is launched in several places")
        grid = grid_tuple(host)
        host.extent(0, axis)
        split = split_body(text, flow, {axis})
        if _walks_already(text):
            raise Absent("programs go through many tiles each already")
        _check_places(text, updates, split)
        extent = extent_of(text, host, axis, plural_of(tile_name(text, axis)))
        plan = _Plan(text, flow, axis, tuple(updates), split)
        function = plan.function(extent.words)
        least, pairs = host.most_positional, [*extent.passed]
        for name, _ in extent.passed:
            function = with_parameter(function, name, least=least)
        for name, words, constexpr in _bins(text, host, plan):
            function = with_parameter(
                function, name, least=least + len(pairs), constexpr=f"{text.tl}.constexpr" if constexpr else ""
            )
            pairs.append((name, words))
        edits: tuple[Edit, ...] = written.edits(function)
        if pairs:
            edits += host.keywords([pairs])
        element = text.source.segment(grid.elts[axis])
        for factor in _factors(text, axis):
            recorded = [*text.launch.config.grid]
            recorded[axis] = -(-recorded[axis] // factor)
            yield Change(
                f"sums of {factor} tiles in registers, then one atomic",
                (*edits, text.source.replace(grid.elts[axis], f"{text.triton}.cdiv({element}, {factor})")),
                (("tiles", str(factor)),),
                {},
                (recorded[0], recorded[1], recorded[2]),
            )


def _axis(text: KernelText, flow: Flow) -> int:
    axes = [a for a, n in enumerate(text.launch.config.grid) if n > 1]
    if not axes:
        raise Absent("there is one program")
    asked = {axis for value in flow.values.values() for axis in value.programs}
    if not asked <= {0, 1, 2}:
        raise Refused("a program id is asked for along an axis that is computed")
    axis = max(axes, key=lambda a: text.launch.config.grid[a])
    if not text.triton:
        raise Refused("triton is not imported under a name of its own, so that the grid cannot be divided with it")
    _factors(text, axis)
    return axis


def _factors(text: KernelText, axis: int) -> list[int]:
    spec = gpu_for(text.task.arch)
    units = spec.sms if spec else 100
    grid = text.launch.config.grid
    others = grid[0] * grid[1] * grid[2] // grid[axis]
    programs = grid[axis] * others
    wanted = [programs // (each * units) for each in (8, 2, 32)]
    found = [1 << (w.bit_length() - 1) for w in wanted if w >= 2]
    if not found:
        raise Absent(f"{programs} programs are few, so that few atomics meet")
    return list(dict.fromkeys(found))


def _update(text: KernelText, flow: Flow, axis: int, call: cst.Call) -> _Update:
    line = next(
        (
            s
            for s in text.function.body.body
            if isinstance(s, cst.SimpleStatementLine) and isinstance(s.body[0], cst.Expr) and s.body[0].value is call
        ),
        None,
    )
    if line is None:
        raise Refused("an atomic stands in a loop or under a condition, or its result is used")
    address = call.args[0].value
    pointers = names_in(address) & {p.name for p in text.kernel.parameters if p.role == "pointer"}
    if len(pointers) != 1:
        raise Refused("what an atomic adds to is no pointer of the launch")
    (pointer,) = pointers
    for access in text.kernel.accesses:
        if access.kind == "load" and access.pointer == pointer:
            raise Refused(f"the kernel reads {pointer}, which it adds to")
    tensor = dict(text.launch.problem.arguments).get(pointer)
    if not isinstance(tensor, Tensor):
        raise Refused(f"the recorded launch does not say of which type {pointer} is")
    if tensor.dtype not in _DTYPES:
        raise Refused(f"{pointer} is of {tensor.dtype}")
    if axis not in flow.of(address).programs:
        return _Update(line, call, pointer, tensor.dtype)
    index = _looked_up(text, flow, address, pointer)
    value = value_of(call, "atomic_add", "val")
    if index is None or value is None or integer(value) != 1 or tensor.dtype == "float32":
        raise Refused(f"every program adds to other places of {pointer}")
    if len(tensor.shape) != 1 or tensor.shape[0] > _MOST_BINS:
        raise Refused(f"{tensor.shape} bins are more than a program counts by itself")
    return _Update(line, call, pointer, tensor.dtype, index)


def _looked_up(text: KernelText, flow: Flow, address: cst.BaseExpression, pointer: str) -> cst.BaseExpression | None:
    """Return `x` of an address `pointer + x` where `x` are loaded integers."""
    if not isinstance(address, cst.BinaryOperation) or not isinstance(address.operator, cst.Add):
        return None
    sides = (address.left, address.right)
    rest = [side for side in sides if code(side) != pointer]
    if len(rest) != 1 or not isinstance(rest[0], cst.Name):
        return None
    values = [
        n.value
        for n in nodes_of(text.function)
        if isinstance(n, cst.Assign) and code(n.targets[0].target) == rest[0].value
    ]
    loaded = len(values) == 1 and any(name_of(n, text.tl) == "load" for n in (values[0], *nodes_of(values[0])))
    shape = flow.of(rest[0]).shape
    return rest[0] if loaded and shape is not None and len(shape) == 1 else None


def _walks_already(text: KernelText) -> bool:
    return any(name_of(n, text.tl) == "num_programs" for n in nodes_of(text.function))


def _check_places(text: KernelText, updates: list[_Update], split: Split) -> None:
    """Check that addresses can be written behind the loop.

    Raises:
        Refused: they are computed in it.
    """
    early = {n for s in split.before for n in names_in(s)} | {p.name for p in text.kernel.parameters}
    for update in updates:
        if update.index is None and names_in(update.call.args[0].value) - early - {text.tl}:
            raise Refused(f"where in {update.pointer} is added to is computed for each tile")


def _bins(text: KernelText, host: Host, plan: _Plan) -> Iterator[tuple[str, str, bool]]:
    """Yield the parameters for the numbers of bins: name, what is passed, whether it is a constexpr."""
    for update in plan.updates:
        if update.index is None:
            continue
        given = host.argument(0, update.pointer)
        variable = text.scopes.resolve(given) if isinstance(given, ast.Name) else None
        value = variable.single if variable is not None else None
        if not isinstance(value, ast.Call) or called_name(value) != "zeros" or len(value.args) != 1:
            raise Refused(f"what is passed for {update.pointer} is not made by torch.zeros(…) in the host function")
        size: ast.expr = value.args[0]
        if isinstance(size, ast.Tuple | ast.List) and len(size.elts) == 1:
            size = size.elts[0]
        if isinstance(size, ast.Tuple | ast.List) or not host.says_at_launch(0, size):
            raise Refused(f"how many bins {update.pointer} has is not known at the launch")
        words = text.source.segment(size)
        known, power = plan.bins(update)
        yield known, words, False
        yield power, f"{text.triton}.next_power_of_2({words})", True


@dataclass(frozen=True)
class _Plan:
    """The kernel with its loop."""

    text: KernelText
    flow: Flow
    axis: int
    updates: tuple[_Update, ...]
    split: Split

    def bins(self, update: _Update) -> tuple[str, str]:
        """Return the names of the number of bins and of the power of two that covers them."""
        several = sum(u.index is not None for u in self.updates) > 1
        stem = f"{update.pointer.removesuffix('_ptr')}_" if several else ""
        return self.text.fresh(f"{stem}bins", f"{stem}num_bins"), self.text.fresh(f"{stem}BINS", f"{stem}NUM_BINS")

    def function(self, tiles: str) -> cst.FunctionDef:
        """Return the kernel with a loop over tiles and its atomics behind it."""
        text, tl = self.text, self.text.tl
        tile = tile_name(text, self.axis)
        fresh = Names(text, {tile})
        starts: list[str] = []
        behind: list[cst.BaseStatement] = []
        steps: dict[int, str] = {}
        for update in self.updates:
            value = value_of(update.call, "atomic_add", "val")
            assert value is not None
            stem = update.pointer.removesuffix("_ptr")
            name = fresh(f"own_{stem}", f"{stem}_of_program")
            if update.index is not None:
                steps[id(update.line)] = self._count(update, name)
                starts.append(f"{name} = {tl}.zeros(({self.bins(update)[1]},), {tl}.int32)")
                behind.append(self._count_behind(update, name))
                continue
            whole, reduced = self._summed(value)
            shape = self.flow.of(whole).shape
            if shape is None:
                raise Refused(f"the shape of {code(value)} is not known")
            mask = value_of(update.call, "atomic_add", "mask")
            varies = mask is not None and self.axis in self.flow.of(mask).programs
            words = code(whole.with_changes(lpar=(), rpar=()))
            if varies and mask is not None:
                words = f"{tl}.where({code(mask)}, {words}, 0)"
            steps[id(update.line)] = f"{name} += {words}"
            listed = ", ".join(shape) + ("," if len(shape) == 1 else "")
            zero = "0" if update.dtype != "float32" else "0.0"
            starts.append(f"{name} = {tl}.zeros(({listed}), {tl}.{update.dtype})" if shape else f"{name} = {zero}")
            behind.append(self._behind(update, name, reduced, varies))
        inside: list[cst.BaseStatement] = []
        for statement in self.split.inside:
            step = steps.get(id(statement))
            if step is None:
                inside.append(statement)
                continue
            inside.append(line_of(step))
        head = f"for {tile} in range({tl}.program_id({self.axis}), {tiles}, {tl}.num_programs({self.axis})):"
        loop = loop_over(head, in_loop(text, inside, {self.axis: tile}))
        zeros = [cst.parse_statement(s) for s in starts]
        body = [*self.split.before, *zeros, loop, *behind]
        return text.with_body(body)

    def _summed(self, value: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.Call | None]:
        """Return what is summed up over a block before it is added, and the call that does that."""
        if isinstance(value, cst.Call) and name_of(value, self.text.tl) == "sum":
            shape = self.flow.of(value.args[0].value).shape
            if shape is not None and len(shape) == 1:
                return value.args[0].value, value
        return value, None

    def _count(self, update: _Update, name: str) -> str:
        mask = value_of(update.call, "atomic_add", "mask")
        given = f", mask={code(mask)}" if mask is not None else ""
        assert update.index is not None
        return f"{name} += {self.text.tl}.histogram({code(update.index)}, {self.bins(update)[1]}{given})"

    def _count_behind(self, update: _Update, name: str) -> cst.BaseStatement:
        tl, (known, power) = self.text.tl, self.bins(update)
        lanes = f"{tl}.arange(0, {power})"
        others = [
            f", {code(a.with_changes(comma=cst.MaybeSentinel.DEFAULT))}"
            for p in ("sem", "scope")
            if (a := argument(update.call, "atomic_add", p)) is not None and a.keyword is not None
        ]
        words = f"{tl}.atomic_add({update.pointer} + {lanes}, {name}, mask={lanes} < {known}{''.join(others)})"
        return self._kept(update, words)

    def _behind(self, update: _Update, name: str, reduced: cst.Call | None, varies: bool) -> cst.BaseStatement:
        """Return the atomic that adds what a program has summed up."""
        value = argument(update.call, "atomic_add", "val")
        assert value is not None
        new: cst.BaseExpression = cst.Name(name)
        if reduced is not None:
            args = [reduced.args[0].with_changes(value=new), *reduced.args[1:]]
            new = reduced.with_changes(args=args)
        mask = argument(update.call, "atomic_add", "mask") if varies else None
        kept = [a.with_changes(value=new) if a is value else a for a in update.call.args if a is not mask]
        kept[-1] = kept[-1].with_changes(comma=update.call.args[-1].comma)
        return self._kept(update, code(update.call.with_changes(args=kept)))

    def _kept(self, update: _Update, words: str) -> cst.BaseStatement:
        line = line_of(_unbroken(words))
        comments = [x for x in update.line.leading_lines if x.comment]
        return line.with_changes(leading_lines=comments, trailing_whitespace=update.line.trailing_whitespace)


def _unbroken(words: str) -> str:
    """Return an expression that was spread over lines as one line; long ones are spread again later."""
    return " ".join(words.split()) if "#" not in words and "\n" in words else words
