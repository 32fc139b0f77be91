"""Launch specs: the words after `# tritonforge: launch`, and `[[launch]]` tables, → a `Call`.

A spec is a line of `name=value` pairs. Above a host function the names are its parameters; above a kernel they are the
kernel's, with `grid=` and compiler options beside them:

    # tritonforge: launch x=fp16[4096, 4096] scale=0.5
    # tritonforge: launch x=fp32[n] out=fp32[n] n=1000003 BLOCK=1024 grid=cdiv(n, BLOCK) num_warps=4

A value is a tensor `dtype[extent, …]` with an optional recipe (`~uniform(0, 1)`, `~normal(0, 0.02)`, `~zeros`,
`~randint(0, 512)`), a number, `True`, `False`, `None`, a quoted text, a tuple or list of values, or a dtype
(`torch.float16`). Extents are integers or expressions over the spec's own integers.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tritonforge.domain.codec import encode
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import (
    Call,
    Distribution,
    Items,
    KernelLaunch,
    Scalar,
    Symbol,
    Tensor,
    Value,
    ValuePolicy,
)

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Compiler options that a kernel spec may set beside the kernel's own parameters."""

_DTYPES = {
    "fp64": "float64", "f64": "float64", "fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16",
    "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "i1": "bool",
    "fp8e4": "float8_e4m3fn", "fp8e5": "float8_e5m2",
}  # fmt: skip
_FULL_NAMES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
    "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
_TENSOR = re.compile(
    r"(?P<dtype>[A-Za-z]\w*)\s*\[(?P<shape>[^\]]*)\]\s*(?:~\s*(?P<recipe>\w+)\s*(?:\((?P<args>[^)]*)\))?)?"
)
_PAIR = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*")
_MAX_ELEMENTS = 1 << 40

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


@dataclass(frozen=True)
class _Place:
    """Where a spec's text stands, so that an error can point at the character."""

    file: str
    line: int
    column: int

    def error(self, offset: int, message: str, mend: str = "") -> UsageError:
        return UsageError(f"{self.file}:{self.line}:{self.column + offset}: {message}", mend)


def parse_spec(
    text: str, *, file: str, function: str, line: int = 1, column: int = 1, kernel: Kernel | None = None
) -> Call:
    """Turn a spec's `name=value` pairs into a repeatable call of `function`.

    Args:
        text: the pairs.
        file: the file that defines the function, as `Call.file`.
        function: its qualified name.
        line: where the text starts, for errors.
        column: the same, 1-based in code points.
        kernel: given when `function` is a kernel itself; then `grid=` is required and options are allowed.

    Raises:
        UsageError: with the position of the character that is wrong.
    """
    place = _Place(file, line, column)
    pairs = _split(text, place)
    integers = {name: int(raw) for name, (raw, _) in pairs.items() if re.fullmatch(r"[+-]?\d[\d_]*", raw)}
    if not pairs:
        raise place.error(0, "the launch spec is empty.", "Give the arguments, as in: launch x=fp16[4096, 4096] n=4096")
    grid: tuple[str, ...] | None = None
    keywords: list[tuple[str, Value]] = []
    options: list[tuple[str, Value]] = []
    known = {p.name for p in kernel.parameters} if kernel else set()
    for name, (raw, offset) in pairs.items():
        if kernel and name == "grid":
            grid = _grid(raw, offset, place)
        elif kernel and name in OPTIONS and name not in known:
            options.append((name, _value(raw, offset, integers, place)))
        elif kernel and name not in known:
            raise place.error(
                offset, f"{kernel.name} has no parameter {name!r}.", f"Its parameters: {', '.join(sorted(known))}."
            )
        else:
            keywords.append((name, _value(raw, offset, integers, place)))
    launch = None
    if kernel:
        if grid is None:
            raise place.error(
                len(text.rstrip()), "a spec above a kernel needs a grid.", "Add for example: grid=cdiv(n, BLOCK)"
            )
        given = {name for name, _ in keywords}
        missing = [p.name for p in kernel.parameters if p.default is None and p.name not in given]
        if missing and not kernel.autotune:
            raise place.error(len(text.rstrip()), f"the spec does not give {', '.join(missing)}.", "Add name=value.")
        launch = KernelLaunch(grid, tuple(options))
    call = Call("", file, function, (), tuple(keywords), kernel_launch=launch)
    return with_id(call)


