"""A long loop of few programs split over more of them: split-K, split reductions, attention split along its keys.

The kernel is launched twice. Programs of one more axis go through a part of the rounds each and store what they come
to, in fp32, to a workspace of their own; then as many programs as before put the parts together, in order, and go on
behind the loop as the kernel does. So the result does not depend on which program is first. Of a block that is reduced
behind the loop parts store the sum alone (`reduced_parts`). Where every program adds its result to memory with an
atomic already, in no fixed order, parts do just that and there is no second launch.

Preconditions: one loop from 0 in the kernel's body, which stores nothing and carries sums, maxima, minima or a running
softmax (see `carried`), all begun at their neutral element; pointers that move on by the same step in every round; a
launch that stands alone as a statement, with at most two axes of programs, whose tiles and grid are known where the
workspace is allocated; few programs with many rounds each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.source import Edit
from tritonforge.prediction.gpus import gpu_for
from tritonforge.rewrite.rules.keyword_arguments import insert_keywords
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of, value_of
from tritonforge.rewrite.structural.carried import Carried, Carrying, carried_by
from tritonforge.rewrite.structural.flow import Flow, Shape, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, line_of, nodes_of
from tritonforge.rewrite.structural.loops import Span, sets, spans_of
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.reduced_parts import Stored, second_stage, stored
from tritonforge.rewrite.structural.workspace import Workspace, new_axis, stages

_LOWEST = "-3.4028234663852886e38"
_MOST_BYTES = 1 << 28
_FULL = 4
"""Programs for each multiprocessor beyond which the loop is not split."""
_LEAST_ROUNDS = 4
_LONG = 100
"""Columns of a statement that stands in a loop in a branch, beyond which it is made two."""
_SMALL_PART = 2048
"""Elements of a part with which the loop over parts is written out."""
_ALONE = frozenset({"sum", "max", "min"})


class SplitLoop:
    """Parts of a loop in programs of their own."""

    name = "split-loop"
    treats = frozenset({"TF302", "TF303", "TF301"})
    classes: frozenset[BottleneckClass] = frozenset({"grid-too-small", "latency", "low-occupancy"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield two or three numbers of parts, those first that come near two programs for each multiprocessor."""
        span = _span(text)
        counts = _counts(text, span)
        flow = flow_of(text.function, text.kernel, text.tl)
        _check(text, span)
        carrying = carried_by(text, flow, span)
        host = Host(text)
        if len(host.nodes) != 1:
            raise Refused("the kernel is launched in several places")
        axis = new_axis(text, host)
        split = text.fresh("SPLIT_K" if _has_dot(text, span) else "SPLIT", "PARTS", "NUM_PARTS")
        if _adds_already(text, flow, span, carrying):
            yield from _atomic(text, host, _Plan(text, span, carrying, axis, split, ""), counts)
            return
        flag = text.fresh("IN_PARTS", "FIRST_STAGE")
        plan = _Plan(text, span, carrying, axis, split, flag)
        results = [one.result for one in plan.stored]
        workspace = Workspace(text, host, axis, plan.pointers(), [r.shape for r in results])
        function = plan.function()
        least = host.most_positional
        for pointer in plan.pointers():
            function = with_parameter(function, pointer, least=least)
        constexpr = f"{text.tl}.constexpr"
        function = with_parameter(function, split, constexpr=constexpr, least=least + len(plan.pointers()))
        function = with_parameter(function, flag, constexpr=constexpr, least=least + len(plan.pointers()) + 1)
        kernel_edits = text.edits(function)
        dtypes = [r.dtype for r in results]
        for count in counts:
            tiles = math.prod(text.launch.config.grid)
            elements = sum(math.prod(workspace.sizes(r.shape)) for r in results)
            if tiles * elements * 4 * count > _MOST_BYTES:
                raise Refused(f"{count} partial results take more memory than they are worth")
            grid = [*text.launch.config.grid]
            grid[axis] = count
            yield Change(
                f"the loop over {span.stop} in {count} parts",
                (*kernel_edits, *workspace.edits(split, count, flag, dtypes)),
                ((split, str(count)),),
                {split: count, flag: 1},
                (grid[0], grid[1], grid[2]),
            )


def _span(text: KernelText) -> Span:
    spans = spans_of(text)
    if len(spans) != 1:
        raise Absent("the kernel has no loop of its own, or several that follow each other")
    return spans[0]


