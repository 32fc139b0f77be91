"""A loop over steps of time, and what a chunk of steps needs to know of one: its update, its stores, its masks."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, name_of, with_mask, with_value
from tritonforge.rewrite.structural.flow import Flow
from tritonforge.rewrite.structural.kernel_text import KernelText, code, line_of, nodes_of
from tritonforge.rewrite.structural.loops import ROUND, Span, Spelled, bare, names_in, reads, sets


def update_at(
    lines: Sequence[cst.CSTNode], place: int, state: str
) -> tuple[int, cst.BaseExpression | None, cst.BaseExpression] | None:
    """Return how many statements an update takes, and its factor and term; None when there is none at `place`."""
    line = lines[place]
    assert isinstance(line, cst.SimpleStatementLine)
    small = line.body[0]
    if isinstance(small, cst.AugAssign) and code(small.target) == state and not reads(small.value, state):
        if isinstance(small.operator, cst.AddAssign):
            return 1, None, small.value
        following = lines[place + 1] if place + 1 < len(lines) else None
        after = following.body[0] if isinstance(following, cst.SimpleStatementLine) else None
        if not isinstance(small.operator, cst.MultiplyAssign) or not isinstance(after, cst.AugAssign):
            return None
        added = isinstance(after.operator, cst.AddAssign) and code(after.target) == state
        return (2, small.value, after.value) if added and not reads(after.value, state) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or code(small.targets[0].target) != state:
        return None
    value = small.value
    if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
        return None
    for own, other in ((value.left, value.right), (value.right, value.left)):
        if reads(other, state):
            continue
        if code(own) == state:
            return 1, None, other
        if isinstance(own, cst.BinaryOperation) and isinstance(own.operator, cst.Multiply):
            for this, factor in ((own.left, own.right), (own.right, own.left)):
                if code(this) == state and not reads(factor, state):
                    return 1, factor, other
    return None


def check_stores(text: KernelText, flow: Flow, span: Span) -> None:
    """Check that steps store to addresses of their own, which no step loads from.

    Raises:
        Refused: two may meet.
    """
    pointers = {p.name for p in text.kernel.parameters if p.role == "pointer"}
    touched: dict[str, list[tuple[str, str]]] = {"load": [], "store": []}
    spelled = Spelled(text.tl, span.variable)
    for line in span.node.body.body:
        for node in nodes_of(line):
            called = name_of(node, text.tl)
            if not isinstance(node, cst.Call) or called not in touched:
                continue
            address = spelled.expression(node.args[0].value)
            origins = origin(text, node.args[0].value) & pointers
            touched[called] += [(pointer, bare(code(address)).replace(pointer, "")) for pointer in origins]
            if called == "store" and span.variable not in flow.of(node.args[0].value).steps:
                raise Refused("every step stores to one address")
            if called == "store" and not _differs_by_step(text, address):
                raise Refused("several steps may store to one address")
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            spelled.take(small)
    stored = [pointer for pointer, _ in touched["store"]]
    for pointer, where in touched["store"]:
        if stored.count(pointer) > 1:
            raise Refused(f"a step stores to {pointer} twice")
        for loaded, other in touched["load"]:
            if loaded == pointer:
                raise Refused(f"steps load from {pointer}, which others store to")
            if where != other and text.share_memory(loaded, pointer):
                raise Refused(f"{loaded} and {pointer} are the same memory")


def _differs_by_step(text: KernelText, address: cst.BaseExpression) -> bool:
    """Tell whether a store's address is another one in every step: sums and products of the step, no more."""
    for node in (address, *nodes_of(address)):
        if ROUND not in names_in(node):
            continue
        if isinstance(node, cst.BinaryOperation):
            if not isinstance(node.operator, cst.Add | cst.Subtract | cst.Multiply):
                return False
        elif isinstance(node, cst.Call):
            method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "to"
            if not method and name_of(node, text.tl) not in {"cast", "multiple_of", "max_contiguous"}:
                return False
    return True


def origin(text: KernelText, address: cst.BaseExpression) -> set[str]:
    """Return the names that an address comes from, through variables."""
    names = names_in(address)
    for _ in range(4):
        for node in nodes_of(text.function):
            if isinstance(node, cst.Assign) and names & sets(node):
                names |= names_in(node.value)
    return names


def is_single(text: KernelText, value: cst.BaseExpression) -> bool:
    """Tell whether a state begins in fp32."""
    if isinstance(value, cst.Float):
        return True
    if isinstance(value, cst.Call) and name_of(value, text.tl) in {"zeros", "full"}:
        return code(value.args[-1].value) == f"{text.tl}.float32"
    to = isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "to"
    return to and isinstance(value, cst.Call) and code(value.args[0].value) == f"{text.tl}.float32"


def parsed(lines: Sequence[str]) -> list[cst.SimpleStatementLine]:
    """Return statements on lines of their own."""
    return [line_of(words) for words in lines]


class Masked(cst.CSTTransformer):
    """Masks accesses that depend on the time with the time."""

    def __init__(self, tl: str, inside: str, varying: set[str]) -> None:
        super().__init__()
        self.tl, self.inside, self.varying = tl, inside, varying

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Mask a load or store whose address is made of what varies."""
        name = name_of(original_node, self.tl)
        if name not in {"load", "store"} or not names_in(original_node.args[0].value) & self.varying:
            return updated_node
        masked = with_mask(updated_node, name, self.inside)
        if name == "load" and argument(masked, "load", "other") is None:
            masked = with_value(masked, None, "other", cst.Float("0.0"))
        return masked


def bracketed(words: str) -> str:
    """Return code in brackets where an operator beside it could take a part of it."""
    return words if words.isidentifier() or words.isdecimal() or words.endswith(")") else f"({words})"
