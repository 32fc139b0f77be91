"""`# tritonforge: …` comments: launch specs and suppressions, and those that are neither."""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from dataclasses import dataclass

from tritonforge.analysis.scopes import ModuleIndex
from tritonforge.analysis.text import SourceText
from tritonforge.domain.kernel import CommentProblem, SpecComment, Suppression
from tritonforge.domain.rule_names import wrong_code
from tritonforge.domain.source import Range

_MARK = "tritonforge:"
_WORDS = ("ignore", "launch")
_DIRECTIVE = re.compile(r"#\s*tritonforge:\s*([\w-]*)(.*)")
_CONTINUATION = re.compile(r"\s*#(?:[ ]{3}|\t)\s*(\S.*)")
# Codes stand in brackets; one that is never closed ends with the comment, and codes without brackets are codes, too: a
# slip of the pen must not silence everything, and neither must a code that there is not (`TF3O4`).
_IGNORE = re.compile(
    r"\s*(?:(?P<open>\[|\((?=\s*TF))(?P<codes>[^\])]*?)(?:[\])]|(?=\s*\buntil\b)|$)"
    r"|:?\s*(?P<bare>TF(?:\d\w*)?(?:[\s,]+TF(?:\d\w*)?)*)\b)?"
    r"(?:\s*\buntil\b:?\s*(?P<until>\S*?)[,.;:)]*(?=\s|$))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Directive:
    """One comment: its place, its word (`launch`, `ignore`), what follows, and whether it has the line to itself.

    `column` is that of the `#`, `word_column` that of the word, `rest_column` that of the first character of `rest`.
    The word is empty where something else stands in its place.
    """

    line: int
    column: int
    word: str
    rest: str
    alone: bool
    rest_column: int = 1
    word_column: int = 1


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
            columns = offset + 1 + shift, begin + 1 + shift, match.start(1) + 1 + shift
            found.append(Directive(line, columns[0], match[1], rest, alone, columns[1], columns[2]))
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


def comment_problems(directives: tuple[Directive, ...], file: str) -> tuple[CommentProblem, ...]:
    """Return what of the comments does nothing: words that are no directive, and codes that are no rule's."""
    found: list[CommentProblem] = []

    def report(directive: Directive, column: int, length: int, message: str) -> None:
        end = column + max(length, 1)
        found.append(CommentProblem(file, Range.of(directive.line, column, directive.line, end), message))

    for directive in directives:
        if directive.word not in _WORDS:
            close = difflib.get_close_matches(directive.word.lower(), _WORDS, n=1)
            mend = f"Did you mean '{close[0]}'?" if close else "Known words: ignore, launch."
            said = f"'{directive.word}' is no directive" if directive.word else "no directive stands here"
            length = len(directive.word) or len(directive.rest)
            report(directive, directive.word_column, length, f"{said}. {mend}")
        elif directive.word == "ignore" and (match := _IGNORE.match(directive.rest)) is not None:
            group = "codes" if match["open"] else "bare"
            codes = list(re.finditer(r"[^\s,]+", match[group] or ""))
            if match["open"] and not codes:
                message = "no rule is named between the brackets, so nothing is ignored. Write ignore[TF203]."
                report(directive, directive.rest_column, match.end() - match.start(), message)
            for code in codes:
                message_of = wrong_code(code[0], names=True)
                if message_of is not None:
                    report(
                        directive, directive.rest_column + match.start(group) + code.start(), len(code[0]), message_of
                    )
    return tuple(found)


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
