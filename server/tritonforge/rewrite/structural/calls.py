"""Calls of Triton's language in a kernel: which function, which arguments, and calls with other arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from tritonforge.rewrite.structural.kernel_text import code

_PATH = re.compile(r"[\w.]+")

SIGNATURES: dict[str, tuple[str, ...]] = {
    "load": ("pointer", "mask", "other", "boundary_check", "padding_option", "cache_modifier", "eviction_policy"),
    "store": ("pointer", "value", "mask", "boundary_check", "cache_modifier", "eviction_policy"),
    "sum": ("input", "axis", "keep_dims"),
    "max": ("input", "axis", "return_indices", "return_indices_tie_break_left", "keep_dims"),
    "min": ("input", "axis", "return_indices", "return_indices_tie_break_left", "keep_dims"),
    "argmax": ("input", "axis", "tie_break_left", "keep_dims"),
    "argmin": ("input", "axis", "tie_break_left", "keep_dims"),
    "xor_sum": ("input", "axis", "keep_dims"),
    "cumsum": ("input", "axis", "reverse"),
    "cumprod": ("input", "axis", "reverse"),
    "arange": ("start", "end"),
    "zeros": ("shape", "dtype"),
    "full": ("shape", "value", "dtype"),
    "dot": ("input", "other", "acc", "input_precision", "allow_tf32", "max_num_imprecise_acc", "out_dtype"),
    "where": ("condition", "x", "y"),
    "program_id": ("axis",),
    "num_programs": ("axis",),
    "maximum": ("x", "y"),
    "minimum": ("x", "y"),
    "trans": ("input",),
    "reshape": ("input", "shape"),
    "broadcast_to": ("input", "shape"),
    "expand_dims": ("input", "axis"),
    "cast": ("input", "dtype"),
    "make_tensor_descriptor": ("base", "shape", "strides", "block_shape", "padding_option"),
    "range": ("arg1", "arg2", "step", "num_stages"),
} | {
    f"atomic_{name}": ("pointer", "val", "mask", "sem", "scope")
    for name in ("add", "max", "min", "and", "or", "xor", "xchg")
}
"""Parameters of functions in order (Triton 3.2 to 3.9)."""

REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "xor_sum"})
SCANS = frozenset({"cumsum", "cumprod"})
ELEMENTWISE = frozenset(
    words
    for line in (
        "exp exp2 log log2 log1p expm1 sqrt sqrt_rn rsqrt sin cos tan tanh sigmoid abs fabs floor ceil round rint erf",
        "fma fast_expf fast_dividef div_rn where maximum minimum clamp cast isnan isinf pow fmod umulhi cdiv trunc",
    )
    for words in line.split()
)
"""Functions of `tl`, `tl.math` and libdevice whose result has the shape of their arguments, broadcast."""


def name_of(node: cst.CSTNode, tl: str) -> str | None:
    """Return `load` for `tl.load(…)`, `exp` for `tl.math.exp(…)`; None for anything else."""
    if not isinstance(node, cst.Call):
        return None
    path = code(node.func)
    if not tl or not path.startswith(f"{tl}.") or not _PATH.fullmatch(path):
        return None
    rest = path[len(tl) + 1 :].removeprefix("math.")
    return rest if "." not in rest else None


def leaf_of(node: cst.Call) -> str:
    """Return the last part of what is called."""
    return code(node.func).rpartition(".")[2]


def argument(call: cst.Call, function: str, parameter: str) -> cst.Arg | None:
    """Return what `call` of `function` passes for `parameter`, if it does."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == parameter:
            return arg
    index = SIGNATURES[function].index(parameter) if parameter in SIGNATURES.get(function, ()) else None
    positional = [a for a in call.args if a.keyword is None]
    if index is not None and index < len(positional) and not any(a.star for a in positional):
        return positional[index]
    return None


def value_of(call: cst.Call, function: str, parameter: str) -> cst.BaseExpression | None:
    """Return the expression that `call` passes for `parameter`."""
    found = argument(call, function, parameter)
    return found.value if found is not None else None


def with_value(call: cst.Call, old: cst.Arg | None, parameter: str, value: cst.BaseExpression) -> cst.Call:
    """Return `call` with `value` in place of `old`, or with a further keyword argument in the call's own style."""
    if old is not None:
        return call.with_changes(args=[a.with_changes(value=value) if a is old else a for a in call.args])
    new = cst.Arg(
        value,
        keyword=cst.Name(parameter),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    args = list(call.args)
    if args:
        last = args[-1]
        if isinstance(last.comma, cst.Comma):  # a trailing comma stays one
            between = args[-2].comma if len(args) > 1 else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            new = new.with_changes(comma=last.comma)
            args[-1] = last.with_changes(comma=between)
        else:
            tail = last.whitespace_after_arg
            new = new.with_changes(whitespace_after_arg=tail)
            args[-1] = last.with_changes(
                comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")),
                whitespace_after_arg=cst.SimpleWhitespace(""),
            )
    return call.with_changes(args=[*args, new])


def with_mask(call: cst.Call, function: str, mask: str) -> cst.Call:
    """Return a load, a store or an atomic that also keeps to a mask: a variable, perhaps indexed."""
    own = cst.parse_expression(mask)
    old = argument(call, function, "mask")
    if old is None or code(old.value) == "None":
        return with_value(call, old, "mask", own)
    return with_value(call, old, "mask", cst.BinaryOperation(grouped(old.value), cst.BitAnd(), own))


def grouped(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `node` in brackets where an operator beside it could take a part of it."""
    loose = (cst.Comparison, cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.BinaryOperation, cst.UnaryOperation)
    if isinstance(node, loose) and not node.lpar:
        return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return node


def integer(node: cst.BaseExpression | None) -> int | None:
    """Return the integer that `node` writes, sign included."""
    if isinstance(node, cst.Integer):
        return node.evaluated_value
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = integer(node.expression)
        return -value if value is not None else None
    return None


def elements(node: cst.BaseExpression | None) -> Sequence[cst.BaseExpression] | None:
    """Return the elements of a tuple or list that is written out; None for anything else."""
    if isinstance(node, cst.Tuple | cst.List) and all(isinstance(e, cst.Element) for e in node.elements):
        return [e.value for e in node.elements]
    return None
