"""The body of a loop for many of its rounds at once: masks for rounds that there are not, and what they add then.

Lanes take the rounds, or the rows of a block do: what varies from round to round becomes a vector of rounds either way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from tritonforge.rewrite.structural.calls import argument, name_of, value_of, with_mask, with_value
from tritonforge.rewrite.structural.flow import Flow
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of

NEUTRAL = {"sum": "0.0", "max": 'float("-inf")', "min": 'float("inf")'}
"""What leaves a reduction alone, in single precision."""
_FUNCTION = {"maximum": "max", "minimum": "min"}


@dataclass
class Loop:
    """A loop over elements: its bounds as text, and variable → how it is put together (`sum`, `max`, `min`)."""

    node: cst.For
    variable: str
    start: str
    stop: str
    carried: dict[str, str] = field(default_factory=dict)


def targets(node: cst.Assign | cst.AugAssign) -> set[str]:
    """Return the variables that an assignment sets, as text."""
    return {code(t.target) for t in node.targets} if isinstance(node, cst.Assign) else {code(node.target)}


def step(node: cst.CSTNode, name: str, tl: str) -> tuple[str, cst.BaseExpression | None]:
    """Return how an assignment adds to a variable, and what: `sum` and `x` for `name += x`."""
    if isinstance(node, cst.AugAssign) and code(node.target) == name and isinstance(node.operator, cst.AddAssign):
        return "sum", node.value
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or code(node.targets[0].target) != name:
        return "", None
    value = node.value
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        for own, other in ((value.left, value.right), (value.right, value.left)):
            if code(own) == name:
                return "sum", other
    called = name_of(value, tl)
    if isinstance(value, cst.Call) and called in _FUNCTION and len(value.args) == 2:
        first, second = (a.value for a in value.args)
        for own, other in ((first, second), (second, first)):
            if code(own) == name:
                return _FUNCTION[called], other
    return "", None


class ToBlocks(cst.CSTTransformer):
    """The body of the loop, with masks, and neutral values where a lane has no element."""

    def __init__(self, text: KernelText, flow: Flow, loop: Loop, tile: str, mask: str) -> None:
        super().__init__()
        self.tl, self.flow, self.loop, self.tile, self.mask = text.tl, flow, loop, tile, mask
        # Loads that a sum takes are filled with zeros, so that products of them need nothing more.
        self.zeros: set[str] = set()
        for node in nodes_of(loop.node.body):
            if isinstance(node, cst.Assign | cst.AugAssign):
                zero = isinstance(node, cst.Assign) and self.is_zero(node.value)
                (self.zeros.update if zero else self.zeros.difference_update)(targets(node))

    def varies(self, node: cst.CSTNode) -> bool:
        """Tell whether an expression is another one in every round."""
        return self.loop.variable in self.flow.of(node).steps

    def is_zero(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression is zero in lanes without an element: loads are, and products with one."""
        called = name_of(node, self.tl)
        if isinstance(node, cst.Call) and called == "load":
            other = value_of(node, "load", "other")
            return self.varies(node.args[0].value) and (other is None or code(other) in {"0", "0.0"})
        if isinstance(node, cst.Call) and called in {"abs", "sqrt"}:
            return self.is_zero(node.args[0].value)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "to":
            return self.is_zero(node.func.value)
        if isinstance(node, cst.Name):
            return node.value in self.zeros
        if isinstance(node, cst.BinaryOperation):
            parts = (node.left, node.right)
            sides = [self.is_zero(part) for part in parts]
            if isinstance(node.operator, cst.Multiply):
                # Zero times infinity is not zero: the other factor must be a number or zero itself.
                return any(sides) and all(self.is_zero(p) or isinstance(p, cst.Integer | cst.Float) for p in parts)
            return isinstance(node.operator, cst.Add | cst.Subtract) and all(sides)
        return False

    def leave_AugAssign(self, original_node: cst.AugAssign, updated_node: cst.AugAssign) -> cst.AugAssign:
        """Let rounds that there are not leave a sum alone."""
        if code(original_node.target) in self.loop.carried:
            return updated_node.with_changes(value=self.neutral(original_node.value, updated_node.value, "sum"))
        return updated_node

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        """Let rounds that there are not leave a sum, a maximum or a minimum alone."""
        name = code(original_node.targets[0].target)
        kind, term = step(original_node, name, self.tl)
        if name not in self.loop.carried or term is None:
            return updated_node
        _, new = step(updated_node, name, self.tl)
        assert new is not None
        changed = updated_node.value.deep_replace(new, self.neutral(term, new, kind))
        assert isinstance(changed, cst.BaseExpression)
        return updated_node.with_changes(value=changed)

    def neutral(self, original: cst.BaseExpression, node: cst.BaseExpression, kind: str) -> cst.BaseExpression:
        """Return what is added, with a neutral value where there is no round."""
        if kind == "sum" and self.is_zero(original):
            return node
        bare = node.with_changes(lpar=(), rpar=())
        return cst.parse_expression(f"{self.tl}.where({self.mask}, {code(bare)}, {NEUTRAL[kind]})")

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Mask what is loaded and stored."""
        name = name_of(original_node, self.tl)
        if name is None or not original_node.args or not self.varies(original_node.args[0].value):
            return updated_node
        if name not in {"load", "store"} and not name.startswith("atomic_"):
            return updated_node
        masked = with_mask(updated_node, name, self.mask)
        if name == "load" and argument(masked, "load", "other") is None:
            masked = with_value(masked, None, "other", cst.Integer("0"))
        return masked
