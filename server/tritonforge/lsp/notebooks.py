"""Notebooks: their code cells, one below the other, are one document; positions and edits go to and from cells.

A kernel in one cell that is launched in another is one kernel of one text. What only IPython understands (`%time`,
`!pip`, `x?`) becomes a comment of the same length, so that every character keeps its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import attrs
from lsprotocol import types

from tritonforge.lsp.positions import PositionedText, lines_of

_MAGIC = re.compile(r"[ \t]*(%(?=\S)|!(?!=)|\?)")
"""Not a line that goes on with an operator, as formatters write them: `% n`, `!= n`."""
_HELP = re.compile(r"\s*[\w.*]+\?{1,2}\s*$")
_PYTHON_CELLS = frozenset({"time", "timeit", "capture", "prun", "memit", "mprun", "lprun"})
"""Cell magics whose cell is Python all the same."""


@dataclass(frozen=True)
class Cell:
    """One code cell in the text of its notebook: its lines there, from 0, `last` not included."""

    uri: str
    version: int
    first: int
    last: int


@dataclass(frozen=True)
class Layout:
    """The cells of a notebook's text, from above."""

    cells: tuple[Cell, ...]

    def of(self, uri: str) -> Cell | None:
        """Return the cell of that URI."""
        return next((cell for cell in self.cells if cell.uri == uri), None)

    def at(self, line: int) -> Cell | None:
        """Return the cell that has a line (from 0) of the notebook's text."""
        return next((cell for cell in self.cells if cell.first <= line < cell.last), None)

    def edits(self, edits: Iterable[types.TextEdit]) -> list[tuple[Cell, list[types.TextEdit]]]:
        """Return edits of the notebook's text as edits of its cells; one that spans cells is left out."""
        by_cell: dict[str, tuple[Cell, list[types.TextEdit]]] = {}
        for edit in edits:
            cell = self.at(edit.range.start.line)
            if cell is None or edit.range.end.line > cell.last:
                continue
            own = types.TextEdit(_shifted(edit.range, -cell.first), edit.new_text)
            by_cell.setdefault(cell.uri, (cell, []))[1].append(own)
        return list(by_cell.values())


@dataclass(frozen=True)
class Combined:
    """A notebook's text and where its cells are in it."""

    positions: PositionedText
    layout: Layout


@dataclass
class _Notebook:
    version: int
    cells: list[types.NotebookCell]
    key: tuple[object, ...] = ()
    combined: Combined | None = None


Lookup = Callable[[str], tuple[int, PositionedText] | None]


class Notebooks:
    """The open notebooks. Texts of cells are kept with the other documents: `lookup` finds them."""

    def __init__(self, encoding: str, lookup: Lookup) -> None:
        """Begin with none."""
        self._encoding = encoding
        self._lookup = lookup
        self._open: dict[str, _Notebook] = {}
        self._owners: dict[str, str] = {}

    @property
    def uris(self) -> tuple[str, ...]:
        """The notebooks that are open."""
        return tuple(self._open)

    def owner(self, uri: str) -> str:
        """Return the notebook that a cell belongs to; any other URI as it is."""
        return self._owners.get(uri, uri)

    def is_cell(self, uri: str) -> bool:
        """Tell whether a document is a cell."""
        return uri in self._owners

    def open(self, uri: str, version: int, cells: Sequence[types.NotebookCell]) -> None:
        """Take over a notebook that the client opened."""
        self._open[uri] = _Notebook(version, list(cells))
        self._owners |= {cell.document: uri for cell in cells}

    def splice(self, uri: str, version: int, change: types.NotebookCellArrayChange | None) -> None:
        """Take over a notebook's new version: cells that were put in, taken out or moved."""
        notebook = self._open.get(uri)
        if notebook is None:
            return
        notebook.version = version
        if change is not None:
            end = change.start + change.delete_count
            for cell in notebook.cells[change.start : end]:
                self._owners.pop(cell.document, None)
            notebook.cells[change.start : end] = change.cells or ()
            self._owners |= {cell.document: uri for cell in change.cells or ()}

    def replace(self, uri: str, cells: Sequence[types.NotebookCell]) -> None:
        """Take over what changed about cells themselves: whether they are code."""
        notebook = self._open.get(uri)
        if notebook is not None:
            now = {cell.document: cell for cell in cells}
            notebook.cells = [now.get(cell.document, cell) for cell in notebook.cells]

    def close(self, uri: str) -> tuple[str, ...]:
        """Forget a notebook; returns its cells."""
        notebook = self._open.pop(uri, None)
        cells = tuple(cell.document for cell in notebook.cells) if notebook else ()
        for cell in cells:
            self._owners.pop(cell, None)
        return cells

    def layout(self, uri: str) -> Layout | None:
        """Return where the cells of a notebook are in its text; None for what is no notebook."""
        found = self.combined(uri)
        return found[1].layout if found is not None else None

    def combined(self, uri: str) -> tuple[int, Combined] | None:
        """Return a notebook's version and text as they are now; None when it is not open."""
        notebook = self._open.get(uri)
        if notebook is None:
            return None
        code = [cell.document for cell in notebook.cells if cell.kind == types.NotebookCellKind.Code]
        found = [(cell, *held) for cell in code if (held := self._lookup(cell)) is not None]
        key = tuple((cell, version, id(positions)) for cell, version, positions in found)
        if notebook.combined is None or key != notebook.key:
            notebook.key, notebook.combined = key, _combine(found, self._encoding)
        return notebook.version, notebook.combined


