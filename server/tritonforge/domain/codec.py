"""Nouns ⇄ plain JSON values, driven by the dataclasses' own type hints. Standard library only.

A dataclass becomes an object of its fields. Classes marked with `@tagged` also carry their class name under `"$"`, so
that a field typed as a union of them can be read back. `bytes` travel as base85 text (or beside the text, see
`frames`), tuples as arrays, floats that are not finite as the strings `"nan"`, `"inf"`, `"-inf"`.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

PROTOCOL_VERSION = 1
"""Rises whenever a message between server and worker changes shape; a mismatch is reported, never guessed around."""

_TAGGED: dict[str, type] = {}
T = TypeVar("T")


class CodecError(ValueError):
    """A message does not have the shape its type promises; the text says where."""


def tagged(cls: type[T]) -> type[T]:
    """Mark a dataclass as a member of unions: it is written with its class name."""
    _TAGGED[cls.__name__] = cls
    return cls


class Blobs(bytearray):
    """What the `bytes` of a noun are appended to; they are referred to as `{"$blob": [offset, length]}`.

    `keep` may know some of them by a name under which the reader has them already; those are referred to by
    `{"$kept": name}`, and do not travel.
    """

    def __init__(self, keep: Callable[[bytes], str | None] | None = None) -> None:
        super().__init__()
        self._keep = keep

    def refer(self, value: bytes) -> dict[str, Any]:
        """Return what stands for `value` in the text."""
        name = self._keep(value) if self._keep is not None else None
        if name is not None:
            return {"$kept": name}
        self.extend(value)
        return {"$blob": [len(self) - len(value), len(value)]}


def encode(value: Any, blobs: Blobs | None = None) -> Any:
    """Turn a noun, or a container of nouns, into values that `json.dumps` accepts.

    With `blobs` given, `bytes` are kept there and not in the text.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, bytes):
        if blobs is not None:
            return blobs.refer(value)
        return {"$bytes": base64.b85encode(value).decode("ascii")}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Any] = {f.name: encode(getattr(value, f.name), blobs) for f in dataclasses.fields(value)}
        if type(value).__name__ in _TAGGED:
            out["$"] = type(value).__name__
        return out
    if isinstance(value, (list, tuple, set, frozenset)):
        return [encode(v, blobs) for v in value]
    if isinstance(value, typing.Mapping):
        return {str(k): encode(v, blobs) for k, v in value.items()}
    raise CodecError(f"cannot encode a {type(value).__name__}")


def decode(kind: Any, data: Any, where: str = "message") -> Any:
    """Rebuild a value of type `kind` from what `encode` made of it.

    Raises:
        CodecError: when `data` does not fit `kind`; `where` locates the fault.
    """
    if isinstance(data, dict) and not data.keys().isdisjoint(_SPELLED):
        return _spelled(data, where)
    if kind is Any:
        return data
    if kind is None or kind is type(None):
        if data is not None:
            raise CodecError(f"{where}: expected null")
        return None
    origin = typing.get_origin(kind)
    if origin is typing.Union or origin is types.UnionType:
        return _decode_union(typing.get_args(kind), data, where)
    if origin is typing.Literal:
        if data not in typing.get_args(kind):
            raise CodecError(f"{where}: {data!r} is none of {typing.get_args(kind)}")
        return data
    if origin is tuple:
        return _decode_tuple(typing.get_args(kind), data, where)
    if origin in (list, frozenset, set):
        (item,) = typing.get_args(kind)
        return origin(decode(item, v, f"{where}[{i}]") for i, v in enumerate(_expect(list, data, where)))
    if origin is not None and issubclass(origin, typing.Mapping):
        key, item = typing.get_args(kind)
        entries = _expect(dict, data, where)
        return {_key(key, k, where): decode(item, v, f"{where}.{k}") for k, v in entries.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, where)
    if kind is float and isinstance(data, (int, float)) and not isinstance(data, bool):
        return float(data)
    if isinstance(kind, type) and isinstance(data, kind) and not (kind is int and isinstance(data, bool)):
        return data
    raise CodecError(f"{where}: expected {getattr(kind, '__name__', kind)}, got {type(data).__name__}")


_SPELLED: Mapping[str, Callable[[str], Any]] = {"$float": float, "$bytes": base64.b85decode}
"""Values that JSON has no words for."""


def _spelled(data: dict[str, Any], where: str) -> Any:
    mark = next(mark for mark in _SPELLED if mark in data)
    text = _expect(str, data[mark], where)
    try:
        return _SPELLED[mark](text)
    except ValueError as error:
        raise CodecError(f"{where}: {text[:40]!r} is no {mark[1:]}") from error


def _key(kind: Any, key: str, where: str) -> Any:
    if kind is not int:
        return key
    try:
        return int(key)
    except ValueError as error:
        raise CodecError(f"{where}: {key[:40]!r} is no number") from error


def _expect(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, kind):
        raise CodecError(f"{where}: expected {kind.__name__}, got {type(data).__name__}")
    return data


def _decode_tuple(args: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    items = _expect(list, data, where)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(decode(args[0], v, f"{where}[{i}]") for i, v in enumerate(items))
    if len(items) != len(args):
        raise CodecError(f"{where}: expected {len(args)} items, got {len(items)}")
    return tuple(decode(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(args, items, strict=True)))


def _decode_union(args: tuple[Any, ...], data: Any, where: str) -> Any:
    if isinstance(data, dict) and "$" in data:
        cls = _TAGGED.get(_expect(str, data["$"], where))
        if cls is None or cls not in args:
            raise CodecError(f"{where}: unexpected kind {data['$']!r}")
        return _decode_dataclass(cls, data, where)
    # bool before int before float: JSON keeps them apart and so must we.
    order = {type(None): 0, bool: 1, int: 2, float: 3, str: 4}
    errors: list[str] = []
    for arg in sorted(args, key=lambda a: order.get(a, 9)):
        try:
            return decode(arg, data, where)
        except CodecError as error:
            errors.append(str(error))
    raise CodecError(errors[-1] if errors else f"{where}: empty union")


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, vars(sys.modules[cls.__module__]))


def _decode_dataclass(cls: type, data: Any, where: str) -> Any:
    entries = _expect(dict, data, where)
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for f in dataclasses.fields(cls):
        if f.name in entries:
            values[f.name] = decode(hints[f.name], entries[f.name], f"{where}.{f.name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise CodecError(f"{where}: {cls.__name__} lacks {f.name!r}")
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise CodecError(f"{where}: no {cls.__name__} is made of this ({error})") from error
