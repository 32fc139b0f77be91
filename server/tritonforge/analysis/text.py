r"""Source bytes → text, and `ast` offsets → ranges in code points.

Lines end where Python's own reader ends them (`\n`, `\r\n`, `\r`), so a form feed or a line separator inside a line
moves nothing. Columns count code points from 1, a tab as one.
"""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import unicodedata

from tritonforge.domain.source import Position, Range

_LINE_END = re.compile(r"\r\n|\r|\n")
_BOM = "\ufeff"
_WORD = re.compile(r"[^\W\d]\w*")


def decode_source(source: bytes) -> tuple[str, tuple[int, str] | None]:
    """Decode a Python file as Python would: a byte-order mark, else a PEP 263 cookie, else UTF-8.

    Returns the text (without the mark) and, when something does not decode, the 1-based line and what is wrong there;
    the text then carries U+FFFD in place of each bad byte.
    """
    problem: tuple[int, str] | None = None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError as error:
        encoding = "utf-8-sig" if source.startswith(codecs.BOM_UTF8) else "utf-8"
        if "invalid or missing encoding declaration" not in str(error):
            problem = (_cookie_line(source), f"{error.msg}; read as UTF-8")
    try:
        return source.decode(encoding), problem
    except UnicodeDecodeError as error:
        line = len(_LINE_END.findall(source[: error.start].decode("latin-1"))) + 1
        bad = source[error.start : error.start + 1].hex()
        problem = problem or (line, f"byte 0x{bad} is not {encoding}; declare the file's encoding or save it as UTF-8")
        return source.decode(encoding, errors="replace"), problem
    except LookupError:
        return source.decode("utf-8", errors="replace"), problem


def _cookie_line(source: bytes) -> int:
    return 2 if b"coding" in source.split(b"\n", 2)[1:2] else 1


def words(text: str) -> frozenset[str]:
    """Return every name in a text, and other words, in the composed form that the parser reads names in."""
    return frozenset(_WORD.findall(text if text.isascii() else unicodedata.normalize("NFKC", text)))


class SourceText:
    """The text of one file, cut into lines, that turns `ast` nodes into ranges and exact source text."""

    def __init__(self, text: str) -> None:
        self.text = text
        # A mark that is still in the text takes a column of line 1 there, but the parser must not see it.
        self._shift = 1 if text.startswith(_BOM) else 0
        content = text[self._shift :]
        self.lines: list[str] = _LINE_END.split(content) if "\r" in content else content.split("\n")
        self._bytes: dict[int, bytes | None] = {}
        self._ascii = text.isascii()

    @property
    def is_marked(self) -> bool:
        """Whether the text begins with a byte-order mark."""
        return self._shift > 0

    def _utf8(self, line: int) -> bytes | None:
        """Return line `line` (from 1) in UTF-8, or None when it is ASCII and bytes are code points."""
        if line not in self._bytes:
            content = self.lines[line - 1] if line <= len(self.lines) else ""
            self._bytes[line] = None if content.isascii() else content.encode("utf-8", "replace")
        return self._bytes[line]

    def column(self, line: int, offset: int) -> int:
        """Turn a UTF-8 byte offset on a line into a 1-based column in code points."""
        if self._ascii:
            return offset + 1
        raw = self._utf8(line)
        points = offset if raw is None else len(raw[:offset].decode("utf-8", "ignore"))
        return points + 1 + (self._shift if line == 1 else 0)

    def range(self, node: ast.AST) -> Range:
        """Return the range of a node that carries positions."""
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start = Position(line, self.column(line, node.col_offset))  # type: ignore[attr-defined]
        return Range(start, Position(end_line, self.column(end_line, node.end_col_offset)))  # type: ignore[attr-defined]

    def segment(self, node: ast.AST) -> str:
        """Return the exact source text of a node, line ends as a newline each."""
        line: int = node.lineno  # type: ignore[attr-defined]
        if self._ascii and line == node.end_lineno:  # type: ignore[attr-defined]
            return self.lines[line - 1][node.col_offset : node.end_col_offset]  # type: ignore[attr-defined]
        return self.slice(self.range(node))

    def slice(self, where: Range) -> str:
        """Return the text of a range, line ends as a newline each."""
        first, last = where.start.line, where.end.line
        start = where.start.column - 1 - (self._shift if first == 1 else 0)
        end = where.end.column - 1 - (self._shift if last == 1 else 0)
        if first == last:
            return self.lines[first - 1][start:end]
        inner = self.lines[first : last - 1]
        return "\n".join([self.lines[first - 1][start:], *inner, self.lines[last - 1][:end]])

    def definition_range(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Range:
        """Return the range of a definition with its decorators, from the first `@`."""
        whole = self.range(node)
        if not node.decorator_list:
            return whole
        first = self.range(node.decorator_list[0]).start
        shift = self._shift if first.line == 1 else 0
        at = self.lines[first.line - 1].rfind("@", 0, first.column - 1 - shift)
        line = first.line
        while at < 0 and line > 1:  # `@` and its expression on two lines: `@(\n  jit)`
            line -= 1
            at = self.lines[line - 1].rfind("@")
        shift = self._shift if line == 1 else 0
        return Range(Position(line, max(at, 0) + 1 + shift), whole.end)

    def name_range(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Range:
        """Return the range of the name after `def` or `class`."""
        start = self.range(node).start
        shift = self._shift if start.line == 1 else 0
        line = start.line
        found = re.compile(r"\b" + re.escape(node.name) + r"\b").search(
            self.lines[line - 1], start.column - 1 - shift + 3
        )
        while found is None and line < (node.end_lineno or line):  # `def \` and the name on the next line
            line += 1
            found = re.search(r"\b" + re.escape(node.name) + r"\b", self.lines[line - 1])
        if found is None:
            return Range(start, Position(start.line, start.column + 3))
        shift = self._shift if line == 1 else 0
        return Range.of(line, found.start() + 1 + shift, line, found.end() + 1 + shift)
