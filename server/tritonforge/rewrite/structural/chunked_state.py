"""A matrix that every step adds an outer product to, in chunks of steps: the products of a chunk are dots.

Linear attention and its like keep `S = γ S + k vᵀ` and read `o = qᵀ S` at every step. For a chunk of steps with the
state S before it, and with γ multiplied up to Γ,

    o_t = Γ_t qₜᵀ S + Σ_{s ≤ t} (Γ_t / Γ_s) (qₜ · k_s) v_s,   S' = Γ_end S + Σ_s (Γ_end / Γ_s) k_s v_sᵀ

(Katharopoulos et al., "Transformers are RNNs", 2020; with decay Sun et al., "Retentive Network", 2023): two products of
the chunk with itself and two with the state, in place of a pass over the state for each step. `input_precision="ieee"`
keeps fp32 as exact as it was. Quotients of Γ are exponentials of sums of logarithms, one sum for each pair of steps
(Dao and Gu, "Transformers are SSMs", 2024). A chunk with a result that is not finite (a γ below 0 has no logarithm, and
an infinity is not masked by a product with zero) is done step by step as before.

Preconditions: a loop `for t in range(T)` in the kernel's body that carries one state of fp32 with two axes of at least
16 elements, which the one update `S = γ S + k[:, None] * v[None, :]` sets and one `tl.sum(S * q[:, None], axis=0)` (or
the same along the other axis) reads; γ is one number a step, or 1; q, k and v do not depend on the state; everything
else is elementwise, and what is stored lies at addresses that differ with `t`, each pointer once, and is not loaded in
the loop; nothing but the state is read behind it. Read before the update, the state has no decay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import ELEMENTWISE, argument, integer, name_of, value_of
from tritonforge.rewrite.structural.chunks import Chunks, check_behind, check_lines, check_start
from tritonforge.rewrite.structural.flow import Flow, Shape, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced_in
from tritonforge.rewrite.structural.loops import Span, bare, names_in, reads, sets, spans_of
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.stepping import bracketed, check_stores, parsed, update_at

_CHUNKS = (32, 16, 64)
_LEAST_STEPS = 64
_LEAST_EXTENT = 16
_MOST_OF_STATE = 1 << 13
_MOST_OF_CHUNK = 1 << 13
_PLAIN = frozenset({"load", "store", "cast", "sigmoid", "multiple_of", "max_contiguous", "arange", "zeros", "full"})
_AXES = ("[:,None]", "[None,:]")


@dataclass(frozen=True)
class _Memory:
    """The loop and its state: the update at `place` of its body, the sum that reads it at `read_at`.

    `operands` are the factors of the outer product along the state's two axes; `query` is what the state is multiplied
    with along `axis`, which `reading` sums over.
    """

    span: Span
    state: str
    shape: Shape
    place: int
    statements: int
    factor: cst.BaseExpression | None
    operands: tuple[cst.BaseExpression, cst.BaseExpression]
    read_at: int
    reading: cst.Call
    axis: int
    query: cst.BaseExpression

    @property
    def reads_first(self) -> bool:
        """Whether a step reads the state as the step before left it."""
        return self.read_at < self.place


class ChunkedState:
    """Outer products of a chunk of steps as dots."""

    name = "chunked-state"
    treats = frozenset({"TF207", "TF208", "TF206", "TF201"})
    classes: frozenset[BottleneckClass] = frozenset({"latency", "scalar-loop", "no-tensor-core", "grid-too-small"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield chunks of 32, 16 and 64 steps that fit the registers."""
        flow = flow_of(text.function, text.kernel, text.tl)
        found = _memory(text, flow)
        _check(text, flow, found)
        host = Host(text)
        steps = text.size(found.span.stop)
        if steps is not None and steps < _LEAST_STEPS:
            raise Refused(f"{steps} steps are too few for chunks")
        sizes = [text.size(extent) for extent in found.shape]
        known = [size for size in sizes if size is not None]
        if len(known) != len(sizes):
            raise Refused(f"how large the state {found.state} is cannot be told")
        if min(known) < _LEAST_EXTENT:
            raise Refused(f"a state of {known[0]}x{known[1]} is below the 16 that a dot takes")
        chunks = [c for c in _CHUNKS if c * max(known) <= _MOST_OF_CHUNK]
        if known[0] * known[1] > _MOST_OF_STATE or not chunks:
            raise Refused(f"a state of {known[0]}x{known[1]} leaves no room for chunks of steps")
        plan = _Plan(text, flow, found)
        chunk = plan.chunk
        function = with_parameter(plan.function(), chunk, constexpr=f"{text.tl}.constexpr", least=host.most_positional)
        for size in chunks:
            yield Change(
                f"outer products of {size} steps as dots",
                (*text.edits(function), *host.keywords([[(chunk, str(size))] for _ in host.nodes])),
                ((chunk, str(size)),),
                {chunk: size},
            )