def _counts(text: KernelText, span: Span) -> list[int]:
    programs = math.prod(text.launch.config.grid)
    spec = gpu_for(text.task.arch)
    units = spec.sms if spec else 100
    if programs >= _FULL * units:
        raise Absent(f"{programs} programs fill the device")
    stop = text.size(span.stop)
    step = text.size(span.step)
    if stop is None:
        bound = cst.parse_expression(span.stop)
        if name_of(bound, text.tl) == "cdiv" and isinstance(bound, cst.Call) and len(bound.args) == 2:
            whole, tile = (text.value(code(a.value)) for a in bound.args)
            stop = -(-whole // tile) if whole and tile else None
    if stop is None or not step:
        raise Refused(f"the recorded launch does not say how often the loop over {span.stop} goes round")
    rounds = -(-stop // step)
    fitting = [c for c in (2, 4, 8, 16, 32, 64) if rounds >= _LEAST_ROUNDS * c and programs * c <= 8 * units]
    if not fitting:
        raise Absent(f"{rounds} rounds of {programs} programs are no more than they should be")
    return sorted(fitting, key=lambda c: (abs(math.log2(programs * c / (2 * units))), c))[:3]


def _check(text: KernelText, span: Span) -> None:
    """Check that the rounds can be made by different programs.

    Raises:
        Refused: they cannot.
    """
    for node in nodes_of(span.node.body):
        called = name_of(node, text.tl) or ""
        if called.startswith("atomic_") or called == "store":
            raise Refused("the loop stores something")
        if isinstance(node, cst.Break | cst.Continue | cst.Return):
            raise Refused("the loop is left early")
    for statement in text.function.body.body:
        if statement is span.node:
            break
        for node in (statement, *nodes_of(statement)):
            called = name_of(node, text.tl) or ""
            if called.startswith("atomic_") or called == "store" or _is_helper_for_its_effect(text, node):
                raise Refused("something is stored before the loop")
            if isinstance(node, cst.Return):
                raise Refused("some programs end before the loop")
    for node in nodes_of(text.function):
        if isinstance(node, cst.Call) and name_of(node, text.tl) == "num_programs":
            raise Refused("the kernel asks for the number of its programs")


def _is_helper_for_its_effect(text: KernelText, node: cst.CSTNode) -> bool:
    """Tell whether a statement calls a helper and nothing becomes of the result."""
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and name_of(node.value, text.tl) is None


def _has_dot(text: KernelText, span: Span) -> bool:
    return any(name_of(n, text.tl) == "dot" for n in nodes_of(span.node))


def _adds_already(text: KernelText, flow: Flow, span: Span, carrying: Carrying) -> bool:
    """Tell whether programs add what the loop comes to with atomics, several of them to each place."""
    rest = text.function.body.body[span.place + 1 :]
    behind = [n for s in rest for n in nodes_of(s)]
    effects = [
        n for n in behind if isinstance(n, cst.Call) and (name_of(n, text.tl) or "").startswith(("store", "atomic_"))
    ]
    names = {r.name for r in carrying.results if r.kind == "sum"}
    if not effects or len(names) != len(carrying.results):
        return False
    # What is done to a sum before it is added would be done to every part of it.
    if any(names & sets(s) for s in rest) or any(_is_helper_for_its_effect(text, n) for n in behind):
        return False
    for call in effects:
        value = value_of(call, "atomic_add", "val") if name_of(call, text.tl) == "atomic_add" else None
        shared = [
            a for a, n in enumerate(text.launch.config.grid) if n > 1 and a not in flow.of(call.args[0].value).programs
        ]
        if value is None or code(value) not in names or not shared:
            return False
    return True


@dataclass(frozen=True)
class _Plan:
    """The kernel in two stages; `flag` is the constexpr that tells them apart, empty where one is enough."""

    text: KernelText
    span: Span
    carrying: Carrying
    axis: int
    split: str
    flag: str

    @cached_property
    def stored(self) -> list[Stored]:
        """The results as parts store them."""
        behind = self.text.function.body.body[self.span.place + 1 :]
        return [stored(self.text, result, behind) for result in self.carrying.results]

    def names(self) -> dict[str, str]:
        """Return the names of what is new in the kernel."""
        fresh = Names(self.text)
        roles = {
            "part": ("part", "split", "part_id"),
            "tile": ("tile", "program", "tile_id"),
            "slot": ("slot", "place", "slot_id"),
            "rounds": ("rounds", "rounds_here", "part_rounds"),
            "first": ("first", "begin", "part_start"),
            "highest": ("part_highest", "highest_of_part"),
            "new": ("larger", "new_highest_of_parts"),
            "own": ("scale_before", "factor_before"),
            "other": ("scale_part", "factor_part"),
        }
        return {role: fresh(*wishes) for role, wishes in roles.items()}

    def pointers(self) -> list[str]:
        """Return the names of the parameters for the workspace, one for each result."""
        pointers = [p.name for p in self.text.kernel.parameters if p.role == "pointer"]
        ending = "_ptr" if any(p.endswith("_ptr") for p in pointers) else ""
        if len(self.carrying.results) == 1:
            return [self.text.fresh(f"partial{ending}", f"parts{ending}")]
        return [self.text.fresh(f"{r.name}_parts{ending}", f"partial_{r.name}") for r in self.carrying.results]

    def bounds(self, names: dict[str, str]) -> tuple[list[str], cst.For]:
        """Return the statements in front of a part's rounds, and the loop over them."""
        tl, span = self.text.tl, self.span
        single = span.step == "1"
        stop = span.stop if span.stop.isidentifier() or "(" in span.stop else f"({span.stop})"
        rounds, first, part = names["rounds"], names["first"], names["part"]
        each = self.split if single else f"{_factor(span.step)} * {self.split}"
        lines = [f"{rounds} = {tl}.cdiv({stop}, {each})"]
        size = rounds if single else f"{rounds} * {_factor(span.step)}"
        lines.append(f"{first} = {part} * {size}")
        lines += [
            f"{advance.name} += ({part} * {rounds}).to({tl}.int64) * {_factor(advance.step)}"
            for advance in self.carrying.advances
            if advance.step
        ]
        arguments = [first, f"{tl}.minimum({first} + {size}, {stop})", *([] if single else [span.step]), *span.options]
        loop = span.node.with_changes(iter=cst.parse_expression(f"{span.function}({', '.join(arguments)})"))
        return lines, loop

    def function(self) -> cst.FunctionDef:
        """Return the kernel with both stages."""
        tl, names = self.text.tl, self.names()
        body = list(self.text.function.body.body)
        place = self.span.place
        ids = f"{tl}.program_id(0)" + ("" if self.axis == 1 else f" * {tl}.num_programs(1) + {tl}.program_id(1)")
        part, slot = names["part"], names["slot"]
        lines, loop = self.bounds(names)
        where = f"{slot} = ({names['tile']} * {self.split} + {part}).to({tl}.int64)"
        within = [f"{name} = {lanes}" for name, lanes in self.within().values()]
        starts = [
            f"{r.name} = {tl}.where({part} == 0, {r.name}, {_LOWEST})"
            for r in self.carrying.results
            if r.kind == "highest"
        ]
        stores = [f"{tl}.store({self.place(p, s.result, slot)}, {s.words})" for p, s in self.each()]
        first = [
            *_parsed([f"{part} = {tl}.program_id({self.axis})", *lines]),
            *_parsed(starts, "# -inf - -inf is for the very first round alone, as in one loop over all rounds"),
            loop.with_changes(leading_lines=[x for x in loop.leading_lines if x.comment]),
            *_parsed([where, *stores]),
        ]
        merge = cst.parse_statement(f"for {part} in {self.over_parts()}:\n    pass\n")
        assert isinstance(merge, cst.For)
        merging = merge.body.with_changes(body=_parsed([where, *self.merging(names)]))
        second = second_stage(tl, self.stored, merge.with_changes(body=merging), body[place + 1 :])
        choice = cst.parse_statement(f"if {self.flag}:\n    pass\nelse:\n    pass\n")
        assert isinstance(choice, cst.If)
        assert isinstance(choice.orelse, cst.Else)
        choice = choice.with_changes(
            body=choice.body.with_changes(body=first),
            orelse=choice.orelse.with_changes(body=choice.orelse.body.with_changes(body=second)),
        )
        body[place:] = [*_parsed([f"{names['tile']} = {ids}", *within]), choice]
        return self.text.with_body(body)

    def over_parts(self) -> str:
        """Return what the loop over parts goes over: written out, loads of small parts wait for memory together."""
        small = all(one.result.kind in _ALONE and self.is_small(one.result.shape) for one in self.stored)
        return f"{self.text.tl}.static_range({self.split})" if small else f"range({self.split})"

    def is_small(self, shape: Shape) -> bool:
        """Tell whether a part of a shape is a few elements for each thread."""
        sizes = [self.text.size(e) for e in shape]
        return math.prod(e if e is not None else _SMALL_PART + 1 for e in sizes) <= _SMALL_PART

    def split_alone(self) -> cst.FunctionDef:
        """Return the kernel with the loop split, and everything behind it as it was."""
        names = self.names()
        body = list(self.text.function.body.body)
        lines, loop = self.bounds(names)
        part = f"{names['part']} = {self.text.tl}.program_id({self.axis})"
        body[self.span.place : self.span.place + 1] = [*_parsed([part, *lines]), loop]
        return self.text.with_body(body)

    def each(self) -> Iterator[tuple[str, Stored]]:
        """Yield the results as they are stored, each with the parameter for its parts."""
        yield from zip(self.pointers(), self.stored, strict=True)

    def place(self, pointer: str, result: Carried, slot: str) -> str:
        """Return the address of a result's part."""
        tl, shape = self.text.tl, result.shape
        if not shape:
            return f"{pointer} + {slot}"
        if len(shape) == 1:
            return f"{pointer} + {slot} * {shape[0]} + {tl}.arange(0, {shape[0]})"
        return f"{pointer} + {slot} * ({shape[0]} * {shape[1]}) + {self.within()[shape][0]}"

    def within(self) -> dict[Shape, tuple[str, str]]:
        """Return, for every shape of two axes, a name for where its elements lie in a part, and the expression."""
        tl, fresh = self.text.tl, Names(self.text, self.names().values())
        out: dict[Shape, tuple[str, str]] = {}
        for result in (one.result for one in self.stored):
            if len(result.shape) == 2 and result.shape not in out:
                rows, columns = result.shape
                lanes = f"{tl}.arange(0, {rows})[:, None] * {columns} + {tl}.arange(0, {columns})[None, :]"
                out[result.shape] = (fresh("within", "in_tile"), lanes)
        return out

    def merging(self, names: dict[str, str]) -> list[str]:
        """Return the statements that put one more part to the results."""
        tl, slot, exponential = self.text.tl, names["slot"], self.carrying.function
        lines: list[str] = []
        for pointer, one in self.each():
            result = one.result
            part = f"{tl}.load({self.place(pointer, result, slot)})"
            if result.kind == "sum":
                lines.append(f"{result.name} += {part}")
            elif result.kind in {"max", "min"}:
                lines.append(f"{result.name} = {tl}.{result.kind}imum({result.name}, {part})")
            elif result.kind == "highest":
                lines += [
                    f"{names['highest']} = {part}",
                    # No loop has gone round at all: then both are -inf, and their difference is no number.
                    f"{names['new']} = {tl}.maximum({tl}.maximum({result.name}, {names['highest']}), {_LOWEST})",
                    f"{names['own']} = {exponential}({result.name} - {names['new']})",
                    f"{names['other']} = {exponential}({names['highest']} - {names['new']})",
                    f"{result.name} = {names['new']}",
                ]
            else:
                own, other = names["own"] + result.suffix, names["other"] + result.suffix
                whole = f"{result.name} = {result.name} * {own} + {part} * {other}"
                parts = [f"{result.name} *= {own}", f"{result.name} += {part} * {other}"]
                lines += [whole] if len(whole) <= _LONG else parts
        return lines


def _factor(words: str) -> str:
    node = cst.parse_expression(words)
    return f"({words})" if isinstance(node, cst.BinaryOperation) and not node.lpar else words


def _parsed(lines: Sequence[str], comment: str = "") -> list[cst.BaseStatement]:
    out: list[cst.BaseStatement] = [line_of(x) for x in lines]
    if out and comment:
        out[0] = out[0].with_changes(leading_lines=[cst.EmptyLine(comment=cst.Comment(comment))])
    return out


def _atomic(text: KernelText, host: Host, plan: _Plan, counts: Sequence[int]) -> Iterator[Change]:
    """Yield the changes of a kernel that adds to its result with atomics already."""
    function = plan.split_alone()
    least = host.most_positional
    function = with_parameter(function, plan.split, constexpr=f"{text.tl}.constexpr", least=least)
    edits = text.edits(function)
    for count in counts:
        pairs = [(plan.split, str(count))]
        host_edits: list[Edit] = [
            *insert_keywords(text.source, host.nodes[0].call, pairs),
            *stages(text, host, str(count)),
        ]
        grid = [*text.launch.config.grid]
        grid[plan.axis] = count
        yield Change(
            f"the loop over {plan.span.stop} in {count} parts",
            (*edits, *host_edits),
            ((plan.split, str(count)),),
            {plan.split: count},
            (grid[0], grid[1], grid[2]),
        )
