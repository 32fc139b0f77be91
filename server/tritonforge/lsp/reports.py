"""The kernel report in an editor: what is known of a kernel, or what an Nsight Compute report says, as one page.

Nothing is profiled for it. The compiler's listings are read by a job in the background, and once they are there the
client is told to look again; so is what a report file holds, which a process of its own reads.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritonforge import __version__
from tritonforge.backend.facts import KernelFacts, state_of
from tritonforge.domain.errors import TritonForgeError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.kernel_report import KernelReport, LaunchReport, Listing
from tritonforge.lsp import work
from tritonforge.lsp.documents import Snapshot, path_of
from tritonforge.lsp.facts import is_fresh
from tritonforge.lsp.jobs import BACKGROUND, Job
from tritonforge.report.html_listing import listing_html
from tritonforge.report.html_report import report_html
from tritonforge.report.kernel_report import PREDICTED_NEXT, PROFILE_NEXT, with_listings, with_search

if TYPE_CHECKING:
    from tritonforge.domain.results import OptimizeResult
    from tritonforge.lsp.state import State

READING = "The compiler's listings are being read, and appear here in a moment."
UNREAD = "No call of this kernel is known any more: profile it again to read what the compiler made of it."
CHANGED = "The code has changed since, so its listings are not read. Profile it again."
NO_LAUNCH = "Profile it to see how long it takes and why. You are asked before anything is run."
UNTRUSTED = "Trust this workspace to compile, profile and optimize its kernels."
_KEPT, _KEPT_FILES = 16, 4
_MOST_FILES = 2_000

Found = Mapping[str, tuple[Listing, ...]]


@dataclass(frozen=True)
class _Read:
    """The listings of launches, by id, each with its rows as a page shows them; `note` says why some lack."""

    listings: Found
    rows: Mapping[int, str]
    note: str = ""
    failed_on: KernelFacts | None = None
    """What was known when reading failed: with something newer it is tried again."""


@dataclass(frozen=True)
class _File:
    """What a report file says of a workspace's kernels, with the rows of its listings, or why it says nothing."""

    reports: Sequence[KernelReport] = ()
    rows: Mapping[int, str] = field(default_factory=dict)
    note: str = ""


