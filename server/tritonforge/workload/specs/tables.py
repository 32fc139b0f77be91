"""`[[launch]]` tables → `Call`s: each key says what `name=value` says in a comment, and is read by the same parser.

A string is read as a spec's value (`x = "fp16[M, K]"`), a number or boolean is one, an array is a list, and the
table `sizes` chooses: `sizes = { M = [1, 128, 4096], N = "128..4096 step *2" }`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tritonforge.config import LaunchTable
from tritonforge.domain.launch import Call
from tritonforge.workload.specs.calls import Subject, calls_of
from tritonforge.workload.specs.errors import Place
from tritonforge.workload.specs.parsing import parse_options, parse_value
from tritonforge.workload.specs.syntax import Choice, Constant, Given, Node, Sequence, Spec

_SIZES = "sizes"


def table_calls(table: LaunchTable, subject: Subject) -> tuple[Call, ...]:
    """Return the calls that a table describes.

    Raises:
        SpecError: with file, line and column of the character in the TOML file that is wrong; of the value that it
            stands in where the text there is not the file's own (a string with escapes, an inline table).
    """
    leaves = list(_leaves(table.values))
    pieces: list[tuple[int, Place]] = []
    end = 0
    for path, value in leaves:
        text = value if isinstance(value, str) else ""
        pieces.append((end, _place(path, text, table)))
        end += len(text) + 1
    whole = Place(table.source, " " * end, max(table.line, 1), 1, exact=False, pieces=tuple(pieces))
    items = [_item(path, value, at, whole) for (path, value), (at, _) in zip(leaves, pieces, strict=True)]
    return calls_of(Spec(tuple(items), max(end - 1, 0)), subject, whole)


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        if name == _SIZES and isinstance(value, dict):
            yield from (((name, size), options) for size, options in value.items())
        else:
            yield (name,), value


def _place(path: tuple[str, ...], text: str, table: LaunchTable) -> Place:
    own, around = table.places.get(path), table.places.get(path[:1])
    found = own or around
    if found is None:
        return Place(table.source, text, max(table.line, 1), 1, exact=False)
    return Place(table.source, text, found.line, found.column, exact=own is not None and own.exact)


def _item(path: tuple[str, ...], value: Any, at: int, whole: Place) -> Given | Choice:
    name = path[-1]
    if len(path) == 1:
        return Given(at, name, _node(name, value, at, whole))
    if isinstance(value, str):
        return parse_options(" " * at + value, whole, name, at)
    if isinstance(value, list) and value:
        return Choice(at, ((name, at),), tuple(_node(name, item, at, whole) for item in value))
    raise whole.error(at, f"{name} needs several values.", 'As in sizes = { M = [1, 128, 4096], N = "1..64 step *2" }.')


def _node(name: str, value: Any, at: int, whole: Place) -> Node:
    if isinstance(value, bool | int | float):
        return Constant(at, value)
    if isinstance(value, str):
        return parse_value(" " * at + value, whole)
    if isinstance(value, list):
        return Sequence(at, "list", tuple(_node(name, item, at, whole) for item in value))
    raise whole.error(
        at, f"{name} must be a text, a number, a boolean or a list of those.", 'As in x = "fp16[4096, 4096]".'
    )