def _memory(text: KernelText, flow: Flow) -> _Memory:
    for span in spans_of(text):
        lines = list(span.node.body.body)
        meets = {n: v for n, v in flow.meets.get(id(span.node), {}).items() if n != span.variable}
        if span.step != "1" or len(meets) != 1:
            continue
        ((state, (before, _)),) = meets.items()
        shape = before.shape
        if shape is None or len(shape) != len(_AXES):
            continue
        for place, line in enumerate(lines):
            update = update_at(lines, place, state) if isinstance(line, cst.SimpleStatementLine) else None
            if update is None:
                continue
            statements, factor, term = update
            operands = _outer(term)
            if operands is None:
                raise Refused(f"what a step adds to {state} is no outer product of two vectors")
            others = [n for n in range(len(lines)) if not place <= n < place + statements and reads(lines[n], state)]
            found = [_reading(text, lines[n], state) for n in others]
            if len(others) != 1 or found[0] is None:
                raise Refused(f"a step reads {state} otherwise than in one sum of its products with a vector")
            reading, axis, query = found[0]
            return _Memory(span, state, shape, place, statements, factor, operands, others[0], reading, axis, query)
    raise Absent("no loop adds an outer product to a state at every step")


def _along(node: cst.BaseExpression) -> tuple[int, cst.BaseExpression] | None:
    """Return the axis that `x[:, None]` or `x[None, :]` lies along, and x."""
    if not isinstance(node, cst.Subscript):
        return None
    words = bare(code(node))
    at = next((axis for axis, end in enumerate(_AXES) if words.endswith(end)), None)
    return None if at is None else (at, node.value)


