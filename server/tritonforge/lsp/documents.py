"""Documents as the client has them: one immutable snapshot for each version, analysed once for each content."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.uris import to_fs_path

from tritonforge.analysis import analyze
from tritonforge.analysis.memo import Memo
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.lsp.positions import PositionedText
from tritonforge.store.keys import text_hash

_KEPT = 32


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
        self._memo = Memo()
        self._analyses: OrderedDict[tuple[str, str], FileAnalysis] = OrderedDict()

    @property
    def uris(self) -> tuple[str, ...]:
        """The documents that are open."""
        return tuple(self._open)

    def open(self, uri: str, version: int, text: str) -> None:
        """Take over a document that the client opened."""
        self._open[uri] = _Open(uri, version, PositionedText(text, self.encoding))

    def change(self, uri: str, version: int, changes: tuple[types.TextDocumentContentChangeEvent, ...]) -> None:
        """Apply a client's changes, in order."""
        before = self._open.get(uri)
        positions = before.positions if before else PositionedText("", self.encoding)
        for change in changes:
            positions = positions.changed(change)
        self._open[uri] = _Open(uri, version, positions)

    def close(self, uri: str) -> None:
        """Forget a document."""
        self._open.pop(uri, None)

    def text(self, uri: str) -> str | None:
        """Return the text of an open document."""
        found = self._open.get(uri)
        return found.positions.text if found else None

    def version(self, uri: str) -> int | None:
        """Return the version of an open document."""
        found = self._open.get(uri)
        return found.version if found else None

    def snapshot(self, uri: str, root: Path, file: str) -> Snapshot | None:
        """Return the document as it is now, called `file` in the workspace at `root`; None when it is not open."""
        found = self._open.get(uri)
        if found is None:
            return None
        content = text_hash(found.positions.text)
        return Snapshot(
            uri, found.version, found.positions, path_of(uri), root, file, content,
            self._analysis(found.positions.text, content, file),
        )  # fmt: skip

    def _analysis(self, text: str, content: str, file: str) -> FileAnalysis:
        # In line: a keystroke costs little more than the parser does, which would hold the interpreter's lock in a
        # thread just as long.
        key = content, file
        found = self._analyses.get(key)
        if found is None:
            found = analyze(text, file, self._memo) if "triton" in text else FileAnalysis(file)
            self._analyses[key] = found
            while len(self._analyses) > _KEPT:
                self._analyses.popitem(last=False)
        self._analyses.move_to_end(key)
        return found


def path_of(uri: str) -> Path | None:
    """Return the path of a `file:` URI, None for any other."""
    path = to_fs_path(uri)
    return Path(path) if path else None
