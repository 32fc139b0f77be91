"""Dots of values that were loaded in 16 bits: multiplied as they were loaded, by tensor cores, and as exact as in fp32.

A kernel that converts what it loads to fp32 in front of a product multiplies by fused multiply-adds, and holds twice
the bytes. The product of two numbers of float16 (11 bits each) or bfloat16 (8 bits) has no more than the 24 bits of
fp32, and a tensor core adds products up in fp32, so that `tl.dot` of the values as they were loaded loses nothing.

A weight in fp32 times a value of bfloat16 is such a product three times: 24 bits are 8 and 8 and 8, each part the
rounding of what the parts before it left, which is exact (Ozaki et al. 2012, "Error-free transformations of matrix
multiplication by using fast routines of matrix multiplication"). Every rest is made 2^8 times as large, so that its
bits are there where it is subnormal, too: 2^-149, the least of fp32, is 2^-133 then, the least of bfloat16. Weights of
a softmax, `exp(x - m)`, are at most 1, so that no part leaves the range.

Preconditions: a `tl.dot` in full fp32; operands that are loads of tensors that all recorded launches pass in one
format of 16 bits, converted to fp32 and nothing else; or weights and such a load of bfloat16. (Parts of a weight in
float16 would leave its range.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, name_of, value_of
from tritonforge.rewrite.structural.deferred_division import is_exponential
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.helper import helper_edit
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced
from tritonforge.rewrite.structural.loops import names_in

_HALVES = frozenset({"float16", "bfloat16"})


class NarrowOperands:
    """Operands of dots in the 16 bits that they were loaded in."""

    name = "narrow-operands"
    treats = frozenset({"TF201"})
    classes: frozenset[BottleneckClass] = frozenset(
        {"no-tensor-core", "fp32-compute", "latency", "low-occupancy", "register-spill", "shared-memory"}
    )

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield all of them together."""
        dots = [d for n in nodes_of(text.function) if (d := _exact(text, n)) is not None]
        if not dots:
            raise Absent("no dot multiplies in full fp32")
        plain: list[_Operand] = []
        weighted: list[tuple[cst.Call, _Operand]] = []
        reasons: list[str] = []
        for dot in dots:
            sides = [_loaded(text, value_of(dot, "dot", side)) for side in ("input", "other")]
            first, second = sides
            if first is not None and second is not None:
                if first.dtype == second.dtype:
                    plain += [first, second]
                else:
                    reasons.append(f"{code(first.node)} and {code(second.node)} are of different formats")
            elif second is not None and (reason := _no_weights(text, dot, second)) is None:
                weighted.append((dot, second))
            elif second is not None:
                reasons.append(reason or "")
        if not plain and not weighted:
            raise Refused(reasons[0]) if reasons else Absent("no dot multiplies what was loaded in 16 bits")
        helper = text.fresh("weighted_sum")
        made = _made(text, plain, weighted, helper)
        edits = [*text.edits(replaced(text.function, made))]
        if weighted:
            edits.append(helper_edit(text, _helper(helper, text.tl)))
        yield Change("products of the 16 bits that were loaded, as exact as in fp32", tuple(edits))


@dataclass(frozen=True)
class _Operand:
    """What stands in a dot for loaded values in fp32: `node`, a name or a conversion; `dtype` is what was loaded.

    `cast` is the conversion to fp32 wherever it stands.
    """

    node: cst.BaseExpression
    cast: cst.Call
    dtype: str


def _exact(text: KernelText, node: cst.CSTNode) -> cst.Call | None:
    """Return the dot that a node is, if it multiplies in full fp32."""
    if not isinstance(node, cst.Call) or name_of(node, text.tl) != "dot":
        return None
    precision = value_of(node, "dot", "input_precision")
    ieee = precision is not None and code(precision).strip("\"'") == "ieee"
    allowed = value_of(node, "dot", "allow_tf32")
    ieee = ieee or (allowed is not None and code(allowed) == "False")
    return node if ieee and argument(node, "dot", "out_dtype") is None else None


def _loaded(text: KernelText, node: cst.BaseExpression | None) -> _Operand | None:
    """Return an operand that is loaded in 16 bits and converted to fp32, transposed or not."""
    if isinstance(node, cst.Call) and name_of(node, text.tl) == "trans" and len(node.args) == 1:
        node = node.args[0].value
    elif isinstance(node, cst.Attribute) and node.attr.value == "T":
        node = node.value
    if node is None:
        return None
    value = _set_once(text, node)
    if not _is_widened(text, value):
        return None
    assert isinstance(value, cst.Call)
    assert isinstance(value.func, cst.Attribute)
    load = _set_once(text, value.func.value)
    if name_of(load, text.tl) != "load":
        return None
    assert isinstance(load, cst.Call)
    dtype = _dtype(text, load.args[0].value)
    return _Operand(node, value, dtype) if dtype in _HALVES else None