class Reports:
    """Makes reports, and keeps what takes long for the kernels that were looked at last."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._read: OrderedDict[tuple[object, ...], _Read] = OrderedDict()
        self._reading: dict[tuple[object, ...], Job] = {}
        self._files: OrderedDict[tuple[object, ...], _File] = OrderedDict()
        self._turn = asyncio.Lock()

    async def of_kernel(self, state: State, snapshot: Snapshot, kernel: Kernel, known: object = None) -> dict[str, Any]:
        """Return the report of a kernel of a document: a page and its title; no page when it is `known` already."""
        facts = state.facts.of(snapshot.uri, kernel.name)
        search = state.facts.searched(snapshot.uri, kernel.name)
        report = of_facts(facts, search, kernel) if facts is not None else _of_source(state, snapshot, kernel)
        rows: Mapping[int, str] = {}
        pending = False
        if facts is not None and facts.launches:
            found = self._listings(state, snapshot, facts, stale=report.stale)
            pending = found is None
            report = with_listings(report, found.listings if found else {}, found.note if found else READING)
            rows = found.rows if found else {}
        running = state.jobs.about((snapshot.uri, kernel.name))
        notes = [f"{running.verb[:1].upper()}{running.verb[1:]} is under way."] if running and running.verb else []
        page = await asyncio.to_thread(_page, [report], rows, uri=snapshot.uri, notes=notes)
        return {
            "title": kernel.name,
            **_told(page, known),
            "uri": snapshot.uri,
            "kernel": kernel.name,
            "kernels": [{"kernel": kernel.name, "file": kernel.file, "uri": snapshot.uri}],
            "pending": pending,
        }

    def _listings(self, state: State, snapshot: Snapshot, facts: KernelFacts, *, stale: bool) -> _Read | None:
        """Return what was read of the kernel as its facts have it; None while it is being read."""
        launches = tuple(one.launch.id for one in sorted(facts.launches, key=lambda one: one.launch.rank))
        key = snapshot.uri, facts.kernel.name, hash(facts.text), facts.target, launches
        found = self._read.get(key)
        if found is not None and (found.failed_on is None or found.failed_on is facts):
            self._read.move_to_end(key)
            return found
        if stale or snapshot.path is None or not state.options.trusted:
            return _Read({}, {}, CHANGED if stale else UNTRUSTED)
        reading = self._reading.get(key)
        # A job that is cancelled before its first step ends without having taken it.
        if reading is None or reading.task is None or reading.task.done():

            async def look(job: Job) -> str:
                try:
                    self._keep(key, await _read(state, snapshot, facts, launches, job))
                finally:
                    self._reading.pop(key, None)
                    state.client.refresh(diagnostics=False)
                return ""

            self._reading[key] = state.jobs.start(look, title=None, subject=(snapshot.uri, ""), priority=BACKGROUND)
        return None

    def _keep(self, key: tuple[object, ...], read: _Read) -> None:
        self._read[key] = read
        while len(self._read) > _KEPT:
            self._read.popitem(last=False)

    async def of_file(self, state: State, uri: str, known: object = None) -> dict[str, Any]:
        """Return what a `.ncu-rep` file says of the workspace's kernels, as `of_kernel` does for one."""
        path = path_of(uri)
        title = path.name if path is not None else uri.rpartition("/")[2]
        root, _ = state.workspaces.place(path, uri)
        if path is None:
            found = _File(note="Only a file on this disk can be read.")
        elif not state.options.trusted:
            found = _File(note=UNTRUSTED)
        else:
            async with self._turn:  # two questions at once would read the same file twice
                found = await asyncio.to_thread(self._file, state, path, root)
        notes = [found.note] if found.note else []
        page = await asyncio.to_thread(_page, found.reports, found.rows, uri=uri, notes=notes, title=title)
        return {
            "title": title,
            **_told(page, known),
            "uri": uri,
            "kernel": None,
            "kernels": [
                {"kernel": one.kernel.name, "file": one.kernel.file, "uri": (root / one.kernel.file).as_uri()}
                for one in found.reports
            ],
            "pending": False,
        }

    def _file(self, state: State, path: Path, root: Path) -> _File:
        """Return what a report says, as long as neither it nor the workspace's kernels change; blocks for seconds."""
        sources = state.workspaces.of(root).index().triton_files()
        stamp = path.stat() if path.is_file() else None
        key = path, stamp and (stamp.st_mtime_ns, stamp.st_size), tuple(sorted(sources.items()))
        found = self._files.get(key)
        if found is None:
            try:
                reports = _reported(path, root, sources)
                found = _File(
                    reports, _rows(listing for one in reports for each in one.launches for listing in each.listings)
                )
            except TritonForgeError as error:
                found = _File(note=str(error))
            self._files[key] = found
            while len(self._files) > _KEPT_FILES:
                self._files.popitem(last=False)
        return found


async def _read(state: State, snapshot: Snapshot, facts: KernelFacts, launches: tuple[str, ...], job: Job) -> _Read:
    try:
        found = await work.listings(state, snapshot, facts, launches, job)
    except TritonForgeError as error:
        return _Read({}, {}, f"The compiler's listings could not be read: {error}", facts)
    if not found:
        return _Read({}, {}, UNREAD, facts)
    rows = await asyncio.to_thread(_rows, [listing for each in found.values() for listing in each])
    return _Read(found, rows, "Listings are read of the most important launches only.")


def _rows(found: Iterable[Listing]) -> dict[int, str]:
    return {id(listing): listing_html(listing) for listing in found}


def _told(page: str, known: object) -> dict[str, Any]:
    """Return a page with what names it; without it when that is what the client knows: a page may have megabytes."""
    version = hashlib.sha256(page.encode()).hexdigest()[:16]
    return {"html": None if known == version else page, "version": version}


