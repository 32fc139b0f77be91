"""`acc += tl.dot(a, b)` as `acc = tl.dot(a, b, acc)`: the sum stays in the matrix unit's accumulator.

Triton's own passes do the same for most kernels, so it is tried where operands' layouts are the trouble.

Preconditions: the dot has no accumulator and no `out_dtype` of its own, what it is added to is computed in fp32 or
int32 from zeros on, and its operands are not fp8, so that adding in the unit is the same addition. (Of fp8 products the
unit of an NVIDIA GPU keeps fewer bits than fp32 has: Triton's `max_num_imprecise_acc` bounds how many are added there,
and on sm_90 its default is no bound.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, leaf_of, name_of, value_of
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
    if eighths := [operand for operand in dot.args[:2] if _is_fp8(text, operand.value)]:
        raise Refused(
            f"{code(eighths[0].value)} is fp8, of which a matrix unit sums up with fewer bits than fp32 has: added "
            f"outside of it, {name} is exact to more of them"
        )
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


def _is_fp8(text: KernelText, operand: cst.BaseExpression) -> bool:
    """Tell whether an operand is what was loaded of an fp8 tensor, and is converted nowhere on its way."""
    arguments = text.launch.problem.arguments
    fp8 = {name for name, v in arguments if isinstance(v, Tensor) and v.dtype.startswith("float8")}
    if not fp8:
        return False
    assigned: dict[str, list[cst.CSTNode]] = {}
    for node in nodes_of(text.function):
        if isinstance(node, cst.Assign):
            assigned.setdefault(code(node.targets[0].target), []).append(node.value)
    values = list(_behind(operand, assigned, through_loads=False))
    if any(isinstance(n, cst.Call) and leaf_of(n) in {"to", "cast"} for n in values):
        return False
    return any(isinstance(n, cst.Name) and n.value in fp8 for n in _behind(operand, assigned, through_loads=True))


def _behind(
    node: cst.CSTNode, assigned: Mapping[str, Sequence[cst.CSTNode]], *, through_loads: bool
) -> Iterator[cst.CSTNode]:
    """Yield what an expression is computed from, through the names that it reads; of a load its address, or nothing."""
    pending, seen = [node], set[str]()
    while pending:
        one = pending.pop()
        yield one
        if isinstance(one, cst.Name) and one.value not in seen:
            seen.add(one.value)
            pending += assigned.get(one.value, ())
        elif not isinstance(one, cst.Name) and (through_loads or not _loads(one)):
            pending += [child for child in one.children if not _is_label(one, child)]


def _loads(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and leaf_of(node) == "load"


def _is_label(node: cst.CSTNode, child: cst.CSTNode) -> bool:
    """Tell whether a child is the name of an attribute or a keyword, which reads no variable."""
    return child is getattr(node, "attr", None) or (isinstance(node, cst.Arg) and child is node.keyword)
