"""From a parsed table to checked values. Each key has one row in a table: its type, its check, what it must be."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tritonforge.config.lines import Path, ValuePlace, line_of
from tritonforge.config.settings import LaunchTable, SettingProblem
from tritonforge.domain.rule_names import wrong_code


@dataclass(frozen=True)
class Rule:
    """What a value must be. `check` returns the value to keep, or raises ValueError when it is not `expected`."""

    expected: str
    check: Callable[[Any], Any]


@dataclass
class Source:
    """The text that values come from, to say where a problem stands; collects the problems."""

    name: str
    index: Mapping[Path, int] = field(default_factory=dict)
    values: Mapping[Path, ValuePlace] = field(default_factory=dict)
    prefix: Path = ()
    problems: list[SettingProblem] = field(default_factory=list)

    def line(self, path: Path) -> int | None:
        """Return the line of `path`, where there is one."""
        return line_of(self.index, (*self.prefix, *path))

    def places(self, path: Path) -> dict[Path, ValuePlace]:
        """Return the places of the values below `path`, by the rest of their own path."""
        whole = (*self.prefix, *path)
        return {key[len(whole) :]: place for key, place in self.values.items() if key[: len(whole)] == whole}

    def report(self, path: Path, message: str, mend: str = "") -> None:
        """Note a problem at `path`."""
        self.problems.append(SettingProblem(self.name, self.line(path), message, mend))


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a sentence that offers the nearest of `known`, or lists them all after `otherwise`."""
    names = sorted(known)
    # Case and the choice between - and _ are the commonest slips.
    same = [n for n in names if n.lower().replace("_", "-") == word.lower().replace("_", "-")]
    close = same or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"Did you mean '{close[0]}'?" if close else f"{otherwise}: {', '.join(names)}."


def check_table(table: Mapping[str, Any], rules: Mapping[str, Rule], path: Path, source: Source) -> dict[str, Any]:
    """Return the values of `table` that keep their rule; report the others and the unknown keys."""
    kept: dict[str, Any] = {}
    for key, value in table.items():
        here = (*path, key)
        rule = rules.get(key)
        if rule is None:
            source.report(here, f"unknown key '{key}' in {_title(path)}.", did_you_mean(key, rules, "Known keys"))
            continue
        try:
            kept[key] = rule.check(value)
        except ValueError as error:
            said = str(error)
            if said.endswith((".", "?")):  # a sentence of its own, with the mend
                source.report(here, f"'{key}' in {_title(path)}: {said}")
                continue
            if said and isinstance(value, (list, dict)):
                why = f": {said}"  # the kind alone says nothing where it is an entry that is wrong
            else:
                why = f", not {_shown(value)}" + (f" ({said})" if said else "")
            source.report(here, f"'{key}' in {_title(path)} must be {rule.expected}{why}.")
    return kept


def check_launches(tables: list[dict[str, Any]], source: Source) -> tuple[LaunchTable, ...]:
    """Check what every `[[launch]]` table must have; the rest of it is `workload`'s to interpret."""
    out: list[LaunchTable] = []
    for number, table in enumerate(tables):
        path: Path = ("launch", number)
        if not _is_text(table.get("file")):
            source.report((*path, "file"), "[[launch]] needs 'file'.", 'Add file = "path/to/kernels.py".')
            continue
        if ("kernel" in table) == ("function" in table):
            source.report(
                path,
                "[[launch]] needs either 'kernel' or 'function'.",
                "Name the kernel to launch directly, or the host function to call.",
            )
            continue
        subject = "kernel" if "kernel" in table else "function"
        if not _is_text(table[subject]):
            source.report((*path, subject), f"'{subject}' in [[launch]] must be a name, not {_shown(table[subject])}.")
            continue
        rest = {k: v for k, v in table.items() if k not in {"file", "kernel", "function"}}
        out.append(
            LaunchTable(
                file=table["file"],
                kernel=table.get("kernel"),
                function=table.get("function"),
                values=rest,
                source=source.name,
                line=source.line(path) or 0,
                places=source.places(path),
            )
        )
    return tuple(out)


def text(value: Any) -> str:
    """Accept a string that is not empty."""
    if not _is_text(value):
        raise ValueError
    return str(value)


