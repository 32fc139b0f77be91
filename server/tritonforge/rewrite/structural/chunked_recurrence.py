"""A linear recurrence step by step as one in chunks: many steps are loaded at once, and a scan puts them together.

`h = a h + b` of consecutive steps is again of that form: first `a₁, b₁`, then `a₂, b₂` is `a₂ a₁, a₂ b₁ + b₂`
(Blelloch, "Prefix sums and their applications", 1990), which `tl.associative_scan` does for a chunk in a logarithm of
its steps. A running sum (`a = 1`) is a `tl.cumsum`. Products of many `a` may leave the range of fp32 where one step
after the other does not; so a chunk in which they could, or whose states are not finite, is done step by step as
before.

Time becomes a column `[CHUNK, 1]` in front of the channels, and Triton's broadcasting does the rest, so addresses and
arithmetic stay as they are written.

Preconditions: a loop `for t in range(T)` in the kernel's body that carries one state of fp32, of one element or of one
axis, with the one update `h = a h + b`; `a` and `b` do not depend on the state; everything else is elementwise, and
what is stored lies at addresses that differ with `t`, each pointer once, and is not loaded in the loop; nothing but the
state is read behind it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import ELEMENTWISE, name_of
from tritonforge.rewrite.structural.chunks import Chunks, check_behind, check_lines, check_start
from tritonforge.rewrite.structural.flow import Flow, Shape, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.helper import helper_edit
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of
from tritonforge.rewrite.structural.loops import Span, reads, sets, spans_of
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.stepping import check_stores, parsed, update_at

_MOST_ELEMENTS = 8192
_CHUNKS = (32, 16, 64, 8)
_LEAST_STEPS = 32
_PLAIN = frozenset({"load", "store", "cast", "sigmoid", "multiple_of", "max_contiguous"})


@dataclass(frozen=True)
class _Recurrence:
    """The loop; `state` becomes `factor · state + term` at `place` of its body (`factor` is None for a sum)."""

    span: Span
    state: str
    place: int
    statements: int
    factor: cst.BaseExpression | None
    term: cst.BaseExpression
    shape: Shape


class ChunkedRecurrence:
    """A scan over chunks of steps."""

    name = "chunked-recurrence"
    treats = frozenset({"TF207", "TF208", "TF206"})
    classes: frozenset[BottleneckClass] = frozenset({"latency", "scalar-loop", "grid-too-small"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield chunks of 32, 16, 64 and 8 steps that fit the registers."""
        if not text.own_triton:
            raise Absent("triton is not imported under a name of its own")
        flow = flow_of(text.function, text.kernel, text.tl)
        found = _recurrence(text, flow)
        _check(text, flow, found)
        host = Host(text)
        steps = text.size(found.span.stop)
        if steps is not None and steps < _LEAST_STEPS:
            raise Refused(f"{steps} steps are too few for chunks")
        width = 1
        for extent in found.shape:
            size = text.size(extent)
            if size is None:
                raise Refused(f"how wide the state {found.state} is cannot be told")
            width *= size
        chunks = [c for c in _CHUNKS if c * width <= _MOST_ELEMENTS]
        if not chunks:
            raise Refused(f"a state of {width} elements leaves no room for chunks of steps")
        plan = _Plan(text, flow, found)
        chunk = plan.chunk
        function = with_parameter(plan.function(), chunk, constexpr=f"{text.tl}.constexpr", least=host.most_positional)
        edits: tuple[Edit, ...] = (*text.edits(function), *plan.helper())
        for size in chunks:
            pairs = [[(chunk, str(size))] for _ in host.nodes]
            yield Change(
                f"the recurrence in chunks of {size} steps",
                (*edits, *host.keywords(pairs)),
                ((chunk, str(size)),),
                {chunk: size},
            )


def _recurrence(text: KernelText, flow: Flow) -> _Recurrence:
    for span in spans_of(text):
        lines = list(span.node.body.body)
        meets = {n: v for n, v in flow.meets.get(id(span.node), {}).items() if n != span.variable}
        if span.step != "1" or len(meets) != 1:
            continue
        ((state, (before, _)),) = meets.items()
        for place, line in enumerate(lines):
            update = update_at(lines, place, state) if isinstance(line, cst.SimpleStatementLine) else None
            if update is None:
                continue
            statements, factor, term = update
            shape = before.shape
            if shape is None or len(shape) > 1:
                raise Refused(f"the state {state} has more than one axis")
            stored = any(name_of(n, text.tl) == "store" for n in nodes_of(span.node.body))
            if factor is None and not stored:
                break  # A plain sum, which needs no scan.
            return _Recurrence(span, state, place, statements, factor, term, shape)
    raise Absent("no loop carries a linear recurrence from step to step")


def _check(text: KernelText, flow: Flow, found: _Recurrence) -> None:
    """Check that steps differ in the time alone.

    Raises:
        Refused: they do something that a chunk of steps cannot do at once.
    """
    span, state = found.span, found.state
    lines = check_lines(span, state, found.statements)
    for line in lines[: found.place]:
        if reads(line, state):
            raise Refused(f"a step does more with the {state} of the one before than one multiplication and one sum")
    check_start(text, flow, span, state)
    check_stores(text, flow, span)
    for line in lines:
        _check_elementwise(text, flow, found, line)
    check_behind(text, span, state)