def _page(
    reports: Sequence[KernelReport], rows: Mapping[int, str], *, uri: str, notes: Sequence[str], title: str = ""
) -> str:
    def render(listing: Listing) -> str:
        known = rows.get(id(listing))
        return known if known is not None else listing_html(listing)

    return report_html(reports, version=__version__, title=title, uri=uri, notes=notes, render=render)


def of_facts(facts: KernelFacts, search: OptimizeResult | None, now: Kernel) -> KernelReport:
    """Return the report of what is known of a kernel; `search` is its last one, `now` the kernel as it stands now."""
    measured = any(one.provenance == "measured" for one in facts.launches)
    report = KernelReport(
        kernel=facts.kernel,
        text=facts.text,
        target=facts.target,
        launches=tuple(
            LaunchReport(
                launch=one.launch,
                time_us=one.time_us,
                provenance=one.provenance,
                interval=one.interval,
                roofline=one.roofline,
                bottleneck=one.bottleneck,
                resources=one.compilation.resources if one.compilation else None,
                occupancy=one.compilation.occupancy if one.compilation else None,
                stalls=one.heat.stalls,
                lines=one.heat.lines,
                lines_provenance=one.heat.provenance,
                counters_source=one.counters.source if one.counters else "none",
                parts=one.parts,
                missing=one.counters.missing if one.counters else (),
                notes=(one.doubt,) if one.doubt else (),
            )
            for one in sorted(facts.launches, key=lambda one: one.launch.rank)
        ),
        findings=facts.findings,
        next_step=PROFILE_NEXT if measured else PREDICTED_NEXT,
        stale=not is_fresh(facts, now),
    )
    if search is None or state_of(search.kernel) != state_of(facts.kernel):
        return report
    heat = {one.compilation.launch: one.heat for one in search.assessments}
    same = search.kernel.range == facts.kernel.range
    launches = tuple(
        replace(one, lines=heat.get(one.launch.id, {}), lines_provenance="predicted") if same and not one.lines else one
        for one in report.launches
    )
    return with_search(replace(report, launches=launches), search)


def _of_source(state: State, snapshot: Snapshot, kernel: Kernel) -> KernelReport:
    """Return what the source alone says of a kernel."""
    from tritonforge.diagnosis.diagnose import diagnose
    from tritonforge.diagnosis.inspect_file import wanted

    findings = wanted(diagnose(kernel, []), snapshot.file, state.settings(snapshot.root))
    step = NO_LAUNCH if state.options.trusted else UNTRUSTED
    return KernelReport(kernel, snapshot.text, "not profiled yet", findings=findings, next_step=step)


def _reported(path: Path, root: Path, files: Iterable[str]) -> tuple[KernelReport, ...]:
    """Read a report about kernels of those files of the workspace.

    Raises:
        ReportError: when it cannot be read.
        UsageError: when none of its launches is of a kernel of the workspace.
    """
    from tritonforge.analysis import analyze
    from tritonforge.diagnosis.profile_report import Source, profile_report
    from tritonforge.lsp.closed import text_of
    from tritonforge.report.kernel_report import of_profiles

    sources = []
    # Those nearest to the report first, should there be too many.
    names = sorted(files, key=lambda name: _distance(root / name, path))
    for name in names[:_MOST_FILES]:
        text = text_of(root / name)
        if text is not None and "jit" in text and (kernels := analyze(text, name).kernels):
            sources.append(Source(name, text, kernels))
    codes: list[Listing] = []
    result = profile_report(path, sources, lambda _, code: codes.append(code))
    return of_profiles(result, {source.path: source.text for source in sources}, codes)


def _distance(file: Path, report: Path) -> int:
    """Return how many folders lie between two files."""
    shared = 0
    for ours, theirs in zip(file.parts, report.parts, strict=False):
        if ours != theirs:
            break
        shared += 1
    return len(file.parts) + len(report.parts) - 2 * shared
