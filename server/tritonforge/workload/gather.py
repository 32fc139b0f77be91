"""The calls of the kernels of one file, by the order of sources: spec, earlier recording, something that runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tritonforge.analysis import launches_elsewhere
from tritonforge.analysis.text import decode_source
from tritonforge.config import Settings
from tritonforge.domain.errors import NoLaunchKnown
from tritonforge.domain.kernel import FileAnalysis, Kernel, RunnableEntry
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program
from tritonforge.jobs.session import Session
from tritonforge.store import Store
from tritonforge.workload.discovery import Found, Recording, explain_nothing, record, select
from tritonforge.workload.index import Way, WorkspaceIndex
from tritonforge.workload.launches import matches, pinned_among, to_launch
from tritonforge.workload.recorded import Kept, keep, kept, origin_of
from tritonforge.workload.specified import spec_calls
from tritonforge.workload.subject import Subject

MOST_WAYS_RUN = 4
"""Entries of one other file that are run before the kernel is given up on."""


@dataclass
class FileWorkload:
    """Finds calls for the kernels of one file; a file is run at most once for all of them.

    `allow_run` is the user's decision to run this file; `run_too` names other files that they agreed to run. With
    neither, specs and earlier recordings are all there is. `texts` stand in for files on disk (open documents).
    `index` answers what else could be run; without one only this file is looked at. `pin` overrides what the store has
    pinned. `on_stale` is told of calls that are used although what makes them has changed since.
    """

    root: str
    analysis: FileAnalysis
    text: str
    settings: Settings
    store: Store
    allow_run: bool
    on_entry: Callable[[str, RunnableEntry], None] | None = None
    run_too: frozenset[str] = frozenset()
    texts: Mapping[str, str] = field(default_factory=dict)
    index: WorkspaceIndex | None = None
    pin: str | None = None
    on_stale: Callable[[Kernel, str], None] | None = None
    _recordings: dict[str, Recording] = field(default_factory=dict)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False, repr=False)
    """Held while calls are looked for: two kernels of the file must not both run it."""

    def known(self, kernel: Kernel, *, stale: bool = False) -> Found | None:
        """Return the calls that are known without running anything, None when there are none.

        With `stale`, recorded calls count although the code that makes them has changed since.

        Raises:
            UsageError: for a spec that cannot be read.
        """
        specified = spec_calls(self.analysis, self.settings.launches, kernel)
        recorded = kept(self.store, kernel, self.read)
        if specified:
            return Found((*self._pinned_calls(kernel, recorded), *specified), "spec")
        fresh = select(kernel, _merged(one for one in recorded if not one.stale), self.pinned(kernel))
        if fresh:
            return Found(fresh, "recorded")
        if stale and recorded:
            calls = select(kernel, recorded[0].calls, self.pinned(kernel))
            return Found(calls, "recorded", stale=recorded[0].stale) if calls else None
        return None

    async def calls_of(self, kernel: Kernel, session: Session) -> Found:
        """Return the calls that launch `kernel`, or why none is known.

        Raises:
            UsageError: for a spec that cannot be read.
        """
        async with self._one_at_a_time:
            return await self._calls_of(kernel, session)

    async def _calls_of(self, kernel: Kernel, session: Session) -> Found:
        found = self.known(kernel)
        if found is not None:
            return found
        ways: Sequence[Way] = ()
        if self.allow_run:
            found = await self._run_own(kernel, session)
        if found is None and self.index is not None:
            ways = await asyncio.to_thread(self.index.ways, kernel, self.text)
            found = await self._run_others(kernel, ways, session)
        if found is None:
            found = self.known(kernel, stale=True)
            if found is not None and self.on_stale:
                self.on_stale(kernel, found.stale)
        if found is not None:
            return found
        note = explain_nothing(kernel, self.analysis, tuple(self._recordings.values()), ways)
        return Found((), note=note, ways=tuple(ways))

    async def require_some(self, kernel: Kernel) -> None:
        """Check that launches of `kernel` are known or may be looked for, before anything is started for it.

        Raises:
            NoLaunchKnown: with the reason and the mend.
            UsageError: for a spec that cannot be read.
        """
        if (self.allow_run and self.analysis.entries) or self.known(kernel, stale=True) is not None:
            return
        ways: Sequence[Way] = ()
        if self.index is not None:
            ways = await asyncio.to_thread(self.index.ways, kernel, self.text)
        if not any(way.file in self.run_too and way.alone for way in ways):
            raise _unknown(explain_nothing(kernel, self.analysis, (), ways))

    async def subject_of(self, kernel: Kernel, session: Session) -> Subject:
        """Return `kernel` with the calls that launch it.

        Raises:
            NoLaunchKnown: with the reason and the mend.
            UsageError: for a spec that cannot be read.
        """
        found = await self.calls_of(kernel, session)
        if not found.calls:
            raise _unknown(found.note)
        return self.subject(kernel, found.calls)

    def subject(self, kernel: Kernel, calls: tuple[Call, ...]) -> Subject:
        """Return `kernel` with its calls, ready to be compiled, profiled or optimised."""
        others = dict.fromkeys(call.file for call in calls if call.file != self.analysis.file)
        texts = tuple((file, text) for file in others if (text := self.read(file)) is not None)
        return Subject(self.root, self.analysis.file, self.text, kernel, calls, texts, self.pinned(kernel))

    async def with_users(self, subject: Subject) -> Subject:
        """Return `subject` with the texts of all files that launch its kernel: what changes it has to follow there."""
        kernel, known = subject.kernel, {subject.file, *(file for file, _ in subject.others)}
        if self.index is None:
            return subject
        users = await asyncio.to_thread(self.index.users_of, subject.file, kernel.simple_name)
        more = tuple(
            (file, text)
            for file in users
            if file not in known
            and (text := self.read(file)) is not None
            and launches_elsewhere(kernel, subject.text, file, text)
        )
        return replace(subject, others=(*subject.others, *more))

    def pinned(self, kernel: Kernel) -> tuple[str, ...]:
        """Return what names the launch that the user has pinned: it ranks first."""
        return (self.pin,) if self.pin is not None else self.store.pinned(kernel.file, kernel.name)

    async def run(self, kernel: Kernel, way: Way, session: Session) -> Found | None:
        """Run what the user chose to run, and return the calls of `kernel` that it made; None when there were none."""
        await self._record(kernel, way.file, (way.entry,), session)
        return self._kept_now(kernel, way.file)

    def failure_of(self, way: Way) -> str:
        """Return what went wrong in the file that `way` was run of, as the end of a sentence; else an empty text."""
        recording = self._recordings.get(way.file)
        return f": {recording.failures[0].rstrip('.')}" if recording is not None and recording.failures else ""

    def read(self, file: str) -> str | None:
        """Return the text of a file of the workspace as it is now; None when there is none."""
        if file == self.analysis.file:
            return self.text
        if file in self.texts:
            return self.texts[file]
        try:
            return decode_source((Path(self.root) / file).read_bytes())[0]
        except OSError:
            return None

    async def _run_own(self, kernel: Kernel, session: Session) -> Found | None:
        file = self.analysis.file
        if file not in self._recordings and self.analysis.entries:
            await self._record(kernel, file, self.analysis.entries, session)
        return self._kept_now(kernel, file)

    async def _run_others(self, kernel: Kernel, ways: Sequence[Way], session: Session) -> Found | None:
        by_file: dict[str, list[RunnableEntry]] = {}
        for way in ways:
            if way.file in self.run_too and way.file != self.analysis.file and way.alone:
                by_file.setdefault(way.file, []).append(way.entry)
        for file, entries in by_file.items():
            await self._record(kernel, file, entries[:MOST_WAYS_RUN], session)
            found = self._kept_now(kernel, file)
            if found is not None:
                return found
        return None

    async def _record(self, kernel: Kernel, file: str, entries: Sequence[RunnableEntry], session: Session) -> None:
        """Run entries of `file` until every kernel of this file (of another file's: `kernel`) was seen; keep all."""
        text = self.read(file)
        overlays = () if text is None else ((file, text),)
        own = ((self.analysis.file, self.text),) if file != self.analysis.file else ()
        mine = self.analysis.kernels if file == self.analysis.file else (kernel,)
        wanted = {one.name for one in mine}

        def enough(calls: Sequence[Call]) -> bool:
            wanted.difference_update(launch.kernel for call in calls for launch in call.launches)
            return not wanted

        program = Program(self.root, file, (*overlays, *own))
        on_entry = partial(self.on_entry, file) if self.on_entry else None
        recording = await record(session.worker, program, entries, enough, on_entry=on_entry)
        self._recordings[file] = recording
        for entry, calls in recording.calls.items():
            for one in self.analysis.kernels:
                made = tuple(call for call in calls if self._launches(one, call))
                if made:
                    keep(self.store, one, select(one, made, self.pinned(one)), origin_of(file, entry), self.read)

    def _launches(self, kernel: Kernel, call: Call) -> bool:
        """Tell whether `call` made a launch of `kernel`, and not of another file's of that name."""
        return any(matches(kernel, launch) and self._same_file(launch.kernel_file) for launch in call.launches)

    def _same_file(self, file: str) -> bool:
        return (
            file == self.analysis.file
            or (Path(self.root) / file).resolve() == (Path(self.root) / self.analysis.file).resolve()
        )

    def _kept_now(self, kernel: Kernel, file: str) -> Found | None:
        recording = self._recordings.get(file)
        if recording is None:
            return None
        ran = {origin_of(file, entry): entry.name or entry.kind for entry in recording.calls}
        made = [one for one in kept(self.store, kernel, self.read) if one.origin in ran and not one.stale]
        calls = select(kernel, _merged(made), self.pinned(kernel))
        return Found(calls, ", ".join(ran[one.origin] for one in made)) if calls else None

    def _pinned_calls(self, kernel: Kernel, recorded: Sequence[Kept]) -> tuple[Call, ...]:
        """Return the recorded call that makes the pinned launch, which counts beside a spec."""
        pinned = self.pinned(kernel)
        if not pinned:
            return ()
        for call in _merged(recorded):
            made = [to_launch(kernel, launch) for launch in call.launches if launch.kernel == kernel.name]
            if pinned_among(made, pinned, kernel) is not None:
                return (call,)
        return ()


def _unknown(note: str) -> NoLaunchKnown:
    # A full stop behind a spec would be copied with it.
    end = "" if "# tritonforge: launch " in note else "."
    return NoLaunchKnown(f"{note[:1].upper()}{note[1:].rstrip('.')}{end}")


def _merged(recorded: Iterable[Kept]) -> tuple[Call, ...]:
    """Return the calls of several recordings, each once, the oldest recording's first."""
    calls: dict[str, Call] = {}
    for one in reversed(tuple(recorded)):
        for call in one.calls:
            calls.setdefault(call.id, call)
    return tuple(calls.values())