def _outer(term: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    if not isinstance(term, cst.BinaryOperation) or not isinstance(term.operator, cst.Multiply):
        return None
    sides = [_along(side) for side in (term.left, term.right)]
    found = {one[0]: one[1] for one in sides if one is not None}
    return (found[0], found[1]) if len(found) == len(_AXES) else None


def _reading(text: KernelText, line: cst.CSTNode, state: str) -> tuple[cst.Call, int, cst.BaseExpression] | None:
    """Return the sum over the products of the state, its axis, and what the state is multiplied with."""
    calls = [n for n in nodes_of(line) if isinstance(n, cst.Call) and name_of(n, text.tl) == "sum"]
    within = [c for c in calls if reads(c, state)]
    if len(within) != 1 or argument(within[0], "sum", "keep_dims") is not None:
        return None
    (call,) = within
    if sum(isinstance(n, cst.Name) and n.value == state for n in nodes_of(line)) != 1:
        return None
    product, axis = call.args[0].value, integer(value_of(call, "sum", "axis"))
    if not isinstance(product, cst.BinaryOperation) or not isinstance(product.operator, cst.Multiply):
        return None
    for own, other in ((product.left, product.right), (product.right, product.left)):
        along = _along(other)
        if code(own) == state and along is not None and along[0] == axis:
            return call, along[0], along[1]
    return None


def _check(text: KernelText, flow: Flow, found: _Memory) -> None:
    """Check that steps differ in the time alone.

    Raises:
        Refused: they do something that a chunk of steps cannot do at once.
    """
    span, state = found.span, found.state
    lines = check_lines(span, state, found.statements)
    check_start(text, flow, span, state)
    if found.factor is not None and flow.of(found.factor).shape != ():
        raise Refused(f"elements of {state} decay differently")
    if found.reads_first:
        if found.factor is not None:
            raise Refused(f"a step reads {state} before it decays")
        between = set[str]().union(*(sets(line) for line in lines[found.read_at : found.place]))
        if between & set[str]().union(*(names_in(one) for one in found.operands)):
            raise Refused(f"what a step adds to {state} is made after that is read")
    for operand in (*found.operands, found.query):
        value = flow.of(operand)
        if span.variable not in value.steps or value.shape is None or len(value.shape) != 1:
            raise Refused(f"{code(operand)} is no vector of every step")
    check_stores(text, flow, span)
    updates = range(found.place, found.place + found.statements)
    for number, line in enumerate(lines):
        if number not in updates:
            _check_elementwise(text, flow, found, line)
    check_behind(text, span, state)


def _check_elementwise(text: KernelText, flow: Flow, found: _Memory, line: cst.CSTNode) -> None:
    own = {id(n) for n in (found.reading, *nodes_of(found.reading))}
    shapes: set[Shape | None] = {(), (found.shape[0],), (found.shape[1],)}
    for node in nodes_of(line):
        if id(node) in own:
            continue
        if isinstance(node, cst.IfExp | cst.BooleanOperation):
            raise Refused(f"a step decides something: {code(node)}")
        if isinstance(node, cst.Subscript) and found.span.variable in flow.of(node).steps:
            raise Refused(f"{code(node)} has axes of its own")
        if isinstance(node, cst.Call):
            method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "to"
            if name_of(node, text.tl) not in _PLAIN | ELEMENTWISE and not method:
                raise Refused(f"a step does more than elementwise arithmetic: {code(node.func)}")
            if method and code(node.func.value) == found.span.variable:  # type: ignore[attr-defined]
                raise Refused(f"the step {found.span.variable} is cast")
        value = flow.values.get(id(node))
        if value is not None and found.span.variable in value.steps and value.shape not in shapes:
            raise Refused(f"{code(node)} has another shape than the state's axes")


class _Plan(Chunks):
    """The kernel in chunks."""

    def __init__(self, text: KernelText, flow: Flow, found: _Memory) -> None:
        super().__init__(text, flow, found.span, found.state)
        self.found, fresh = found, self.fresh
        self.read = fresh("read", "read_out", f"{found.state}_read")
        self.added = fresh(*_rows_of(found.operands[found.axis]), "added", "added_rows")
        self.kept = fresh(*_rows_of(found.operands[1 - found.axis]), "kept", "kept_rows")
        self.asked = fresh(*_rows_of(found.query), "asked", "asked_rows")
        self.weights = fresh("weights", "scores", "pairs_of_steps")
        if found.factor is not None:
            # Logarithms of a step's decay; of what is left of the chunk's start, of an earlier step, and in the end.
            self.logs = fresh("log_decay", "log_of_decay")
            self.left = fresh("log_left", "log_left_of_start")
            self.between = fresh("log_between", "log_between_steps")
        self.next = fresh(f"next_{found.state}", f"{found.state}_next")
        self.name_rest(sorted(sets(found.span.node.body) - {found.state}))

    def function(self) -> cst.FunctionDef:
        """Return the kernel with a loop over chunks."""
        found = self.found
        lines = list(found.span.node.body.body)
        updates = range(found.place, found.place + found.statements)
        rest = [n for n in range(len(lines)) if n not in updates]
        return self.kernel(
            [self.wide(lines[n]) for n in rest if n < found.read_at],
            (self._products(), lines[found.place]),
            [*(self.wide(lines[n]) for n in rest if n >= found.read_at), *parsed([f"{found.state} = {self.next}"])],
            tame=f"{self.odd} == 0",
            why="what is not finite goes step by step",
            column="[:, None]",
        )

    def _products(self) -> list[str]:
        """Return the statements that compute what a chunk reads, and the state behind it."""
        tl, found, state = self.text.tl, self.found, self.found.state
        axis = found.axis
        exact = 'input_precision="ieee"'
        # Steps beyond the last one add nothing.
        added = f"{tl}.where({self.inside}, {self.words(found.operands[axis])}, 0.0)"
        out = [
            f"{self.added} = {added}.to({tl}.float32)",
            f"{self.kept} = {tl}.where({self.inside}, {self.words(found.operands[1 - axis])}, 0.0).to({tl}.float32)",
            f"{self.asked} = {_cast(self.words(found.query), tl)}",
            f"{self.weights} = {tl}.dot({self.asked}, {tl}.trans({self.added}), {exact})",
        ]
        own = state if axis == 0 else f"{tl}.trans({state})"
        first = f"{tl}.dot({self.asked}, {own}, {exact})"
        sees = f"{self.step} {'>' if found.reads_first else '>='} {tl}.trans({self.step})"
        weights, decayed, rest = self.weights, state, ""
        if found.factor is not None:
            last = f"{self.step} == {self.chunk} - 1"
            weights = f"{self.weights} * {tl}.exp({self.between})"
            first = f"{first} * {tl}.exp({self.left})"
            # Each a sum of its own steps: differences of one running sum would lose digits behind a strong decay.
            rest = f"{tl}.sum({tl}.where({last}, {self.between}, 0.0), axis=0)[:, None]"
            decayed = f"{state} * {tl}.exp({tl}.sum({self.logs}))"
            logs = f"{tl}.where({self.inside}, {self._logarithm(found.factor)}, 0.0).to({tl}.float32)"
            behind = f"{self.step} > {tl}.trans({self.step})"
            out += [
                f"{self.logs} = {logs}",
                f"{self.left} = {tl}.cumsum({self.logs}, axis=0)",
                f"{self.between} = {tl}.cumsum({tl}.where({behind}, {self.logs}, 0.0), axis=0)",
            ]
        out.append(f"{self.weights} = {tl}.where({sees}, {weights}, 0.0)")
        out.append(f"{self.read} = {first}")
        out.append(f"{self.read} += {tl}.dot({self.weights}, {self.kept}, {exact})")
        if found.factor is not None:
            out.append(f"{self.added} *= {tl}.exp({rest})")
        sides = (self.added, self.kept) if axis == 0 else (self.kept, self.added)
        out.append(f"{self.next} = {decayed}")
        out.append(f"{self.next} += {tl}.dot({tl}.trans({sides[0]}), {sides[1]}, {exact})")
        for sign, name in (("", self.read), ("+", self.next)):
            out.append(f'{self.odd} {sign}= {tl}.sum({tl}.where({tl}.abs({name}) < float("inf"), 0, 1))')
        return out

    def _logarithm(self, factor: cst.BaseExpression) -> str:
        if isinstance(factor, cst.Call) and name_of(factor, self.text.tl) == "exp":
            return self.words(factor.args[0].value)
        return f"{self.text.tl}.log({_cast(self.words(factor), self.text.tl)})"

    def masked(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return a part of a step as one of a chunk, in which what is read of the state is there already."""
        within = [n for n in nodes_of(node) if n is self.found.reading]
        made: list[tuple[cst.CSTNode, Replacement]] = [(n, cst.Name(self.read)) for n in within]
        return super().masked(replaced_in(node, made) if made else node)


def _rows_of(node: cst.BaseExpression) -> tuple[str, ...]:
    return (f"{node.value}_rows",) if isinstance(node, cst.Name) else ()


def _cast(words: str, tl: str) -> str:
    return f"{bracketed(words)}.to({tl}.float32)"