def _set_once(text: KernelText, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a name is set to, where one statement sets it; any other expression as it is."""
    if not isinstance(node, cst.Name):
        return node
    values = [
        n.value if isinstance(n, cst.Assign) and len(n.targets) == 1 else None
        for n in nodes_of(text.function)
        if isinstance(n, cst.Assign | cst.AugAssign | cst.AnnAssign | cst.For) and node.value in _targets(n)
    ]
    return values[0] if len(values) == 1 and values[0] is not None else node


def _targets(node: cst.Assign | cst.AugAssign | cst.AnnAssign | cst.For) -> set[str]:
    targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
    return {name for target in targets for name in names_in(target)}


def _is_widened(text: KernelText, node: cst.BaseExpression) -> bool:
    """Tell whether an expression is `x.to(tl.float32)`."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "to"
        and [code(a.value) for a in node.args] == [f"{text.tl}.float32"]
    )


def _dtype(text: KernelText, address: cst.BaseExpression) -> str:
    """Return the format of the tensor that an address points into, one in all recorded launches; else an empty text."""
    pointers = {p.name for p in text.kernel.parameters if p.role == "pointer"}
    seen: set[str] = set()
    waiting = set(names_in(address))
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in pointers:
            for node in nodes_of(text.function):
                if isinstance(node, cst.Assign | cst.AugAssign) and node.value and name in _targets(node):
                    waiting |= names_in(node.value)
    found = {
        value.dtype if isinstance(value, Tensor) else ""
        for launch in text.task.launches
        for name, value in launch.problem.arguments
        if name in seen & pointers
    }
    return found.pop() if len(found) == 1 else ""


def _no_weights(text: KernelText, dot: cst.Call, values: _Operand) -> str | None:
    """Return why a dot is not one of weights and loaded values; None where it is."""
    weights = value_of(dot, "dot", "input")
    if weights is None or not is_exponential(text, weights):
        return f"{code(weights) if weights is not None else 'an operand'} is in fp32 and no weight of a softmax"
    if values.dtype != "bfloat16":
        return f"parts of {code(weights)} would leave the range of {values.dtype}"
    return None


def _made(
    text: KernelText, plain: Sequence[_Operand], weighted: Sequence[tuple[cst.Call, _Operand]], helper: str
) -> list[tuple[cst.CSTNode, Replacement]]:
    """Return what takes the place of what: conversions that nothing else needs any more, operands, and dots."""
    operands = [*plain, *(values for _, values in weighted)]
    made: dict[int, tuple[cst.CSTNode, Replacement]] = {}
    for one in operands:
        assert isinstance(one.cast.func, cst.Attribute)
        narrow = one.cast.func.value
        if one.cast is one.node or not _is_used_otherwise(text, one, operands):
            made[id(one.cast)] = (one.cast, narrow)
        else:
            back = cst.parse_expression(f"{code(one.node)}.to({text.tl}.{one.dtype})")
            made[id(one.node)] = (one.node, back)
    for dot, values in weighted:
        new = made.pop(id(values.node), (values.node, values.node))[1]
        assert isinstance(new, cst.BaseExpression)
        weights, acc = value_of(dot, "dot", "input"), value_of(dot, "dot", "acc")
        assert weights is not None
        words = f"{helper}({code(weights)}, {_spelled(dot, values.node, new)})"
        whole = f"{code(acc)} + {words}" if acc is not None and code(acc) != "None" else words
        if whole != words and not any(isinstance(n, cst.Assign) and n.value is dot for n in nodes_of(text.function)):
            whole = f"({whole})"
        made[id(dot)] = (dot, cst.parse_expression(whole))
    return list(made.values())


def _spelled(dot: cst.Call, was: cst.BaseExpression, new: cst.BaseExpression) -> str:
    """Return the second operand of a dot with `new` in place of what it is or transposes."""
    operand = value_of(dot, "dot", "other")
    assert operand is not None
    return code(new) if operand is was else code(operand.deep_replace(was, new))


def _is_used_otherwise(text: KernelText, one: _Operand, operands: Sequence[_Operand]) -> bool:
    """Tell whether a name in fp32 is read by anything but the dots that take it as it was loaded."""
    assert isinstance(one.node, cst.Name)
    changed = {id(other.node) for other in operands}
    reads = [n for n in nodes_of(text.function) if isinstance(n, cst.Name) and n.value == one.node.value]
    return sum(id(n) not in changed for n in reads) > 1  # one of them is where it is set


def _helper(name: str, tl: str) -> list[str]:
    return [
        f"def {name}(weights, values):",
        f'    """The same as `{tl}.dot(weights, values.to({tl}.float32))` in fp32, in three exact products."""',
        f"    {tl}.static_assert(values.dtype == {tl}.bfloat16)",
        "    # 24 bits of a weight are three times 8. What is left is scaled, so that no part is too small for bf16.",
        f"    high = weights.to({tl}.bfloat16)",
        f"    rest = (weights - high.to({tl}.float32)) * 256.0",
        f"    middle = rest.to({tl}.bfloat16)",
        f"    low = ((rest - middle.to({tl}.float32)) * 256.0).to({tl}.bfloat16)",
        f"    small = {tl}.dot(middle, values, {tl}.dot(low, values) / 256.0) / 256.0",
        "    # What is infinite is so by the highest part alone: another may be 0 or below.",
        f'    small = {tl}.where({tl}.abs(small) < float("inf"), small, 0.0)',
        f"    return {tl}.dot(high, values, small)",
    ]
