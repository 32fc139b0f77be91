"""The loop behind `watch`: what changed is read again, and kernels whose state is another one are profiled again."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tritonforge.cli.running import Progress, Workspace, open_workspace
from tritonforge.cli.selecting import Selected
from tritonforge.cli.watch_files import Unreadable, WatchedFiles
from tritonforge.cli.watch_kernel import Key, Screen, Watched
from tritonforge.cli.watch_state import state_of, text_digest
from tritonforge.config import load
from tritonforge.diagnosis.assessment import Yardstick, error_of, yardstick
from tritonforge.diagnosis.inspect_file import inspect_source, wanted
from tritonforge.diagnosis.profile_kernel import profile
from tritonforge.diagnosis.since import change_of
from tritonforge.domain.errors import NoLaunchKnown, TargetUnreachable, TritonForgeError, UsageError
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session, open_session
from tritonforge.profiling.ceilings import ceilings_of
from tritonforge.report import wording
from tritonforge.report.text import line
from tritonforge.report.text_watch import WatchRow, watch_line, watch_row
from tritonforge.workload.gather import FileWorkload
from tritonforge.workload.watching import SETTINGS, Watch

BUDGET_S = 5.0
"""Seconds for measuring one kernel: an answer while one still remembers the edit."""


class _Said(Progress):
    """What is being done, in the row of the kernel that it is done for."""

    def __init__(self, watcher: Watcher, key: Key) -> None:
        self._status = None
        self._watcher, self._key = watcher, key

    def say(self, text: str) -> None:
        """Show `text`."""
        self._watcher.note(self._key, text)


class Watcher:
    """Keeps the rows of all kernels of some files true."""

    def __init__(
        self, files: WatchedFiles, root: Path, screen: Screen, *, target_name: str | None, allow_run: bool
    ) -> None:
        """Read the files.

        Raises:
            UsageError: for a path that names nothing, or settings that are wrong.
        """
        self._files = files
        self._screen = screen
        self._target_name = target_name
        self._allow_run = allow_run
        self._root = root
        self._workspaces = {root: open_workspace(root)}
        self._selected: dict[Path, Selected] = {}
        self._kernels: dict[Key, Watched] = {}
        self._problems: dict[Path, str] = {}
        self._digests: dict[Path, str] = {}
        self._queue: list[Key] = []
        self._job: tuple[Key, asyncio.Task[None]] | None = None
        self._wake = asyncio.Event()
        self._reopen = False
        self._footer = ""
        for found in files.all():
            self._take(found)
        self._queue = list(self._kernels)

    @property
    def roots(self) -> tuple[Path, ...]:
        """The workspaces of the files."""
        return tuple(self._workspaces)

    @property
    def empty(self) -> bool:
        """Whether there is no kernel to profile yet."""
        return not self._kernels

    async def run(self, watch: Watch) -> None:
        """Profile everything once, then what changes, until cancelled.

        Raises:
            TargetUnreachable: when the target that was asked for is not there at the start.
        """
        worker = asyncio.create_task(self._work())
        changes = asyncio.create_task(self._follow(watch))
        self._refresh()
        try:
            done, _ = await asyncio.wait([worker, changes], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (worker, changes):
                task.cancel()
            await asyncio.gather(worker, changes, return_exceptions=True)

    def note(self, key: Key, text: str) -> None:
        """Show what is being done for a kernel."""
        one = self._kernels.get(key)
        if one is not None and one.row.state == "running":
            one.row = replace(one.row, note=text)
            self._refresh()

    # --- changes --------------------------------------------------------------------------------------------------

    async def _follow(self, watch: Watch) -> None:
        while True:
            await self.changed(await watch.changed())

    async def changed(self, paths: Iterable[Path]) -> None:
        """Read again what has changed, and have profiled what that makes another kernel of."""
        real = await asyncio.to_thread(self._really, tuple(paths))
        if not real:
            return
        for workspace in self._workspaces.values():
            workspace.index.changed(real)
        if any(path.name in SETTINGS for path in real):
            self._reload()
        for path in real:
            before = {key for key in self._kernels if key[0] == path}
            found = await asyncio.to_thread(self._files.again, path)
            if isinstance(found, Unreadable) and not path.exists() and path not in self._files.named:
                found = None  # of a folder's files, those that are gone are not missed
            if found is not None:
                self._take(found)
                continue
            self._problems.pop(path, None)
            for key in before:
                self._drop(key)
        await self._compare(frozenset(real))
        self._refresh()

    def _really(self, paths: tuple[Path, ...]) -> list[Path]:
        """Return those of `paths` whose text is another one than when they were last seen."""
        real = []
        for path in sorted(paths):
            digest = text_digest(path)
            if self._digests.get(path) != digest:
                self._digests[path] = digest
                real.append(path)
        return real

    def _reload(self) -> None:
        for root, workspace in tuple(self._workspaces.items()):
            try:
                settings = load(root)
            except TritonForgeError as error:
                self._problem(root / SETTINGS[0], str(error))
                continue
            self._problems.pop(root / SETTINGS[0], None)
            before = workspace.settings
            self._workspaces[root] = replace(workspace, settings=settings)
            if (before.targets, before.default_target, before.limits) != (
                settings.targets,
                settings.default_target,
                settings.limits,
            ):
                self._reopen = True
                for one in self._kernels.values():
                    one.state = None

    def _take(self, found: Selected | Unreadable) -> None:
        """Take over what a file says now; when it cannot be read, its rows stay and are marked."""
        if isinstance(found, Unreadable):
            mine = [(key, one) for key, one in self._kernels.items() if key[0] == found.path]
            gone = not found.path.exists()
            self._problem(found.path, found.sentence)
            for key, one in mine:
                self._cancel(key)
                note = "the file is gone" if gone else "the file cannot be read as it stands"
                if one.row.state != "stale":
                    one.kept = one.row
                one.row = replace(one.row, state="stale", note=note)
            return
        self._problems.pop(found.path, None)
        self._selected[found.path] = found
        self._digests.setdefault(found.path, text_digest(found.path))
        if found.root not in self._workspaces:
            self._workspaces[found.root] = open_workspace(found.root)
        for key in [key for key in self._kernels if key[0] == found.path]:
            if key[1] not in {kernel.name for kernel in found.kernels}:
                self._drop(key)
        for kernel in found.kernels:
            place = wording.place(kernel)
            known = self._kernels.get((found.path, kernel.name))
            if known is None:
                row = WatchRow(kernel.name, place)
                self._kernels[found.path, kernel.name] = Watched(found, kernel, row)
            else:
                known.selected, known.kernel = found, kernel
                known.row = replace(known.row, place=place)

    async def _compare(self, edited: frozenset[Path]) -> None:
        """Queue every kernel whose state is not the one that its row is about."""
        for key, one in tuple(self._kernels.items()):
            if key[0] in self._problems:
                continue
            now = await asyncio.to_thread(state_of, self._workload(key, one), one.kernel)
            if now == (one.running if one.running is not None else one.state):
                if one.row.state == "stale" and one.kept is not None:  # as it was before: what is known still holds
                    one.row = replace(one.kept, place=one.row.place)
                    self._screen.happened(watch_line(replace(one.row, speedup=None)))
                continue
            if key in self._queue and key[0] not in edited:
                continue
            self._cancel(key)
            one.state, one.lost = None, 0
            # What somebody is working on goes before what merely follows from it, or waits since the start.
            self._queue.insert(0 if key[0] in edited else len(self._queue), key)
            one.row = replace(one.row, state="waiting", note="")
        self._wake.set()

    def _cancel(self, key: Key) -> None:
        """End the job of a kernel that is another one now, and forget that it was waiting."""
        if key in self._queue:
            self._queue.remove(key)
        if self._job is not None and self._job[0] == key:
            self._job[1].cancel()
            self._kernels[key].state = self._kernels[key].running = None

    def _drop(self, key: Key) -> None:
        """Forget a kernel that is not there any more."""
        self._cancel(key)
        row = self._kernels.pop(key).row
        self._screen.happened(watch_line(replace(row, state="failed", note="is gone")))

    def _problem(self, path: Path, sentence: str) -> None:
        if self._problems.get(path) != sentence:
            self._problems[path] = sentence
            self._screen.happened(line(sentence))

    # --- profiling ------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Keep one worker, and have it profile what is queued."""
        first, begun = True, False
        while True:
            self._reopen = False
            settings = self._workspaces[self._root].settings
            opened = False
            try:
                async with open_session(settings, self._target_name) as session:
                    self._footer = f"on {wording.target(session.info)} · Ctrl-C ends"
                    self._problems.pop(self._root, None)
                    judge = await self._judge(session)
                    first, begun, opened = False, True, True
                    await self._serve(session, judge)
            except (TargetUnreachable, UsageError) as error:
                if not begun and (self._target_name is not None or isinstance(error, UsageError)):
                    raise
                begun = True
                if first and isinstance(error, TargetUnreachable):
                    await self._only_source(str(error))
                    continue
                if not opened:  # it will be tried again when something is saved
                    self._problem(self._root, str(error))
                    self._refresh()
                    self._wake.clear()
                    await self._woken()

    async def _judge(self, session: Session) -> Yardstick | None:
        """Return the GPU to judge by; where its ceilings cannot be measured, public figures stand in."""
        with contextlib.suppress(JobError):
            return yardstick(session, ceilings=await ceilings_of(session, self._workspaces[self._root].store))
        return yardstick(session)

    async def _only_source(self, why: str) -> None:
        """Without a worker there is still the source: judge that, whenever it changes, until targets are others."""
        self._footer = "no worker is available, so only the source is judged · Ctrl-C ends"
        self._problem(self._root, f"no worker is available, so only the source is judged: {why}")
        while not self._reopen:
            while self._queue:
                key = self._queue.pop(0)
                one = self._kernels[key]
                workload = self._workload(key, one)
                (judged,) = inspect_source(one.selected.analysis, (one.kernel,), workload.settings, note="source only")
                one.state = await asyncio.to_thread(state_of, workload, one.kernel)
                one.row = replace(one.row, findings=len(judged.findings), state="fresh", note="source only")
                self._screen.happened(watch_line(one.row))
            self._refresh()
            await self._woken()

    async def _woken(self) -> None:
        await self._wake.wait()
        self._wake.clear()

    async def _serve(self, session: Session, judge: Yardstick | None) -> None:
        """Profile one kernel after the other, until the target is to be opened anew."""
        while not self._reopen:
            self._refresh()
            if not self._queue:
                await self._woken()
                continue
            key = self._queue.pop(0)
            one = self._kernels[key]
            task = asyncio.create_task(self._profile(key, one, session, judge))
            self._job = key, task
            try:
                await asyncio.wait([task])
            finally:
                self._job = None
                one.running = None
                task.cancel()
                await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                self._failed(key, one, error)

    def _failed(self, key: Key, one: Watched, error: BaseException) -> None:
        """Put into the row why there is no profile; a worker that has ended is replaced, once for one state."""
        if isinstance(error, TargetUnreachable):
            one.lost += 1
            if one.lost < 2 and self._kernels.get(key) is one:
                self._queue.insert(0, key)
                raise error
        if not isinstance(error, TritonForgeError):
            raise error
        if isinstance(error, JobError):
            note = error_of(error, one.kernel)
        else:
            note = f"no launch known: {error}" if isinstance(error, NoLaunchKnown) else str(error)
        one.row = replace(WatchRow(one.row.kernel, one.row.place), state="failed", note=note)
        self._screen.happened(watch_line(one.row))
        if isinstance(error, TargetUnreachable):
            raise error

    async def _profile(self, key: Key, one: Watched, session: Session, judge: Yardstick | None) -> None:
        selected, kernel = one.selected, one.kernel
        workload = self._workload(key, one)
        read = functools.partial(asyncio.to_thread, state_of, workload, kernel)
        one.row = replace(one.row, state="running", note="")
        self._refresh()
        one.state = one.running = await read()
        old: list[str] = []
        workload.on_stale = lambda _, why: old.append(f"on launches recorded earlier: {why}")
        subject = await workload.subject_of(kernel, session)
        one.state = one.running = await read()  # what was recorded just now is part of it
        self.note(key, "")
        result, _ = await profile(subject, session, judge, budget_s=BUDGET_S, store=workload.store)
        findings = {(f.code, f.range): f for one_of in result.profiles for f in one_of.findings}
        kept = wanted(tuple(findings.values()), selected.analysis.file, workload.settings)
        speedup = change_of(one.result, result) if one.result is not None else None
        one.row = watch_row(one.kernel, result, speedup=speedup, findings=len(kept))
        if one.row.state == "fresh":
            one.result = result
            one.row = replace(one.row, note="; ".join(old))
        self._screen.happened(watch_line(one.row))

    def _workload(self, key: Key, one: Watched) -> FileWorkload:
        workspace: Workspace = self._workspaces[one.selected.root]
        return workspace.workload(
            one.selected, allow_run=self._allow_run, progress=_Said(self, key), named=self._selected.values()
        )

    def _refresh(self) -> None:
        with contextlib.suppress(BlockingIOError):  # a terminal that is stopped; the next one shows it
            self._screen.show([one.row for one in self._kernels.values()], list(self._problems.values()), self._footer)
