"""Inline assembly in the interpreter: the arithmetic of PTX on whole blocks, one register an array.

It knows the instructions that elementwise assembly in kernels is made of; any other ends the run with its name.
Results of `.approx` instructions are those of numpy, which are more exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from triton.runtime.interpreter import TensorHandle, np  # type: ignore[attr-defined,unused-ignore]

_TYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "mov": lambda a: a, "neg": np.negative, "abs": np.abs, "not": np.invert,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "min": np.fmin, "max": np.fmax, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "fma": lambda a, b, c: a * b + c, "mad": lambda a, b, c: a * b + c,
    "ex2": np.exp2, "lg2": np.log2, "rcp": np.reciprocal, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "popc": lambda a: sum((a >> np.uint32(bit)) & np.uint32(1) for bit in range(32)),
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_WITHOUT_EFFECT = ("griddepcontrol", "fence", "membar", "prefetch", "nanosleep")
_STATEMENT = re.compile(r"(?:@(!?)([%\w]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)


class _Registers:
    """Values by register name, as unsigned bit patterns; predicates as booleans."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.values: dict[str, Any] = {}

    def read(self, operand: str, kind: Any) -> Any:
        operand = operand.strip()
        if operand in self.values:
            bits = self.values[operand]
            if bits.dtype == np.bool_:
                return bits
            size = np.dtype(kind).itemsize
            return np.ascontiguousarray(bits).astype(f"u{size}", copy=False).view(kind)
        return np.full(self.count, _number(operand, kind), dtype=kind)

    def write(self, name: str, value: Any, where: Any) -> None:
        value = np.broadcast_to(np.asarray(value), (self.count,))
        if value.dtype != np.bool_:
            value = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
        if where is not None and name in self.values:
            value = np.where(where, value, self.values[name].astype(value.dtype, copy=False))
        self.values[name] = value


def _number(text: str, kind: Any) -> Any:
    if text.startswith(("0f", "0F")):
        return np.array([int("0x" + text[2:], 0)], dtype=np.uint32).view(np.float32)[0]
    if text.startswith(("0d", "0D")):
        return np.array([int("0x" + text[2:], 0)], dtype=np.uint64).view(np.float64)[0]
    if np.dtype(kind).kind == "f":
        return float(text)
    bits = 8 * np.dtype(kind).itemsize
    value = int(text.rstrip("Uu"), 0) % (1 << bits)
    return value - (1 << bits) if np.dtype(kind).kind == "i" and value >> (bits - 1) else value


def _execute(text: str, registers: _Registers) -> None:
    for statement in re.split(r"[;{}]", re.sub(r"//[^\n;]*", "", text)):
        matched = _STATEMENT.fullmatch(statement.strip())
        if matched is None or statement.strip().startswith("."):
            continue  # a declaration, or nothing
        negated, predicate, name, operands = matched.groups()
        where = None
        if predicate:
            where = registers.values[predicate] ^ bool(negated)
        _instruction(name, [o.strip() for o in operands.split(",") if o.strip()], registers, where)


def _instruction(name: str, operands: list[str], registers: _Registers, where: Any) -> None:
    operation, *parts = name.split(".")
    if operation in _WITHOUT_EFFECT:
        return
    kinds = [_TYPES[p] for p in parts if p in _TYPES]
    kind = kinds[0] if kinds else np.uint32
    target, sources = operands[0], operands[1:]
    if operation == "setp" and parts[0] in _COMPARISONS:
        value = _COMPARISONS[parts[0]](registers.read(sources[0], kind), registers.read(sources[1], kind))
    elif operation == "selp":
        chosen = registers.read(sources[2], np.bool_)
        value = np.where(chosen, registers.read(sources[0], kind), registers.read(sources[1], kind))
    elif operation == "cvt" and len(kinds) > 1:
        value = registers.read(sources[0], kinds[1])
        value = (np.rint(value) if "rni" in parts else value).astype(kind)
    elif operation in {"shl", "shr"}:
        amount = registers.read(sources[1], np.uint32).astype(kind)
        shift = np.left_shift if operation == "shl" else np.right_shift
        value = shift(registers.read(sources[0], kind), amount)
    elif operation == "lop3":
        value = _lookup([registers.read(s, kind) for s in sources[:3]], int(sources[3].rstrip("Uu"), 0))
    elif operation in _ARITHMETIC and "hi" not in parts and "wide" not in parts:
        value = _ARITHMETIC[operation](*(registers.read(s, kind) for s in sources)).astype(kind, copy=False)
    else:
        raise NotImplementedError(f"the instruction {name} of inline assembly cannot be interpreted on the CPU")
    registers.write(target, value, where)


def _lookup(sources: list[Any], table: int) -> Any:
    a, b, c = sources
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            terms = (a if row & 4 else ~a, b if row & 2 else ~b, c if row & 1 else ~c)
            result |= terms[0] & terms[1] & terms[2]
    return result


class _Results:
    def __init__(self, handles: list[Any]) -> None:
        self.handles = handles

    def get_result(self, index: int) -> Any:
        return self.handles[index]


def create_inline_asm(
    _self: Any,
    text: str,
    constraints: str,
    values: list[Any],
    types: list[Any],
    _pure: bool,
    pack: int,
) -> Any:
    """Stand in for `InterpreterBuilder.create_inline_asm`."""
    arrays = np.broadcast_arrays(*(v.data for v in values)) if values else []
    shape = tuple(getattr(types[0], "shape", ())) or (arrays[0].shape if arrays else (1,))
    total = int(np.prod(shape, dtype=np.int64))
    pack = max(1, min(pack, total))
    kinds = [_numpy_type(t) for t in types]
    registers = _Registers(total // pack)
    outputs = sum(_registers_of(kind, pack) for kind in kinds)
    at = outputs
    for array in arrays:
        at = _load(registers, np.ascontiguousarray(array).reshape(-1), pack, at)
    for index in range(outputs):
        registers.values[f"${index}"] = np.zeros(registers.count, dtype=np.uint32)
    del constraints
    _execute(text, registers)
    handles, at = [], 0
    for kind, wanted in zip(kinds, types, strict=True):
        flat, at = _stored(registers, kind, pack, at)
        handles.append(TensorHandle(flat.reshape(shape), wanted.scalar))
    return _Results(handles)


def _numpy_type(wanted: Any) -> Any:
    from triton.runtime import interpreter

    return np.dtype(interpreter._get_np_dtype(wanted.scalar))


def _registers_of(kind: Any, pack: int) -> int:
    return pack if kind.itemsize >= 4 else max(1, pack * kind.itemsize // 4)


def _load(registers: _Registers, flat: Any, pack: int, at: int) -> int:
    count, kind = _registers_of(flat.dtype, pack), flat.dtype
    size = max(4, kind.itemsize)
    grid = np.zeros((registers.count, count * size), dtype=np.uint8)
    raw = flat.reshape(registers.count, pack).view(np.uint8).reshape(registers.count, -1)
    grid[:, : raw.shape[1]] = raw
    words = grid.view(f"u{size}")
    for index in range(count):
        registers.values[f"${at + index}"] = words[:, index].copy()
    return at + count


def _stored(registers: _Registers, kind: Any, pack: int, at: int) -> tuple[Any, int]:
    count = _registers_of(kind, pack)
    size = max(4, kind.itemsize)
    words = np.stack([registers.values[f"${at + i}"].astype(f"u{size}") for i in range(count)], axis=1)
    raw = np.ascontiguousarray(words).view(np.uint8).reshape(registers.count, -1)[:, : pack * kind.itemsize]
    return np.ascontiguousarray(raw).view(kind).reshape(-1), at + count
