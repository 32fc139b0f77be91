"""`# tritonforge: …` comments: launch specs and suppressions."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass

from tritonforge.analysis.scopes import ModuleIndex
from tritonforge.analysis.text import SourceText
from tritonforge.domain.kernel import SpecComment, Suppression

_MARK = "tritonforge:"
_DIRECTIVE = re.compile(r"#\s*tritonforge:\s*(\w+)(.*)")
_CONTINUATION = re.compile(r"\s*#(?:[ ]{3}|\t)\s*(\S.*)")
# Codes stand in brackets; one that is never closed ends with the comment, and codes without brackets are codes, too: a
# slip of the pen must not silence everything.
_IGNORE = re.compile(
    r"\s*(?:(?P<open>\[)(?P<codes>[^\]]*?)(?:\]|(?=\s*\buntil\b)|$)|:?\s*(?P<bare>TF\d*(?:[\s,]+TF\d*)*)\b)?"
    r"(?:\s*\buntil\b:?\s*(?P<until>\S*?)[,.;:)]*(?=\s|$))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Directive:
    """One comment: its place, its word (`launch`, `ignore`), what follows, and whether it has the line to itself.

    `column` is that of the `#`, `rest_column` that of the first character of `rest`.
    """

    line: int
    column: int
    word: str
    rest: str
    alone: bool
    rest_column: int = 1


def find_directives(text: SourceText) -> tuple[Directive, ...]:
    """Return every `# tritonforge: …` comment; text in strings that looks like one is none."""
    if _MARK not in text.text:
        return ()
    found: list[Directive] = []
    for line, offset in _comments(text):
        content = text.lines[line - 1]
        match = _DIRECTIVE.match(content, offset)
        if match is not None:
            shift = 1 if line == 1 and text.text.startswith("\ufeff") else 0
            alone = not content[:offset].strip()
            rest = match[2].strip()
            begin = match.start(2) + len(match[2]) - len(match[2].lstrip())
            found.append(Directive(line, offset + 1 + shift, match[1], rest, alone, begin + 1 + shift))
    return tuple(found)


def _comments(text: SourceText) -> list[tuple[int, int]]:
    """Return (line, 0-based column) of each comment, from the tokenizer as far as it gets and by eye below that."""
    found: list[tuple[int, int]] = []
    reached = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(text.lines)).readline):
            reached = max(reached, token.start[0])
            if token.type == tokenize.COMMENT:
                found.append(token.start)
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        for number, line in enumerate(text.lines[reached:], reached + 1):
            match = _DIRECTIVE.search(line)
            if match is not None:
                found.append((number, match.start()))
    return found


def read_specs(directives: tuple[Directive, ...], index: ModuleIndex, text: SourceText) -> tuple[SpecComment, ...]:
    """Return the launch specs, each with the function whose definition follows it."""
    launches = [d for d in directives if d.word == "launch"]
    if not launches:
        return ()
    starts: dict[int, str] = {}
    for scope in index.functions():
        assert isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        starts[text.definition_range(scope.node).start.line] = scope.qualname
        for decorator in scope.node.decorator_list:  # between decorators is above the function too
            starts[decorator.lineno] = scope.qualname
        starts[scope.node.lineno] = scope.qualname
    return tuple(
        SpecComment(d.line, d.rest_column, _with_continuation(d, text), _function_below(d.line, starts, text))
        for d in launches
    )


def _with_continuation(directive: Directive, text: SourceText) -> str:
    """Return the words of a directive with those of the comment lines below it that have three blanks after their `#`.

    A continued line keeps its columns: blanks stand for its comment sign.
    """
    parts = [directive.rest]
    if directive.alone:
        for line in text.lines[directive.line :]:
            match = _CONTINUATION.fullmatch(line)
            if match is None or match[1].startswith(_MARK):
                break
            parts.append(" " * match.start(1) + match[1].rstrip())
    return "\n".join(parts)


def _function_below(line: int, starts: dict[int, str], text: SourceText) -> str | None:
    below = line + 1
    while below <= len(text.lines):
        if below in starts:
            return starts[below]
        content = text.lines[below - 1].strip()
        if content and not content.startswith("#"):
            return None
        below += 1
    return None


def read_suppressions(directives: tuple[Directive, ...]) -> tuple[tuple[Suppression, bool], ...]:
    """Return each suppression with whether it has its line to itself (and so may stand for a whole kernel)."""
    found: list[tuple[Suppression, bool]] = []
    for directive in directives:
        match = _IGNORE.match(directive.rest)
        if directive.word == "ignore" and match is not None:
            listed = re.split(r"[\s,]+", match["codes"] or match["bare"] or "")
            # A rule goes by its code or by its name.
            codes = tuple(one.upper() if one.upper().startswith("TF") else one.lower() for one in listed if one)
            if match["open"] and not codes:
                continue  # brackets without a code ignore nothing
            found.append((Suppression(directive.line, codes, until=match["until"]), directive.alone))
    return tuple(found)


def above(line: int, text: SourceText) -> range:
    """Return the comment lines directly above `line` (no blank line between)."""
    first = line
    while first > 1 and text.lines[first - 2].lstrip().startswith("#"):
        first -= 1
    return range(first, line)
