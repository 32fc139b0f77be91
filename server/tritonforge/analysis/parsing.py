"""Text → `ast.Module`, with cheap recovery so that a half-typed file keeps the kernels of its whole parts."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tritonforge.analysis.scopes import ModuleIndex
from tritonforge.analysis.text import SourceText

if TYPE_CHECKING:
    from tritonforge.analysis.links import Known

_ATTEMPTS = 12
_LONG_FILE = 4000
"""Lines above which recovery gives up earlier: every attempt parses the whole file again."""
_MORE_LINES = 64
"""Lines that are read at first to see whether a string that was opened above them makes sense of them."""

_BLOCK_START = re.compile(r"[A-Za-z_@]")
_MISSING_BODY = re.compile(r"expected an indented block after .* on line (\d+)$")
_CONTINUES = re.compile(r"(else|elif|except|finally)\b")


@dataclass(frozen=True)
class ParseFailure:
    """Where the parser gave up (1-based line) and what it said."""

    line: int
    message: str


@dataclass
class Parsed:
    """A file as it was parsed: the tree (None when nothing could be saved) and why it is not the whole file's.

    `written` are the file's lines, `lines` those that the tree was made of. Lines of the tree are lines of the file.
    `index` is what was last found in this tree, perhaps before an edit. `places` holds, by the id of a statement, the
    attributes of those of its nodes that stand on a line, once it was moved; `kernels`, by the id of a `def`, what was
    last found of it.
    """

    tree: ast.Module | None
    failure: ParseFailure | None
    written: list[str]
    lines: list[str]
    index: ModuleIndex | None = None
    places: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    kernels: dict[int, Known] = field(default_factory=dict)


def parse_source(text: SourceText) -> tuple[ast.Module | None, ParseFailure | None]:
    """Parse `text`; when that fails, parse what is left after taking out the broken lines.

    Returns the tree (None when nothing could be saved) and the first failure (None when the file is whole). Lines of
    the tree are lines of `text` either way.
    """
    parsed = parse_lines(text.lines)
    return parsed.tree, parsed.failure


def parse_lines(written: list[str], above: int = 0) -> Parsed:
    """Parse lines as `parse_source` does; `above` more lines stand before them in the file, whose numbers count."""
    lines = list(written)
    first: ParseFailure | None = None
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            first = first or ParseFailure(number + above, "the file contains a null byte")
            lines[number - 1] = line.replace("\0", " ")
    if not _encodable(lines):
        for number, line in enumerate(lines, 1):
            if not _encodable([line]):
                first = first or ParseFailure(number + above, "the text contains half of a surrogate pair")
                lines[number - 1] = "".join("?" if "\ud800" <= c <= "\udfff" else c for c in line)
    tried: set[int] = set()
    for _ in range(_ATTEMPTS if len(lines) < _LONG_FILE else 4):
        outcome = _try_parse("\n" * above + "\n".join(lines))
        if isinstance(outcome, ast.Module):
            return Parsed(outcome, first, written, lines)
        first = first or outcome
        if outcome.line < 1:  # too deeply nested: there is no line to take out
            return Parsed(None, ParseFailure(1, outcome.message), written, lines)
        broken = max(outcome.line - above, 1)
        start, end = _block_around(lines, _owner_line(outcome, broken, above))
        if not any(lines[i].strip() for i in range(start, end)):
            break
        block = lines[start:end]
        if start in tried or not _mend(block, ParseFailure(min(broken, end + 1) - start, outcome.message)):
            block = [""] * len(block)
        tried.add(start)
        lines[start:end] = block
    return Parsed(None, first, written, lines)


def cannot_parse(lines: list[str], certain: int) -> bool:
    """Tell whether lines are no whole program, reading as little below the first `certain` lines as that takes.

    The parser reads from left to right: what it stumbles over well above the end of the lines that it is given would
    make it stumble whatever follows. What is only open there may still be closed.
    """
    count = certain + _MORE_LINES
    while True:
        outcome = _try_parse("\n".join(lines[:count]))
        if isinstance(outcome, ast.Module):
            if count >= len(lines):
                return False
        elif count >= len(lines) or _is_final(outcome, lines[:count]):
            return True
        elif outcome.message.startswith("unterminated triple"):
            # Told of first, wherever the string is: what stands above it may be wrong all the same.
            above = lines[: outcome.line - 1]
            outcome = _try_parse("\n".join(above))
            if isinstance(outcome, ParseFailure) and _is_final(outcome, above):
                return True
        count += count


def _is_final(failure: ParseFailure, lines: list[str]) -> bool:
    """Tell whether no lines below could mend what fails."""
    said = failure.message
    if failure.line < 1 or said.startswith(("expected ", "unterminated ", "unexpected EOF")) or "never closed" in said:
        return False
    last = next((n for n in range(len(lines), 0, -1) if lines[n - 1].strip() and lines[n - 1].lstrip()[0] != "#"), 0)
    return failure.line < last


def _owner_line(failure: ParseFailure, broken: int, above: int) -> int:
    """Return the line whose block is broken: a body that is missing is told of at the line after it."""
    after = _MISSING_BODY.match(failure.message)
    return max(int(after[1]) - above, 1) if after is not None else broken


def _mend(block: list[str], failure: ParseFailure) -> bool:
    """Mend the broken lines of one top-level block until it parses by itself; False when that does not help.

    The rest of the file is not parsed again for each line: people type in one place.
    """
    before = 0
    for _ in range(_ATTEMPTS):
        # A line that stays broken after it was replaced belongs to a larger broken thing.
        if failure.line <= before or not _mend_line(block, failure):
            return False
        before = failure.line
        outcome = _try_parse("\n".join(block))
        if isinstance(outcome, ast.Module):
            return True
        failure = outcome
    return False


def _encodable(lines: list[str]) -> bool:
    try:
        "".join(lines).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SystemError:
        # CPython counts the depth of its tree for all threads together, and takes what ran between for a mismatch
        # ("AST constructor recursion depth mismatch"): nothing is wrong with the source.
        return ast.parse(source)


def _try_parse(source: str) -> ast.Module | ParseFailure:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _parsed(source)
    except SyntaxError as error:
        if "too many nested" in (error.msg or ""):
            return ParseFailure(error.lineno or 1, error.msg)
        return ParseFailure(error.lineno or 1, error.msg or "invalid syntax")
    except (RecursionError, MemoryError):
        return ParseFailure(0, "the code is nested too deeply to analyse")
    except ValueError as error:
        return ParseFailure(1, str(error))


def _mend_line(lines: list[str], failure: ParseFailure) -> bool:
    """Replace the broken line by `pass`, or give an empty block one; False when that cannot help."""
    at = min(failure.line, len(lines)) - 1
    if failure.message.startswith("expected an indented block"):
        above = failure.line - 2 if failure.line <= len(lines) else len(lines) - 1
        above = min(above, len(lines) - 1)
        while above >= 0 and (not lines[above].strip() or lines[above].lstrip().startswith("#")):
            above -= 1
        if above >= 0 and lines[above].rstrip().endswith(":"):
            lines[above] = lines[above].rstrip() + " pass"
            return True
        return False
    line = lines[at]
    if failure.message.startswith(("unindent", "unexpected indent")):
        lines[at] = ""
        return bool(line.strip())
    body = line.lstrip()
    if not body or not line[: len(line) - len(body)]:
        return False  # at top level the whole block is what is broken
    replacement = line[: len(line) - len(body)] + "pass"
    if line.rstrip().endswith(":") or line == replacement:
        return False
    lines[at] = replacement
    return True


def _block_around(lines: list[str], line: int) -> tuple[int, int]:
    """Return the top-level block around `line` (from 1), its decorators included: first and last index, half-open."""
    start = min(line, len(lines)) - 1
    while start > 0 and not _starts_block(lines[start]):
        start -= 1
    while start > 0 and lines[start - 1].startswith("@"):
        start -= 1
    end = start + 1
    if lines[start].startswith("@"):
        while end < len(lines) and not re.match(r"(async\s+)?def\b|class\b", lines[end - 1]):
            end += 1
    end = max(end, min(line, len(lines)))
    while end < len(lines) and not _starts_block(lines[end]):
        end += 1
    return start, end


def _starts_block(line: str) -> bool:
    return _BLOCK_START.match(line) is not None and _CONTINUES.match(line) is None