def texts(value: Any) -> tuple[str, ...]:
    """Accept a list of strings that are not empty."""
    if not isinstance(value, list) or not all(_is_text(v) for v in value):
        raise ValueError
    return tuple(value)


def one_of(*choices: str) -> Callable[[Any], str]:
    """Accept one of `choices`."""

    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return check


def matching(pattern: str) -> Callable[[Any], str]:
    """Accept a string that `pattern` matches whole."""
    compiled = re.compile(pattern)

    def check(value: Any) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise ValueError
        return value

    return check


def codes(value: Any) -> tuple[str, ...]:
    """Accept a list of rule codes or prefixes of codes."""
    out = texts(value)
    for code in out:
        wrong = wrong_code(code)
        if wrong is not None:
            raise ValueError(wrong)
    return tuple(code.upper() for code in out)


Dated = tuple[str, str | None]
"""A code, and the last day on which it is ignored; None: for ever."""


def dated_codes(value: Any) -> tuple[Dated, ...]:
    """Accept a list of rule codes or prefixes, each alone or with a day: `TF203 until 2027-03-01`."""
    return tuple(_dated(one) for one in texts(value))


def _dated(text: str) -> Dated:
    code, _, rest = text.strip().partition(" ")
    (code,) = codes([code])
    if not rest.strip():
        return code, None
    word, _, day = rest.strip().partition(" ")
    try:
        dt.date.fromisoformat(day.strip() if word == "until" else "")
    except ValueError:
        raise ValueError(f"{text!r} is neither a code nor a code with a day") from None
    return code, day.strip()


def file_codes(value: Any) -> tuple[tuple[str, tuple[Dated, ...]], ...]:
    """Accept a table from file patterns to lists of codes."""
    return tuple((pattern, dated_codes(listed)) for pattern, listed in table(value).items())


def whole(low: int, high: int) -> Callable[[Any], int]:
    """Accept a whole number from `low` to `high`."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError
        return value

    return check


def seconds(value: Any) -> float:
    """Accept a number of seconds above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError
    return float(value)


def number(*, above: float | None = None, most: float = 1e12) -> Callable[[Any], float]:
    """Accept a number from 0 to `most`; with `above`, a larger one than that."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise ValueError
        if above is not None and value <= above:
            raise ValueError
        return float(value)

    return check


def boolean(value: Any) -> bool:
    """Accept true or false."""
    if not isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - every check says "does not fit" the same way
    return value


def or_none(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Accept what `inner` accepts, or the text "none", which stands for no value."""

    def check(value: Any) -> Any:
        return None if value == "none" else inner(value)

    return check


def headers(value: Any) -> dict[str, str]:
    """Accept a table of HTTP headers; variables are read only where their name says that they are meant for this."""
    out: dict[str, str] = {}
    for name, content in table(value).items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not _is_text(content) or not content.isprintable():
            raise ValueError(f"{name!r} is no header")
        if content.startswith("env:") and not re.fullmatch(r"env:TRITONFORGE_LLM_[A-Z0-9_]+", content):
            raise ValueError("a variable's name must begin with TRITONFORGE_LLM_")
        out[name] = content
    return out


_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def size(value: Any) -> int:
    """Accept a size in bytes: a whole number, or a text such as `8 GiB`."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", value) if isinstance(value, str) else None
    if found is None or found[2].upper() not in _UNITS or float(found[1]) <= 0:
        raise ValueError
    return int(float(found[1]) * _UNITS[found[2].upper()])


def size_up_to(most: int) -> Callable[[Any], int]:
    """Accept a size of at most `most` bytes."""

    def check(value: Any) -> int:
        found = size(value)
        if found > most:
            raise ValueError
        return found

    return check


def table(value: Any) -> dict[str, Any]:
    """Accept a table."""
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - every check says "does not fit" the same way
    return value


def tables(value: Any) -> list[dict[str, Any]]:
    """Accept an array of tables."""
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise ValueError
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _title(path: Path) -> str:
    return f"[{'.'.join(str(p) for p in path)}]" if path else "the top table"


def _shown(value: Any) -> str:
    shown = (
        repr(value) if isinstance(value, str | int | float) else f"a {_KINDS.get(type(value), type(value).__name__)}"
    )
    return shown if len(shown) <= 60 else shown[:57] + "…"


_KINDS: dict[type, str] = {dict: "table", list: "list"}
