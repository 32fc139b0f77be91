"""What is known of a kernel that has moved in its file since, everything else being as it was."""

from __future__ import annotations

import dataclasses
import re
import sys
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Kind = Literal["by-line", "line", "other"]
_SENTENCES = ("error", "text")
_LOOPS = ("loop", "outer")
"""Fields that name a loop by the line where it starts."""
_SAID = re.compile(r"\bline (\d+)\b")


def moved(known: T, by: int) -> T:
    """Return a noun (a `Compilation`, a `Fault`) with every line number `by` lines further down."""
    return _moved(known, by) if by else known


@cache
def kinds(cls: type) -> Mapping[str, Kind]:
    """Return which fields of a noun are keyed by lines (mappings from numbers), and which are lines, by their names."""
    hints = typing.get_type_hints(cls, vars(sys.modules[cls.__module__]))
    return {field.name: _kind(field.name, hints[field.name]) for field in dataclasses.fields(cls)}


def _kind(name: str, hint: Any) -> Kind:
    if any(
        typing.get_origin(one) is Mapping and typing.get_args(one)[0] is int for one in (hint, *typing.get_args(hint))
    ):
        return "by-line"
    return "line" if re.search(r"(^|_)lines?$", name) or name in _LOOPS else "other"


def _moved(value: T, by: int) -> T:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changes: dict[str, Any] = {}
    for name, kind in kinds(type(value)).items():
        held = getattr(value, name)
        if kind == "by-line" and held is not None:
            changes[name] = {line + by: _moved(facts, by) for line, facts in held.items()}
        elif kind == "line":
            changes[name] = _line(held, by)
        elif name in _SENTENCES and isinstance(held, str):
            changes[name] = _SAID.sub(lambda found: f"line {int(found[1]) + by}", held)
        elif isinstance(held, tuple):
            changes[name] = tuple(_moved(one, by) for one in held)
        elif dataclasses.is_dataclass(held):
            changes[name] = _moved(held, by)
    return dataclasses.replace(value, **changes)


def _line(held: Any, by: int) -> Any:
    if isinstance(held, tuple):
        return tuple(_line(one, by) for one in held)
    return held + by if isinstance(held, int) else held
