"""Source text with the syntax tree of it, and the way between tree positions, nouns' positions and offsets.

`ast` counts columns in UTF-8 bytes and lines from 1; `domain.Position` counts both from 1, columns in code points;
`domain.Edit` counts code points from the start of the file. Lines end at LF, CR LF or CR and nowhere else (as the
Python tokenizer has it; `str.splitlines` also breaks at form feeds and U+2028).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cached_property

from tritonforge.domain.source import Edit, Position, Range

_LINE_END = re.compile(r"\r\n|\r|\n")

Located = ast.expr | ast.stmt | ast.keyword | ast.arg | ast.excepthandler


class Source:
    """One file's text, parsed. Immutable; all derived facts are computed on first use.

    Raises:
        SyntaxError: when the text is not Python that this interpreter can parse.
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.tree = ast.parse(text, filename=file)

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offsets at which lines start."""
        return (0, *(m.end() for m in _LINE_END.finditer(self.text)))

    @cached_property
    def newline(self) -> str:
        """The line ending most used in the file."""
        found = _LINE_END.findall(self.text)
        return max(("\n", "\r\n", "\r"), key=found.count) if found else "\n"

    def line_text(self, line: int) -> str:
        """Return line `line` (from 1) without its ending."""
        start = self.line_starts[line - 1]
        match = _LINE_END.search(self.text, start)
        return self.text[start : match.start() if match else len(self.text)]

    def offset(self, position: Position) -> int:
        """Return the offset of `position`."""
        return self.line_starts[position.line - 1] + position.column - 1

    def line_of(self, offset: int) -> int:
        """Return the line (from 1) that holds `offset`."""
        low, high = 0, len(self.line_starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.line_starts[middle] <= offset else (low, middle)
        return low + 1

    def _of_bytes(self, line: int, column: int) -> int:
        text = self.line_text(line)
        if not text.isascii():
            column = len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "surrogatepass"))
        return self.line_starts[line - 1] + column

    def span(self, node: Located) -> tuple[int, int]:
        """Return start and end offset of `node`."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._of_bytes(node.lineno, node.col_offset), self._of_bytes(node.end_lineno, node.end_col_offset)

    def segment(self, node: Located) -> str:
        """Return the text of `node` as written."""
        start, end = self.span(node)
        return self.text[start:end]

    def offsets_of(self, span: Range) -> tuple[int, int]:
        """Return start and end offset of a noun's range."""
        return self.offset(span.start), self.offset(span.end)

    def replace(self, node: Located, text: str) -> Edit:
        """Return the edit that puts `text` in place of `node`."""
        start, end = self.span(node)
        return Edit(self.file, start, end, text)

    def insert(self, offset: int, text: str) -> Edit:
        """Return the edit that inserts `text` at `offset`."""
        return Edit(self.file, offset, offset, text)

    @cached_property
    def tokens(self) -> tuple[tuple[int, int, int, str], ...]:
        """All tokens as (type, start offset, end offset, text), without indentation and end markers."""
        skip = {tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
        # Lines are handed over one by one, as the parser splits them; newlines normalised, since columns do not depend
        # on them and `tokenize` knows no bare carriage return.
        lines = [self.line_text(i + 1) + "\n" for i in range(len(self.line_starts))]
        out = []
        for token in tokenize.generate_tokens(io.StringIO("".join(lines), newline="").readline):
            if token.type not in skip:
                start = self.line_starts[token.start[0] - 1] + token.start[1]
                end = self.line_starts[token.end[0] - 1] + token.end[1]
                out.append((token.type, start, end, token.string))
        return tuple(out)

    def tokens_between(self, start: int, end: int) -> tuple[tuple[int, int, int, str], ...]:
        """Return the tokens that lie in the given stretch."""
        return tuple(t for t in self.tokens if t[1] >= start and t[2] <= end)