def with_id(call: Call) -> Call:
    """Return `call` with its id set to a short hash of what it calls with what."""
    body = json.dumps(
        encode((call.file, call.function, call.arguments, call.keywords, call.kernel_launch)), sort_keys=True
    )
    return dataclasses.replace(call, id=hashlib.sha256(body.encode()).hexdigest()[:12])


def _split(text: str, place: _Place) -> dict[str, tuple[str, int]]:
    pairs: dict[str, tuple[str, int]] = {}
    at = 0
    while text[at:].strip():
        match = _PAIR.match(text, at)
        if not match:
            offset = at + len(text[at:]) - len(text[at:].lstrip())
            raise place.error(offset, f"expected name=value, found {text[offset:].split(maxsplit=1)[0]!r}.")
        end = _value_end(text, match.end(), place)
        raw = text[match.end() : end].strip()
        if not raw:
            raise place.error(match.end(), f"{match['name']} has no value.")
        if match["name"] in pairs:
            raise place.error(match.start("name"), f"{match['name']} is given twice.")
        pairs[match["name"]] = (raw, match.end())
        at = end
    return pairs


def _value_end(text: str, start: int, place: _Place) -> int:
    """Find where a value ends: at the first `name=` outside brackets and quotes, else at the end of the text."""
    closing = {"(": ")", "[": "]", "{": "}"}
    stack: list[tuple[str, int]] = []
    at = start
    while at < len(text):
        char = text[at]
        if char in "'\"":
            close = text.find(char, at + 1)
            if close < 0:
                raise place.error(at, "this quote is never closed.")
            at = close
        elif char in closing:
            stack.append((closing[char], at))
        elif char in ")]}":
            if not stack or stack[-1][0] != char:
                raise place.error(at, f"this {char!r} closes nothing.")
            stack.pop()
        elif char.isspace() and not stack and _PAIR.match(text, at):
            return at
        at += 1
    if stack:
        raise place.error(stack[-1][1], "this bracket is never closed.")
    return len(text)


def _value(raw: str, offset: int, integers: Mapping[str, int], place: _Place) -> Value:
    tensor = _TENSOR.fullmatch(raw)
    if tensor:
        return _tensor(tensor, offset, integers, place)
    begun = _TENSOR.match(raw)
    if begun:
        rest = raw[begun.end() :]
        at = offset + begun.end() + len(rest) - len(rest.lstrip())
        raise place.error(at, f"expected name=value, found {rest.split()[0]!r}.")
    try:
        node = ast.parse(raw, mode="eval").body
    except SyntaxError:
        raise place.error(offset, f"cannot read the value {raw!r}.", "A tensor is written fp16[4096, 4096].") from None
    return _literal(node, raw, offset, integers, place)


