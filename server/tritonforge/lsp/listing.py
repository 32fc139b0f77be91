"""All kernels of the client's folders, open or not, each with what is known of it."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from tritonforge.analysis import analyze
from tritonforge.backend.facts import state_of
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import FileAnalysis
from tritonforge.lsp import suggestions
from tritonforge.lsp.closed import text_of
from tritonforge.lsp.documents import path_of
from tritonforge.lsp.notebooks import Layout
from tritonforge.lsp.positions import PositionedText
from tritonforge.lsp.remembering import seen_of
from tritonforge.report import wording
from tritonforge.store.seen import Seen, preferred

if TYPE_CHECKING:
    from tritonforge.lsp.state import State

SLICE_S = 1.0
"""Seconds after which an answer is given with what was read until then; the next question goes on from there."""
MOST_FILES_KEPT = 20_000

Stamp = tuple[int, int]


@dataclass(frozen=True)
class Listed:
    """One kernel: where its name stands in the client's units, and what its facts depend on."""

    name: str
    where: types.Range
    code_hash: str
    site_hashes: tuple[str, ...]
    specified: bool
    cell: str | None = None
    """The cell of a notebook that `where` speaks of."""


@dataclass(frozen=True)
class _Place:
    """A file: its path, and what results call it in which root."""

    path: Path
    uri: str
    root: Path
    file: str


