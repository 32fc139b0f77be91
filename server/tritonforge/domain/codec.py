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


def encode(value: Any, blobs: bytearray | None = None) -> Any:
    """Turn a noun, or a container of nouns, into values that `json.dumps` accepts.

    With `blobs` given, `bytes` are appended there and referred to as `{"$blob": [offset, length]}`.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, bytes):
        if blobs is not None:
            blobs += value
            return {"$blob": [len(blobs) - len(value), len(value)]}
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
    if isinstance(data, dict) and "$float" in data:
        return float(data["$float"])
    if isinstance(data, dict) and "$bytes" in data:
        return base64.b85decode(data["$bytes"])
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
        return {(int(k) if key is int else k): decode(item, v, f"{where}.{k}") for k, v in entries.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, where)
    if kind is float and isinstance(data, (int, float)) and not isinstance(data, bool):
        return float(data)
    if isinstance(kind, type) and isinstance(data, kind) and not (kind is int and isinstance(data, bool)):
        return data
    raise CodecError(f"{where}: expected {getattr(kind, '__name__', kind)}, got {type(data).__name__}")


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
        cls = _TAGGED.get(data["$"])
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
    return cls(**values)