def _combine(cells: Sequence[tuple[str, int, PositionedText]], encoding: str) -> Combined:
    parts: list[str] = []
    placed: list[Cell] = []
    line = 0
    for uri, version, positions in cells:
        text = python_of(positions.text)
        # An empty line more than the cell has, so that each begins on a line of its own.
        text = f"{text}\r\n" if text.endswith(("\r\n", "\r")) else f"{text}\n"
        lines = len(positions.starts)
        parts.append(text)
        placed.append(Cell(uri, version, line, line + lines))
        line += lines
    return Combined(PositionedText("".join(parts), encoding), Layout(tuple(placed)))


def python_of(cell: str) -> str:
    """Return a cell with what only IPython understands made comments; every character keeps its place."""
    lines = lines_of(cell)
    first = next((n for n, line in enumerate(lines) if line.strip()), None)
    if first is not None and lines[first].startswith("%%"):
        name = re.match(r"%%(\w*)", lines[first])
        if name is None or name[1] not in _PYTHON_CELLS:
            return "".join(_comment(line) for line in lines)
    return "".join(_comment(line) if _MAGIC.match(line) or _HELP.match(line) else line for line in lines)


def _comment(line: str) -> str:
    """Put `#` in place of the first character that is no blank."""
    at = len(line) - len(line.lstrip())
    return line if at == len(line) else f"{line[:at]}#{line[at + 1 :]}"


def _shifted(where: types.Range, by: int) -> types.Range:
    return types.Range(
        types.Position(where.start.line + by, where.start.character),
        types.Position(where.end.line + by, where.end.character),
    )


def into_notebook(params: Any, cell: Cell) -> Any:
    """Return request parameters about a cell as parameters about its notebook's text."""
    changes: dict[str, Any] = {}
    position = getattr(params, "position", None)
    if isinstance(position, types.Position):
        changes["position"] = types.Position(min(position.line + cell.first, cell.last - 1), position.character)
    where = getattr(params, "range", None)
    if isinstance(where, types.Range):
        moved = _shifted(where, cell.first)
        end = moved.end if moved.end.line < cell.last else types.Position(cell.last - 1, 1 << 20)
        changes["range"] = types.Range(moved.start, end)
    context = getattr(params, "context", None)
    if isinstance(context, types.CodeActionContext):
        found = [_with_range(one, _shifted(one.range, cell.first)) for one in context.diagnostics]
        changes["context"] = types.CodeActionContext(found, context.only, context.trigger_kind)
    return attrs.evolve(params, **changes)


def into_cell(result: Any, cell: Cell) -> Any:
    """Return what a request about a notebook's text found as a result about one cell; the rest is left out."""
    if isinstance(result, list):
        inside = [one for one in result if _line(one) is None or cell.first <= (_line(one) or 0) < cell.last]
        return [into_cell(one, cell) for one in inside]
    if isinstance(result, types.RelatedFullDocumentDiagnosticReport):
        items = into_cell(list(result.items), cell)
        return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=result.result_id)
    if isinstance(result, types.CodeAction):
        found = result.diagnostics
        if found is not None:
            result.diagnostics = [_with_range(one, _shifted(one.range, -cell.first)) for one in found]
        return result
    where = getattr(result, "range", None)
    if isinstance(where, types.Range):
        return _with_range(result, _shifted(where, -cell.first))
    if isinstance(result, types.InlayHint):
        place = types.Position(result.position.line - cell.first, result.position.character)
        return _with(result, position=place)
    return result


def _line(one: Any) -> int | None:
    where = getattr(one, "range", None)
    if isinstance(where, types.Range):
        return where.start.line
    return one.position.line if isinstance(one, types.InlayHint) else None


def _with_range(one: Any, where: types.Range) -> Any:
    return _with(one, range=where)


def _with(one: Any, **changes: Any) -> Any:
    return attrs.evolve(one, **changes)
