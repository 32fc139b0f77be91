"""A cheap key for a launch: what tells launches apart, put together in a few microseconds.

For each way in which a kernel is called (how many positional arguments, which names) one function is generated that
reads shape, strides, dtype and alignment of tensors and takes other arguments as they are. Floats count by type only:
learning rates and scales would otherwise make every launch a new one. Keys hold no tensor, so nothing is kept alive.

Most of a key's time goes to what tensors say of themselves. So launches of one compiled kernel have a brief key too, of
what else the GPU is told: grid and scalars. Shapes and strides that matter are among the scalars.
"""

from __future__ import annotations

import numbers
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
import triton.language as tl

_PLAIN = (int, str, bool, type(None))
_HASHABLE = (numbers.Number, str, type(None), type, torch.Size, torch.dtype)
_DEPTH = 5

Key = Callable[..., Any]


class LauncherKeys(NamedTuple):
    """Key functions of the tuple that a compiled kernel's launcher is given, as `given`."""

    brief: Callable[[tuple[Any, ...]], Any]
    whole: Callable[[tuple[Any, ...]], Any]
    brief_text: str
    whole_text: str
    scope: dict[str, Any]
    """What the texts need."""


class Kinds:
    """What was seen at each place of one way of calling: `t` tensor, `f` float, `p` plain, `d` dtype, `o` anything."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.kinds: list[str] = []

    def learn(self, values: tuple[Any, ...], free: frozenset[str], number: int) -> Key:
        """Return a key function that suits `values` and everything seen before; parameters in `free` do not count."""
        now = [_kind(v) for v in values]
        before = self.kinds or now
        self.kinds = [a if a == b else "o" for a, b in zip(before, now, strict=True)]
        return _generate(self.names, self.kinds, free, number)


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "t"
    if type(value) is float:
        return "f"
    if type(value) in _PLAIN:
        return "p"
    return "d" if isinstance(value, tl.dtype) else "o"


def _generate(names: tuple[str, ...], kinds: list[str], free: frozenset[str], number: int) -> Key:
    parts: list[str] = [str(number)]
    pointers: list[str] = []
    for i, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        if kind == "t":
            pointers.append(f"_tf_{i}")
            parts.append(_of_tensor(name, pointers[-1]))
        elif name in free or kind == "f":
            parts.append(f"{name}.__class__")
        elif kind == "d":
            parts.append(f"{name}.name")
        else:
            parts.append(name if kind == "p" else f"_tf_other({name})")
    if len(pointers) > 1:
        parts.append(f"len({{{', '.join(pointers)}}})")
    # Under their own names, so that it can be called just as the kernel is; ours cannot be anybody's.
    scope: dict[str, Any] = {"_tf_other": other}
    exec(f"def _tf_key({', '.join(names)}):\n    return ({', '.join(parts)},)", scope)
    made: Key = scope["_tf_key"]
    return made


def _of_tensor(name: str, pointer: str) -> str:
    return f"{name}.shape, {name}.stride(), {name}.dtype, ({pointer} := {name}.data_ptr()) & 15 == 0"


def launcher_keys(before: int, names: list[str], values: tuple[Any, ...], fixed: frozenset[str]) -> LauncherKeys:
    """Return key functions for a compiled kernel's launcher that was called with `values` for parameters `names`.

    `before` values stand in front of them, the grid first. Parameters in `fixed` do not count, and neither do floats;
    dtypes, None and a tensor where there was one go with the compiled kernel.
    """
    brief = ["given[0]", "given[1]", "given[2]"]
    whole: list[str] = []
    pointers: list[str] = []
    for i, (name, value) in enumerate(zip(names, values, strict=True), before):
        kind = _kind(value)
        if name in fixed or kind == "f" or value is None:
            continue
        if kind == "t":
            pointers.append(f"at_{i}")
            whole.append(_of_tensor(f"given[{i}]", pointers[-1]))
        else:
            brief.append(f"given[{i}]" if kind == "p" else f"other(given[{i}])")
    if len(pointers) > 1:
        whole.append(f"len({{{', '.join(pointers)}}})")
    brief_text, whole_text = ", ".join(brief), ", ".join((*brief, *whole))
    made: dict[str, Any] = {"other": other}
    exec(f"def brief(given):\n    return ({brief_text})\n\ndef whole(given):\n    return ({whole_text})", made)
    return LauncherKeys(made["brief"], made["whole"], brief_text, whole_text, {"other": other})


def generic(number: int) -> Key:
    """Return a key function for any way to call a kernel, several times slower than a generated one."""

    def key(*args: Any, **kwargs: Any) -> Any:
        return number, other(args), tuple(kwargs), other(tuple(kwargs.values()))

    return key


def other(value: Any, depth: int = 0) -> Any:
    """Return a hashable stand-in for any argument."""
    if isinstance(value, torch.Tensor):
        return (value.shape, value.stride(), value.dtype, value.data_ptr() & 15 == 0)
    kind = type(value)
    if kind is float:
        return kind
    if kind in _PLAIN:
        return (kind, value)
    if depth > _DEPTH:
        return kind
    if isinstance(value, (tuple, list)):
        return (kind, tuple(other(v, depth + 1) for v in value))
    if isinstance(value, dict):
        return (kind, tuple((str(k), other(v, depth + 1)) for k, v in value.items()))
    base = getattr(value, "base", None)
    if isinstance(base, torch.Tensor):
        rest = (getattr(value, name, None) for name in ("shape", "strides", "block_shape", "dtype"))
        return (kind, other(base), *(other(v, depth + 1) for v in rest))
    inner = getattr(value, "value", None)
    if kind.__name__ == "constexpr":
        return (kind, other(inner, depth + 1))
    fn = getattr(value, "fn", value)
    if isinstance(fn, FunctionType):
        return (kind, fn.__module__, fn.__qualname__)
    if isinstance(value, type):
        return value
    try:
        return (kind, str(value)[:200])
    except Exception:
        return kind


def grid_key(grid: Any) -> Any:
    """Return what tells grids apart. Of a function that is what it closes over: its other input are the arguments."""
    if type(grid) is FunctionType:
        closure, defaults, code = grid.__closure__, grid.__defaults__, grid.__code__
        text = _texts.get(id(code)) or _text(code)
        if closure is None and defaults is None:
            return text
        return (text, tuple([_enclosed(cell) for cell in closure or ()]), other(defaults))
    if callable(grid):
        return type(grid)
    return other(grid)


_texts: dict[int, tuple[Any, ...]] = {}
_alive: dict[int, weakref.ref[CodeType]] = {}


def _text(code: CodeType) -> tuple[Any, ...]:
    """Return what tells code apart, the same while it is monitored or not: in Python 3.12 its own hash is not."""
    ident = id(code)
    consts = tuple(_text(c) if isinstance(c, CodeType) else repr(c)[:200] for c in code.co_consts)
    text = (code.co_filename, code.co_firstlineno, code.co_code.decode("latin-1"), code.co_names, consts)

    def gone(_reference: object) -> None:
        _texts.pop(ident, None)
        _alive.pop(ident, None)

    _alive[ident] = weakref.ref(code, gone)
    _texts[ident] = text
    return text


def _enclosed(cell: Any) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:
        return None
    kind = type(value)
    if kind is int or kind is bool:
        return value
    if kind is tuple or kind is list or kind is torch.Size:
        return other(value)
    return value.shape if isinstance(value, torch.Tensor) else kind


def keeps_nothing(key: Any) -> bool:
    """Tell whether a key is made of plain values alone: nothing that it would keep alive or cannot be compared."""
    if isinstance(key, _HASHABLE) or key is float:
        return True
    if isinstance(key, tuple):
        return all(keeps_nothing(k) for k in key)
    return False