def _literal(node: ast.expr, raw: str, offset: int, integers: Mapping[str, int], place: _Place) -> Value:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (bool, int, float, str))):
        return Scalar(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _literal(node.operand, raw, offset, integers, place)
        if isinstance(inner, Scalar) and isinstance(inner.value, (int, float)):
            return Scalar(-inner.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        kind = "tuple" if isinstance(node, ast.Tuple) else "list"
        return Items(kind, tuple(_item(e, raw, offset, integers, place) for e in node.elts))
    if isinstance(node, ast.Attribute) and node.attr in _FULL_NAMES:
        return Symbol("dtype", node.attr)
    if isinstance(node, (ast.BinOp, ast.Name)):
        return Scalar(_integer(node, raw, offset, integers, place))
    raise place.error(offset, f"cannot read the value {raw!r}.", "A tensor is written fp16[4096, 4096].")


def _item(node: ast.expr, raw: str, offset: int, integers: Mapping[str, int], place: _Place) -> Value:
    text = ast.unparse(node)
    tensor = _TENSOR.fullmatch(text)
    return _tensor(tensor, offset, integers, place) if tensor else _literal(node, raw, offset, integers, place)


def _tensor(match: re.Match[str], offset: int, integers: Mapping[str, int], place: _Place) -> Tensor:
    dtype = _DTYPES.get(match["dtype"], match["dtype"])
    if dtype not in _FULL_NAMES:
        raise place.error(
            offset, f"unknown dtype {match['dtype']!r}.", "Known: " + ", ".join([*_DTYPES, *_FULL_NAMES]) + "."
        )
    shape: list[int] = []
    for extent in filter(None, (part.strip() for part in match["shape"].split(","))):
        at = offset + match.start("shape") + match["shape"].index(extent)
        try:
            node = ast.parse(extent, mode="eval").body
        except SyntaxError:
            raise place.error(at, f"cannot read the extent {extent!r}.") from None
        size = _integer(node, extent, at, integers, place)
        if size < 0:
            raise place.error(at, f"the extent {extent} is negative.")
        shape.append(size)
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    if step > _MAX_ELEMENTS:
        raise place.error(offset, f"a tensor of {step} elements is larger than any GPU's memory.")
    return Tensor(tuple(shape), tuple(strides), dtype, values=_recipe(match, dtype, offset, place))


def _recipe(match: re.Match[str], dtype: str, offset: int, place: _Place) -> ValuePolicy:
    name = match["recipe"]
    floating = dtype.startswith(("float", "bfloat"))
    if name is None:
        if dtype == "bool":
            return Distribution("uniform", low=0, high=1)
        return Distribution() if floating else Distribution("uniform", low=0, high=7)
    at = offset + match.start("recipe")
    try:
        numbers = [float(part) for part in (match["args"] or "").split(",") if part.strip()]
    except ValueError:
        raise place.error(at, f"the arguments of {name} must be numbers.") from None
    if name in ("zeros", "ones") and not numbers:
        return Distribution("zeros") if name == "zeros" else Distribution("constant", low=1.0)
    if name == "normal" and len(numbers) in (0, 2) and floating:
        mean, std = numbers or (0.0, 1.0)
        return Distribution("normal", mean=mean, std=std)
    if name == "uniform" and len(numbers) == 2:
        return Distribution("uniform", low=numbers[0], high=numbers[1])
    if name == "randint" and len(numbers) == 2 and not floating and numbers[1] > numbers[0]:
        return Distribution("uniform", low=numbers[0], high=numbers[1] - 1)
    raise place.error(
        at,
        f"cannot use the recipe {name!r} here.",
        "Known: normal(mean, std), uniform(low, high), randint(low, high) for integers, zeros, ones.",
    )


def _integer(node: ast.expr, raw: str, offset: int, integers: Mapping[str, int], place: _Place) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        if node.id in integers:
            return integers[node.id]
        raise place.error(offset, f"{node.id!r} in {raw!r} is not an integer of this spec.", f"Add {node.id}=….")
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left = _integer(node.left, raw, offset, integers, place)
        right = _integer(node.right, raw, offset, integers, place)
        if isinstance(node.op, (ast.Pow, ast.LShift)) and not 0 <= right <= 64:
            raise place.error(offset, f"{raw!r} is out of range.")
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and right == 0:
            raise place.error(offset, f"{raw!r} divides by zero.")
        return _ARITHMETIC[type(node.op)](left, right)
    raise place.error(offset, f"{raw!r} is not an integer expression.")


def _grid(raw: str, offset: int, place: _Place) -> tuple[str, ...]:
    try:
        node = ast.parse(raw, mode="eval").body
    except SyntaxError:
        raise place.error(offset, f"cannot read the grid {raw!r}.", "Write for example grid=cdiv(n, BLOCK).") from None
    axes = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    if not 1 <= len(axes) <= 3:
        raise place.error(offset, "a grid has one to three axes.")
    return tuple(ast.unparse(axis) for axis in axes)
