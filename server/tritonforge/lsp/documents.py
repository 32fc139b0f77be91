"""Documents as the client has them: one immutable snapshot for each version, analysed once for each content."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from lsprotocol import types
from pygls.uris import to_fs_path

from tritonforge.analysis import analyze
from tritonforge.analysis.memo import Memo
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.lsp.notebooks import Layout, Notebooks
from tritonforge.lsp.positions import PositionedText
from tritonforge.store.keys import text_hash

_KEPT = 32
_LARGE = 40_000
"""Characters from which on a first analysis takes longer than any other answer may be kept waiting."""
_DRIVE = re.compile(r"^file:///[A-Za-z]:")


@dataclass(frozen=True)
class Snapshot:
    """One version of a document. `path` is None for one that is not a file; `file` is what results call it."""

    uri: str
    version: int | None
    positions: PositionedText
    path: Path | None
    root: Path
    file: str
    content: str
    analysis: FileAnalysis
    cells: Layout | None = None
    """Where the cells of a notebook are in its text."""

    @property
    def text(self) -> str:
        """The whole text."""
        return self.positions.text

    @property
    def name(self) -> str:
        """The file's own name, for messages."""
        return self.file.rpartition("/")[2]

    def kernel(self, name: str) -> Kernel | None:
        """Return the kernel of that qualified name."""
        return next((kernel for kernel in self.analysis.kernels if kernel.name == name), None)


@dataclass(frozen=True)
class _Open:
    uri: str
    version: int
    positions: PositionedText


class Documents:
    """The open documents."""

    def __init__(self, encoding: str) -> None:
        """Begin with none; positions are counted in `encoding`."""
        self.encoding = encoding
        self._open: dict[str, _Open] = {}
        self.notebooks = Notebooks(encoding, self._held)
        self._memo = Memo()
        self._analyses: OrderedDict[tuple[str, str], FileAnalysis] = OrderedDict()
        self.preparing: dict[str, asyncio.Task[None]] = {}
        """First analyses under way, by `same` of the document's URI."""

    @property
    def uris(self) -> tuple[str, ...]:
        """The documents that are open; of a notebook the whole, not its cells."""
        plain = (found.uri for found in self._open.values() if not self.notebooks.is_cell(found.uri))
        return (*plain, *self.notebooks.uris)

    def owner(self, uri: str) -> str:
        """Return what an open document is known as: a cell by its notebook, a file by the URI it was opened under.

        Clients spell one URI in several ways (`file:///c%3A/k.py`, `file:///C:/k.py`).
        """
        found = self._open.get(same(uri))
        return self.notebooks.owner(found.uri if found else uri)

    def open(self, uri: str, version: int, text: str) -> None:
        """Take over a document that the client opened."""
        self._open[same(uri)] = _Open(uri, version, PositionedText(text, self.encoding))

    def change(self, uri: str, version: int, changes: tuple[types.TextDocumentContentChangeEvent, ...]) -> None:
        """Apply a client's changes, in order."""
        before = self._open.get(same(uri))
        positions = before.positions if before else PositionedText("", self.encoding)
        for change in changes:
            positions = positions.changed(change)
        self._open[same(uri)] = _Open(before.uri if before else uri, version, positions)

    def close(self, uri: str) -> None:
        """Forget a document."""
        self._open.pop(same(uri), None)

    def text(self, uri: str) -> str | None:
        """Return the text of an open document."""
        found = self._open.get(same(uri))
        return found.positions.text if found else None

    def opened(self, uri: str) -> tuple[str, int | None] | None:
        """Return text and version of an open document."""
        found = self._open.get(same(uri))
        return (found.positions.text, found.version) if found else None

    def version(self, uri: str) -> int | None:
        """Return the version of an open document."""
        found = self._open.get(same(uri))
        return found.version if found else None

    def _held(self, uri: str) -> tuple[int, PositionedText] | None:
        found = self._open.get(same(uri))
        return (found.version, found.positions) if found else None

    def snapshot(self, uri: str, root: Path, file: str) -> Snapshot | None:
        """Return the document as it is now, called `file` in the workspace at `root`; None when it is not open."""
        notebook = self.notebooks.combined(uri)
        if notebook is not None:
            version, positions, cells = notebook[0], notebook[1].positions, notebook[1].layout
        else:
            held = self._held(uri)
            if held is None:
                return None
            (version, positions), cells = held, None
        content = positions.content
        analysis = self._analysis(positions.text, content, file)
        return Snapshot(uri, version, positions, path_of(uri), root, file, content, analysis, cells)

    def prepare(self, uri: str, file: str) -> asyncio.Task[None] | None:
        """Begin to analyse a large document beside the event loop, if it has to be; `file` as `snapshot` takes it.

        Until the task is done, questions about it should wait, so that others need not.
        """
        key, held = same(uri), self._held(uri)
        if held is None or len(held[1].text) < _LARGE or "triton" not in held[1].text or key in self.preparing:
            return None
        text = held[1].text
        if (held[1].content, file) in self._analyses:
            return None
        task = asyncio.create_task(self._prepare(text, file))
        self.preparing[key] = task
        task.add_done_callback(lambda _: self.preparing.pop(key, None))
        return task

    async def _prepare(self, text: str, file: str) -> None:
        memo = Memo()  # of its own: the other one may be in use meanwhile
        found = await asyncio.to_thread(analyze, text, file, memo)
        self._memo.take(memo)
        self._keep((text_hash(text), file), found)

    def is_prepared(self, uri: str) -> bool:
        """Tell whether no first analysis of a document is under way."""
        return not self.preparing or same(self.owner(uri)) not in self.preparing

    async def prepared(self) -> None:
        """Wait until no first analysis is under way."""
        if self.preparing:
            await asyncio.wait(tuple(self.preparing.values()))

    def _analysis(self, text: str, content: str, file: str) -> FileAnalysis:
        # In line: a keystroke costs little more than the parser does, which would hold the interpreter's lock in a
        # thread just as long.
        key = content, file
        found = self._analyses.get(key)
        if found is None:
            found = analyze(text, file, self._memo) if "triton" in text else FileAnalysis(file)
        self._keep(key, found)
        return found

    def _keep(self, key: tuple[str, str], found: FileAnalysis) -> None:
        self._analyses[key] = found
        self._analyses.move_to_end(key)
        while len(self._analyses) > _KEPT:
            self._analyses.popitem(last=False)


def same(uri: str) -> str:
    """Return one spelling of a URI: clients differ in what they escape and in the case of drive letters."""
    if not uri.startswith("file:"):
        return uri
    plain = unquote(uri)
    return _DRIVE.sub(lambda found: found[0].lower(), plain)


def path_of(uri: str) -> Path | None:
    """Return the path of a `file:` URI, None for any other."""
    path = to_fs_path(uri)
    return Path(path) if path else None