class KernelList:
    """Finds the kernels of files, and reads a file again only when it has changed."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._files: dict[Path, tuple[Stamp, _Place, tuple[Listed, ...]]] = {}
        self._turn = asyncio.Lock()

    async def answer(self, state: State) -> dict[str, Any]:
        """Return the answer of `tritonforge.listKernels`; reads files in a thread, a second at most."""
        async with self._turn:  # two questions at once would read the same files twice
            found, complete = await self._find(state)
        known = await asyncio.to_thread(_known, state, tuple({place.root for place, _ in found}))
        rows = [row for place, listed in found for row in _rows(state, place, listed, known.get(place.root, _NOTHING))]
        return {"kernels": rows, "complete": complete}

    async def _find(self, state: State) -> tuple[list[tuple[_Place, tuple[Listed, ...]]], bool]:
        await state.documents.prepared()
        folders = state.workspaces.folders
        opened = {path: (uri, _of_open(state, uri)) for uri in state.documents.uris if (path := path_of(uri))}
        until = time.monotonic() + SLICE_S
        complete = True
        found: dict[Path, tuple[_Place, tuple[Listed, ...]]] = {}
        for folder in folders:
            stamps = await asyncio.to_thread(_stamps, state, folder)
            for path in sorted(stamps):
                if path in opened or path in found:
                    continue
                kept = self._files.get(path)
                if kept is None or kept[0] != stamps[path] or not stamps[path][0]:  # 0: may be written again unseen
                    if time.monotonic() > until:
                        complete = False
                        continue
                    read = await asyncio.to_thread(_read, state, path)
                    kept = self._files[path] = stamps[path], *read
                if kept[2]:
                    found[path] = kept[1], kept[2]
        for path, (uri, listed) in opened.items():
            if listed:
                root, file = state.workspaces.place(path, uri)
                found[path] = _Place(path, uri, root, file), listed
        while len(self._files) > MOST_FILES_KEPT:
            self._files.pop(next(iter(self._files)))
        return [found[path] for path in sorted(found)], complete


def _of_open(state: State, uri: str) -> tuple[Listed, ...]:
    snapshot = state.snapshot(uri)
    if snapshot is None:
        return ()
    listed = _listed(snapshot.analysis, snapshot.positions)
    return listed if snapshot.cells is None else tuple(_in_cell(kernel, snapshot.cells) for kernel in listed)


def _in_cell(kernel: Listed, cells: Layout) -> Listed:
    cell = cells.at(kernel.where.start.line)
    if cell is None:
        return kernel
    start, end = (types.Position(at.line - cell.first, at.character) for at in (kernel.where.start, kernel.where.end))
    return dataclasses.replace(kernel, where=types.Range(start, end), cell=cell.uri)


def _stamps(state: State, folder: Path) -> dict[Path, Stamp]:
    """Return the files under a folder that mention Triton."""
    root, _ = state.workspaces.place(folder / "_", "")
    index = state.workspaces.of(root).index(trusted=state.options.trusted)
    paths = ((root / name, stamp) for name, stamp in index.triton_files().items())
    return {path: stamp for path, stamp in paths if path.is_relative_to(folder)}


def _read(state: State, path: Path) -> tuple[_Place, tuple[Listed, ...]]:
    uri = path.as_uri()
    root, file = state.workspaces.place(path, uri)
    text = text_of(path)
    # Most files that mention Triton only use what others define.
    analysis = analyze(text, file) if text is not None and "jit" in text else FileAnalysis(file)
    place = _Place(path, uri, root, file)
    return place, _listed(analysis, PositionedText(text or "", state.documents.encoding))


def _listed(analysis: FileAnalysis, positions: PositionedText) -> tuple[Listed, ...]:
    specified = bool(analysis.specs)
    return tuple(
        Listed(
            kernel.name,
            positions.range(kernel.name_range),
            kernel.code_hash,
            tuple(site.site_hash for site in kernel.launch_sites),
            specified,
        )
        for kernel in analysis.kernels
    )


_Known = tuple[Mapping[tuple[str, str], Seen], frozenset[tuple[str, str]]]
_NOTHING: _Known = ({}, frozenset())


def _known(state: State, roots: Sequence[Path]) -> dict[Path, _Known]:
    """Return what earlier processes found out and recorded, by root. Not trusted, nothing is opened for it."""
    if not state.options.trusted:
        return {}
    found: dict[Path, _Known] = {}
    for root in roots:
        workspace = state.workspaces.of(root)
        if workspace.has_store:
            try:
                store = workspace.store()
            except UsageError:
                continue  # a newer TritonForge wrote it; jobs say so
            found[root] = store.seen(), store.subjects_with_calls()
    return found


def _rows(state: State, place: _Place, listed: tuple[Listed, ...], known: _Known) -> Iterator[dict[str, Any]]:
    seen, recorded = known
    for kernel in listed:
        facts = state.facts.of(place.uri, kernel.name)
        subject = place.file, kernel.name
        best = preferred(seen_of(facts) if facts is not None else None, seen.get(subject))
        offer = state.facts.offered(place.uri, kernel.name)
        if offer is not None and state_of(offer.kernel) != (kernel.code_hash, tuple(sorted(kernel.site_hashes))):
            offer = None  # applied, or out of date: it would be refused
        job = state.jobs.about((place.uri, kernel.name))
        yield {
            "uri": place.uri,
            "file": place.file,
            "cell": kernel.cell,
            "kernel": kernel.name,
            "range": {
                "start": {"line": kernel.where.start.line, "character": kernel.where.start.character},
                "end": {"line": kernel.where.end.line, "character": kernel.where.end.character},
            },
            "launches": "known" if kernel.specified or facts is not None or subject in recorded else "unknown",
            "known": _shown(best, kernel) if best is not None else None,
            "suggestion": {"suggestion": offer.id, **suggestions.brief(offer)} if offer is not None else None,
            "job": {"jobId": job.id, "verb": job.verb} if job is not None else None,
        }


def _shown(seen: Seen, kernel: Listed) -> dict[str, Any]:
    """Return the numbers, and the words for them."""
    interval = list(seen.interval) if seen.interval is not None else None
    return {
        "timeUs": seen.time_us,
        "time": wording.time_us(seen.time_us) if seen.time_us is not None else "",
        "provenance": seen.provenance,
        "intervalUs": interval,
        "spread": wording.time_range_us(seen.interval) if seen.interval is not None else "",
        "fraction": seen.fraction,
        "bound": seen.bound,
        "bottleneck": seen.bottleneck,
        "reason": seen.reason,
        "error": seen.error,
        "launch": seen.launch,
        "target": seen.target,
        "stale": not seen.fresh_for(kernel.code_hash, kernel.site_hashes),
        "at": datetime.fromtimestamp(seen.at, UTC).isoformat(timespec="seconds") if seen.at else None,
    }
