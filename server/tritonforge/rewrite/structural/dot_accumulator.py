"""`acc += tl.dot(a, b)` as `acc = tl.dot(a, b, acc)`: the sum stays in the matrix unit's accumulator.

Triton's own passes do the same for most kernels, so it is tried where operands' layouts are the trouble.

Preconditions: the dot has no accumulator and no `out_dtype` of its own, and what it is added to is computed in fp32 or
int32 from zeros on, so that adding in the unit is the same addition.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, name_of, value_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of, replaced


class DotAccumulator:
    """Sums of dots in the dots."""

    name = "dot-accumulator"
    treats = frozenset({"TF110", "TF201", "TF202"})
    classes: frozenset[BottleneckClass] = frozenset({"shared-memory", "no-tensor-core"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        made: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        for node in nodes_of(text.function):
            if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign):
                added = _dot(node.value, text.tl)
                if added is not None and isinstance(node.target, cst.Name):
                    _check(text, node.target.value, added)
                    target = cst.AssignTarget(node.target)
                    made.append((node, cst.Assign([target], _into(added, node.target))))
            elif isinstance(node, cst.Assign) and isinstance(node.value, cst.BinaryOperation):
                target_name = node.targets[0].target
                value = node.value
                if not isinstance(value.operator, cst.Add) or not isinstance(target_name, cst.Name):
                    continue
                sides = (value.left, value.right)
                dots = [_dot(side, text.tl) for side in sides]
                if dots.count(None) != 1:
                    continue
                place = 0 if dots[0] is not None else 1
                dot, rest = dots[place], sides[1 - place]
                assert dot is not None
                if not any(isinstance(n, cst.Name) and n.value == target_name.value for n in (rest, *nodes_of(rest))):
                    continue
                _check(text, target_name.value, dot)
                made.append((node, node.with_changes(value=_into(dot, rest))))
        if not made:
            raise Absent("no dot is added to what was summed up before")
        yield Change("sums kept in the accumulator of the dot", text.edits(replaced(text.function, made)))


def _dot(node: cst.BaseExpression, tl: str) -> cst.Call | None:
    """Return the dot that `node` is, if it has no accumulator yet."""
    if not isinstance(node, cst.Call) or name_of(node, tl) != "dot":
        return None
    if argument(node, "dot", "acc") is not None or argument(node, "dot", "out_dtype") is not None:
        return None
    return node if sum(a.keyword is None and not a.star for a in node.args) == 2 else None


def _into(dot: cst.Call, accumulator: cst.BaseExpression) -> cst.Call:
    """Return the dot with a third argument behind its operands."""
    first, second, *rest = dot.args
    bare = accumulator.with_changes(lpar=(), rpar=()) if hasattr(accumulator, "lpar") else accumulator
    between = first.comma
    third = cst.Arg(bare, comma=second.comma, whitespace_after_arg=second.whitespace_after_arg)
    second = second.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace(""))
    return dot.with_changes(args=[first, second, third, *rest], lpar=(), rpar=())


def _check(text: KernelText, name: str, dot: cst.Call) -> None:
    for node in nodes_of(text.function):
        if not isinstance(node, cst.Assign) or code(node.targets[0].target) != name:
            continue
        if any(n is dot for n in nodes_of(node)):
            continue
        dtype = value_of(node.value, "zeros", "dtype") if isinstance(node.value, cst.Call) else None
        scaled = isinstance(node.value, cst.BinaryOperation) and any(
            isinstance(n, cst.Name) and n.value == name for n in nodes_of(node.value)
        )
        if scaled:
            continue
        if name_of(node.value, text.tl) != "zeros" or dtype is None:
            raise Refused(f"what the dot is added to, {name}, does not begin as zeros")
        if code(dtype) not in {f"{text.tl}.float32", f"{text.tl}.int32"}:
            raise Refused(f"what the dot is added to, {name}, is in {code(dtype)}")
