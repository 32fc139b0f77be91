"""Facts of a kernel that has only moved in its file stand on the lines where it is now."""

import dataclasses
import typing

from tritonforge.compilation.moved import kinds, moved
from tritonforge.domain.compilation import Compilation, LineInstructions, LineWork, Work

BY_LINE = {"instructions", "lines"}
"""Fields that map lines to facts."""


def parts(kind, seen):
    """Return every dataclass that `kind` may hold, `kind` included."""
    if dataclasses.is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for hint in typing.get_type_hints(kind).values():
            parts(hint, seen)
    for argument in typing.get_args(kind):
        parts(argument, seen)
    return seen


def test_every_fact_moves_with_its_line():
    before = Compilation(
        "L", "k", "sm_90", "3.7.1",
        instructions={5: LineInstructions({"fma": 2})},
        work=Work({5: LineWork(1.0), 6: LineWork(2.0)}, iterations=4.0),
    )  # fmt: skip
    after = moved(before, 3)
    assert after.instructions == {8: LineInstructions({"fma": 2})}
    assert after.work.lines == {8: LineWork(1.0), 9: LineWork(2.0)}
    assert after.work.iterations == 4.0
    assert moved(after, -3) == before


def test_the_line_that_an_error_names_moves_too():
    broken = Compilation("L", "k", "sm_90", "3.7.1", error="k does not compile: line 12: no such name")
    assert moved(broken, -2).error == "k does not compile: line 10: no such name"


def test_numbers_that_facts_are_kept_by_are_lines():
    keyed = {name for part in parts(Compilation, set()) for name, kind in kinds(part).items() if kind == "by-line"}
    assert keyed == BY_LINE, "a mapping from other numbers than lines must not move: say so in compilation/moved.py"


def test_what_is_called_a_line_is_one():
    named = {
        (part, name)
        for part in parts(Compilation, set())
        for name, kind in kinds(part).items()
        if "line" in name and kind == "other"
    }
    assert not named