def _check_elementwise(text: KernelText, flow: Flow, found: _Recurrence, line: cst.CSTNode) -> None:
    for node in nodes_of(line):
        if isinstance(node, cst.IfExp | cst.BooleanOperation):
            raise Refused(f"a step decides something: {code(node)}")
        if isinstance(node, cst.Subscript) and found.span.variable in flow.of(node).steps:
            raise Refused(f"{code(node)} has axes of its own")
        if isinstance(node, cst.Call):
            called = name_of(node, text.tl)
            method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "to"
            if called not in _PLAIN | ELEMENTWISE and not method and called not in {"arange", "zeros", "full"}:
                raise Refused(f"a step does more than elementwise arithmetic: {code(node.func)}")
        value = flow.values.get(id(node))
        if value is None or found.span.variable not in value.steps:
            continue
        if value.shape is None or value.shape not in {(), found.shape}:
            raise Refused(f"{code(node)} has another shape than the state")
    for node in nodes_of(line):
        if isinstance(node, cst.Attribute) and node.attr.value == "to" and code(node.value) == found.span.variable:
            raise Refused(f"the step {found.span.variable} is cast")


class _Plan(Chunks):
    """The kernel in chunks, and the function that puts two steps together."""

    def __init__(self, text: KernelText, flow: Flow, found: _Recurrence) -> None:
        super().__init__(text, flow, found.span, found.state)
        self.found = found
        self.factor = self.fresh("decay", "factor", f"{found.state}_factor")
        self.term = self.fresh("added", "term", f"{found.state}_term")
        # Steps one by one and steps of a chunk have variables of their own: those of one type keep it.
        self.name_rest(sorted(sets(found.span.node.body)))
        self.states = self.all[found.state]
        names: set[str] = {n.name for n in text.own_scopes.tree.body if isinstance(n, ast.FunctionDef)}
        self.combine = next(n for n in ("linear_steps", "two_linear_steps", "linear_steps_2") if n not in names)

    def helper(self) -> tuple[Edit, ...]:
        """Return the edit that writes the function in front of the kernel.

        Raises:
            Refused: the kernel is not at module level.
        """
        if self.found.factor is None:
            return ()
        lines = [
            f"def {self.combine}(first_decay, first_added, decay, added):",
            '    """Two steps `h = decay * h + added` as one."""',
            "    return decay * first_decay, decay * first_added + added",
        ]
        return (helper_edit(self.text, lines),)

    def function(self) -> cst.FunctionDef:
        """Return the kernel with a loop over chunks."""
        tl, found = self.text.tl, self.found
        lines = list(found.span.node.body.body)
        last = f"{found.state} = {tl}.sum({tl}.where({self.step} == {self.chunk} - 1, {self.states}, 0.0), axis=0)"
        return self.kernel(
            [self.wide(line) for line in lines[: found.place]],
            (self.scan(), lines[found.place]),
            [*(self.wide(line) for line in lines[found.place + found.statements :]), *parsed([last])],
            tame=f"{tl}.sum({self.odd}) == 0",
            why="what is not finite, or may not stay so, goes step by step",
            column="[:, None]" if found.shape else "",
            then=[f"{self.odd} = {tl}.where({self._tame()}, 0, 1)"],
        )

    def _tame(self) -> str:
        """Return the condition under which a scan does what one step after the other does, for each element."""
        tl = self.text.tl
        finite = f'{tl}.abs({self.states}) < float("inf")'
        if self.found.factor is None:
            return finite
        # 2¹²⁰ leaves room below the largest number of fp32, 2¹²⁸, and above the smallest normal one, 2⁻¹²⁶.
        return f"({finite}) & ({tl}.abs({tl}.log2({tl}.abs({self.factor}))) * {self.chunk} <= 120)"

    def scan(self) -> list[str]:
        """Return the statements that compute the states after every step of a chunk."""
        tl, found = self.text.tl, self.found
        shape = ", ".join([self.chunk, *found.shape])
        whole = f"({shape})" if found.shape else f"({shape},)"
        term = self.words(found.term)
        added = f"{self.term} = {tl}.where({self.inside}, {term}, 0.0).to({tl}.float32)"
        if self._narrow(found.term):
            added = f"{self.term} = {tl}.broadcast_to({added.partition(' = ')[2]}, {whole})"
        if found.factor is None:
            return [added, f"{self.states} = {tl}.cumsum({self.term}, axis=0) + {found.state}"]
        factor = self.words(found.factor)
        decay = f"{tl}.where({self.inside}, {factor}, 1.0).to({tl}.float32)"
        if self._narrow(found.factor):
            decay = f"{tl}.broadcast_to({decay}, {whole})"
        seeded = f"{self.factor} * {found.state} + {self.term}"
        return [
            f"{self.factor} = {decay}",
            added,
            f"{self.term} = {tl}.where({self.step} == 0, {seeded}, {self.term})",
            f"_, {self.states} = {tl}.associative_scan(({self.factor}, {self.term}), 0, {self.combine})",
        ]

    def _narrow(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression has fewer elements than the state."""
        return self.flow.of(node).shape != self.found.shape
