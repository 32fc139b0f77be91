"""A loop over steps of time as one over chunks of steps, beside which what is not finite goes step by step."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.flow import Flow
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, nodes_of
from tritonforge.rewrite.structural.loops import Span, put, read_first, sets
from tritonforge.rewrite.structural.stepping import Masked, bracketed, is_single, parsed


class Chunks:
    """What chunks of the steps of `span`, which carries `state`, are made of.

    `all` has a chunk's variable for each that a step sets, `odd` is whether a chunk has to go step by step; `name_rest`
    names both, when whatever else a chunk needs has its name.
    """

    odd: str
    all: dict[str, str]

    def __init__(self, text: KernelText, flow: Flow, span: Span, state: str) -> None:
        self.text, self.flow, self.span, self.state = text, flow, span, state
        self.fresh = Names(text)
        self.chunk = self.fresh("CHUNK", "BLOCK_T", "CHUNK_T")
        self.step = self.fresh("step", "lane", "step_in_chunk")
        self.start = self.fresh("start", "first", f"first_{span.variable}")
        self.inside = self.fresh("inside", "in_time", "in_steps")

    def name_rest(self, names_set: Sequence[str]) -> None:
        """Name what is left: a chunk's variables, for those of a step, and for the step itself."""
        self.odd = self.fresh("odd", "not_tame", "serially")
        every = [*names_set, self.span.variable]
        self.all = {name: self.fresh(f"{name}_all", f"all_{name}", f"{name}_of_chunk") for name in every}

    def kernel(
        self,
        before: Sequence[cst.BaseStatement],
        made: tuple[Sequence[str], cst.CSTNode],
        after: Sequence[cst.BaseStatement],
        *,
        tame: str,
        why: str,
        column: str,
        then: Sequence[str] = (),
    ) -> cst.FunctionDef:
        """Return the kernel with a loop over chunks.

        Args:
            before: what a chunk does first.
            made: what stands in place of a step's update, and that update, whose comments it takes over.
            after: what a chunk does whose numbers are `tame`.
            tame: the condition for that; what is not goes step by step.
            why: says so in a comment.
            column: `[:, None]` where steps are a column beside an axis of the state.
            then: what comes behind `made`.
        """
        tl, span = self.text.tl, self.span
        words, update = made
        assert isinstance(update, cst.SimpleStatementLine)
        statements = parsed(words)
        statements[0] = statements[0].with_changes(leading_lines=update.leading_lines)
        statements[-1] = statements[-1].with_changes(trailing_whitespace=update.trailing_whitespace)
        choice = cst.parse_statement(f"if {tame}:\n    pass\nelse:\n    pass\n")
        assert isinstance(choice, cst.If)
        assert isinstance(choice.orelse, cst.Else)
        stop = bracketed(span.stop)
        end = f"{tl}.minimum({self.start} + {self.chunk}, {stop})"
        serial = span.node.with_changes(
            iter=cst.parse_expression(f"range({self.start}, {end})"),
            leading_lines=[cst.EmptyLine(comment=cst.Comment(f"# {why}"))],
        )
        choice = choice.with_changes(
            body=choice.body.with_changes(body=list(after)),
            orelse=choice.orelse.with_changes(body=choice.orelse.body.with_changes(body=[serial])),
        )
        times = self.all[span.variable]
        head = parsed([f"{times} = {self.start} + {self.step}", f"{self.inside} = {times} < {stop}"])
        options = "".join(f", {o}" for o in span.options)
        loop = span.node.with_changes(
            target=cst.Name(self.start),
            iter=cst.parse_expression(f"{span.function}(0, {span.stop}, {self.chunk}{options})"),
            body=span.node.body.with_changes(body=[*head, *before, *statements, *parsed(then), choice]),
        )
        new = list(self.text.function.body.body)
        new[span.place : span.place + 1] = [*parsed([f"{self.step} = {tl}.arange(0, {self.chunk}){column}"]), loop]
        return self.text.with_body(new)

    def wide(self, line: cst.CSTNode) -> cst.BaseStatement:
        """Return a statement of a step as one of a chunk: variables of its own, accesses with a mask for the time."""
        made = self.masked(line)
        assert isinstance(made, cst.BaseStatement)
        return made

    def words(self, node: cst.BaseExpression) -> str:
        """Return an expression of a step as one of a chunk, as text."""
        return code(self.masked(node.with_changes(lpar=(), rpar=())))

    def masked(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return a part of a step as one of a chunk."""
        varying = {self.span.variable, self.state}
        for one in nodes_of(self.span.node.body):
            if isinstance(one, cst.Assign) and self.span.variable in self.flow.of(one.value).steps:
                varying |= sets(one)
        made = node.visit(Masked(self.text.tl, self.inside, varying))
        assert isinstance(made, cst.CSTNode)
        return put(made, {name: cst.Name(new) for name, new in self.all.items()})


def check_lines(span: Span, state: str, statements: int) -> list[cst.CSTNode]:
    """Return the statements of a step, of which so many set the state.

    Raises:
        Refused: a step is more than a row of statements, or sets the state elsewhere, too.
    """
    lines = list(span.node.body.body)
    if any(not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 for line in lines):
        raise Refused("the loop over steps branches or has a loop in it")
    if len([line for line in lines if state in sets(line)]) != statements:
        raise Refused(f"{state} is set several times in a step")
    return lines


def check_start(text: KernelText, flow: Flow, span: Span, state: str) -> None:
    """Check that the state begins in fp32.

    Raises:
        Refused: it is not known to.
    """
    starts = [flow.statements[d] for d in flow.meets[id(span.node)][state][0].definitions]
    if len(starts) != 1 or not all(isinstance(s, cst.Assign) and is_single(text, s.value) for s in starts):
        raise Refused(f"{state} is not known to begin in fp32")


def check_behind(text: KernelText, span: Span, state: str) -> None:
    """Check that nothing of the last step but the state is read behind the loop.

    Raises:
        Refused: something is.
    """
    inside = sets(span.node.body) - {state}
    late = read_first(text.function.body.body[span.place + 1 :], inside | {span.variable})
    if late:
        raise Refused(f"{min(late)} of the last step is read behind the loop")
