"""Everything the server holds, and how a change of it reaches the client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from tritonforge.backend.facts import KernelFacts
from tritonforge.backend.tasks import Source
from tritonforge.config import Settings
from tritonforge.config.settings import SettingProblem
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.lsp.client import Client
from tritonforge.lsp.closed import ClosedFiles
from tritonforge.lsp.consents import Consents
from tritonforge.lsp.diagnostics import diagnostics
from tritonforge.lsp.documents import Documents, Snapshot, path_of
from tritonforge.lsp.facts import Facts, Offer, is_fresh
from tritonforge.lsp.jobs import BACKGROUND, Job, Jobs
from tritonforge.lsp.listing import KernelList
from tritonforge.lsp.notebooks import into_cell
from tritonforge.lsp.options import Options
from tritonforge.lsp.remembering import remember
from tritonforge.lsp.reports import Reports
from tritonforge.lsp.restoring import search_of
from tritonforge.lsp.sessions import Sessions
from tritonforge.lsp.verifying import Verdicts
from tritonforge.lsp.workspaces import Workspaces

if TYPE_CHECKING:
    from tritonforge.workload.gather import FileWorkload
    from tritonforge.workload.index import Way

OPEN_SETTINGS = "Open Settings"
IDLE_S = 1.5
"""Seconds without a keystroke after which known launches are compiled."""
END_S, CLOSING_S = 3.0, 0.4
"""Seconds that jobs, and then workers, have to end by themselves: when settings change, and when the editor closes."""
CLOSE_S = 1.0
"""Seconds after which a document that was closed, and not opened again, has its jobs ended."""
PUSH_S = 0.2
"""Seconds after a change until diagnostics are pushed to a client that cannot pull."""


Inspect = Callable[["State", Snapshot, tuple[Kernel, ...], Job], Coroutine[Any, Any, str]]


class State:
    """The server's state. Handlers read snapshots from it; jobs bring it news."""

    def __init__(self, client: Client, options: Options, encoding: str, inspect: Inspect) -> None:
        """Begin with nothing open and nothing known.

        `encoding` is what positions are counted in; `inspect` compiles the known launches of kernels in the background.
        """
        self._inspect = inspect
        self.options = options
        self.client = client
        self.documents = Documents(encoding)
        client.layout = self.documents.notebooks.layout
        client.opened = self.documents.opened
        self.facts = Facts()
        self.kernels = KernelList()
        self.verdicts = Verdicts()
        self.workspaces = Workspaces(self._warn_of_setting)
        self._closed = ClosedFiles(self.workspaces, encoding)
        self.sessions = Sessions()
        self.reports = Reports()
        self.consents = Consents()
        self.jobs = Jobs(self.client, self._jobs_changed)
        self._ways: dict[tuple[str, str], tuple[Way, ...]] = {}
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._warned: set[str] = set()
        self._restored: set[tuple[str, str]] = set()
        """Kernels whose earlier suggestions were looked for."""
        self._tasks: set[asyncio.Future[object]] = set()

    def snapshot(self, uri: str) -> Snapshot | None:
        """Return an open document as it is now; for a cell its whole notebook."""
        uri = self.documents.owner(uri)
        root, file = self.workspaces.place(path_of(uri), uri)
        return self.documents.snapshot(uri, root, file)

    def look_at(self, uri: str) -> Snapshot | None:
        """Return a document as it is now; as it is on disk where it is not open. None where there is no such file."""
        found = self.snapshot(uri)
        return found if found is not None else self._closed.snapshot(uri)

    async def read(self, uri: str) -> Snapshot | None:
        """Return what `look_at` does; a file that is not open is read and analysed in a thread."""
        found = self.snapshot(uri)
        return found if found is not None else await asyncio.to_thread(self._closed.snapshot, uri)

    def settings(self, root: Path) -> Settings:
        """Return the settings of a workspace as they are now."""
        return self.workspaces.of(root).settings(self.options)

    def source(self, snapshot: Snapshot) -> Source:
        """Return a document as a backend needs it."""
        return Source(snapshot.analysis, snapshot.text, self.settings(snapshot.root), self._texts(snapshot.root))

    async def workload(self, snapshot: Snapshot) -> FileWorkload:
        """Return what knows the calls of a document's kernels that were specified or recorded; it runs nothing."""
        from tritonforge.workload.gather import FileWorkload

        store = await asyncio.to_thread(self.workspaces.of(snapshot.root).store)
        return FileWorkload(
            root=str(snapshot.root),
            analysis=snapshot.analysis,
            text=snapshot.text,
            settings=self.settings(snapshot.root),
            store=store,
            allow_run=False,
            texts=self._texts(snapshot.root),
        )

    def _texts(self, root: Path) -> dict[str, str]:
        """Return the open documents of a workspace, by what results call them: they count as they stand."""
        texts = {}
        for uri in self.documents.uris:
            path, text = path_of(uri), self.documents.text(uri)
            if path is not None and text is not None and path.is_relative_to(root):
                texts[path.relative_to(root).as_posix()] = text
        return texts

    async def ways(self, snapshot: Snapshot, kernel: Kernel) -> tuple[Way, ...]:
        """Return what could be run to see launches of a kernel."""
        index = await asyncio.to_thread(self.workspaces.of(snapshot.root).index)
        return await asyncio.to_thread(index.ways, kernel, snapshot.text)

    def ways_for(self, uri: str) -> dict[str, tuple[Way, ...]]:
        """Return what was last found that could be run, by kernel: of those kernels whose launches are not known."""
        return {kernel: ways for (at, kernel), ways in self._ways.items() if at == uri}

    def files_changed(self, paths: Sequence[Path]) -> None:
        """React to files that changed on disk: what can be run, and what recorded calls depend on, may be other now."""
        if paths:
            self.workspaces.changed(paths)
            for uri in self.documents.uris:
                self.look_again(uri)

    def learn(self, uri: str, facts: KernelFacts) -> None:
        """Take over what a job found out, and show it."""
        self._ways.pop((uri, facts.kernel.name), None)
        self.facts.learn(uri, facts)
        root, _ = self.workspaces.place(path_of(uri), uri)
        self.in_background(asyncio.to_thread(remember, self.workspaces.of(root), facts))
        self._show(uri)

    def offer(self, uri: str, offer: Offer) -> None:
        """Take over a suggestion, and show it."""
        self.facts.offer(uri, offer)
        self._show(uri)

    def opened(self, uri: str) -> None:
        """React to a document that was opened."""
        uri = self.documents.owner(uri)
        closing = self._timers.pop(("close", uri), None)
        if closing is not None:
            closing.cancel()  # closed and opened again at once: renamed, or of another language for a moment
        preparing = self.documents.prepare(uri, self.workspaces.place(path_of(uri), uri)[1])
        if preparing is None:
            self._push(uri)
        else:
            preparing.add_done_callback(lambda _: self._push(uri))
        self.look_again(uri)

    def changed(self, uri: str) -> None:
        """React to an edit."""
        uri = self.documents.owner(uri)
        if uri in self.documents.notebooks.uris and self.client.can.pulls_diagnostics:
            # The client asks again for the cell that changed, and what was found may be in another one.
            self._later("push", uri, PUSH_S, self.client.refresh)
        if not self.client.can.pulls_diagnostics:
            self._later("push", uri, PUSH_S, lambda: self._push(uri))
        self.jobs.cancel_background(uri)
        self.look_again(uri)

    def closed(self, uri: str, cells: Sequence[str] = ()) -> None:
        """React to a document that was closed, `cells` being those of a notebook: what was begun for it ends."""
        for kernel in self.ways_for(uri):
            self._ways.pop((uri, kernel), None)
        for what in ("push", "idle"):
            timer = self._timers.pop((what, uri), None)
            if timer is not None:
                timer.cancel()
        self.jobs.cancel_background(uri)
        self._later("close", uri, CLOSE_S, lambda: self.jobs.cancel_of(uri))
        if not self.client.can.pulls_diagnostics:
            for one in cells or (uri,):
                self.client.publish(one, None, [])

    def look_again(self, uri: str) -> None:
        """Compile the document's known launches once nobody has typed for a while."""
        self._later("idle", uri, IDLE_S, lambda: self._idle(uri))

    def in_background(self, work: Coroutine[Any, Any, object]) -> None:
        """Let something run that nobody waits for; it ends with the server at the latest."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def reconfigure(self, options: Options) -> None:
        """Take over new options: jobs and workers end, settings are read again, results are kept."""
        before, self.options = self.options, options
        for problem in options.problems:
            self._warn_once(problem)
        sessions, self.sessions = self.sessions, Sessions()
        self.workspaces.reset()
        self.in_background(self._end(self.jobs.cancel_all(), sessions))
        if before != options:
            for uri in self.documents.uris:
                self.opened(uri)
        self.client.refresh()

    async def _end(self, jobs: Sequence[asyncio.Task[str]], sessions: Sessions, seconds: float = END_S) -> None:
        await self.jobs.ended(jobs, seconds)
        await sessions.close(seconds)

    async def close(self) -> None:
        """End every job, every worker, every store."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._tasks:
            task.cancel()
        # The editor waits for this; a worker that is still there goes with the pipe it listens to.
        await self._end(self.jobs.cancel_all(), self.sessions, CLOSING_S)
        self.workspaces.close()

    def _idle(self, uri: str) -> None:
        if not self.documents.is_prepared(uri):
            self.look_again(uri)
            return
        snapshot = self.snapshot(uri)
        if snapshot is None or snapshot.path is None or not self.options.trusted:
            return
        unknown = tuple(k for k in snapshot.analysis.kernels if not self._is_known(uri, k))
        if not unknown:
            return

        async def look(job: Job) -> str:
            try:
                await self._restore(snapshot, unknown)
                found = await self._with_launches(snapshot, unknown)
                await self._find_ways(snapshot, [kernel for kernel in unknown if kernel not in found])
                return await self._inspect(self, snapshot, found, job) if found else ""
            except asyncio.CancelledError:
                if job.preempted:  # by what the user asked for: it is their turn, and then this one's
                    self.look_again(uri)
                raise

        self.jobs.start(look, title=None, subject=(uri, ""), priority=BACKGROUND)

    async def _restore(self, snapshot: Snapshot, kernels: Sequence[Kernel]) -> None:
        """Offer again what an earlier server found of these kernels; each is looked up once."""
        wanted = [one for one in kernels if (snapshot.uri, one.name) not in self._restored]
        if not wanted or snapshot.cells is not None or not self.workspaces.of(snapshot.root).has_store:
            return
        with contextlib.suppress(UsageError):  # a newer TritonForge wrote it; jobs say so
            store = await asyncio.to_thread(self.workspaces.of(snapshot.root).store)
            for kernel in wanted:
                result = await asyncio.to_thread(search_of, store, kernel, snapshot.text)
                self._restored.add((snapshot.uri, kernel.name))
                if result is None or result.best is None or self.facts.offered(snapshot.uri, kernel.name) is not None:
                    continue
                self.facts.keep_search(snapshot.uri, result)
                self.offer(snapshot.uri, Offer(f"kept-{kernel.code_hash[:12]}", kernel, snapshot.text, result.best))

    async def _with_launches(self, snapshot: Snapshot, kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
        """Return those of `kernels` whose launches are known, from a spec or an earlier recording."""
        specified = bool(snapshot.analysis.specs or self.settings(snapshot.root).launches)
        if not (specified or self.workspaces.of(snapshot.root).has_store):
            return ()
        workload = await self.workload(snapshot)
        found = []
        for kernel in kernels:
            try:
                if await asyncio.to_thread(workload.known, kernel, stale=True):
                    found.append(kernel)
            except UsageError as error:
                self._warn_once(str(error))
        return tuple(found)

    async def _find_ways(self, snapshot: Snapshot, kernels: Sequence[Kernel]) -> None:
        """Find what could be run to see the launches of these kernels, all others' being known, and offer it."""
        before = self.ways_for(snapshot.uri)
        now = {kernel.name: await self.ways(snapshot, kernel) for kernel in kernels}
        if now != before:
            for name in before:
                self._ways.pop((snapshot.uri, name), None)
            self._ways |= {(snapshot.uri, name): ways for name, ways in now.items()}
            self.client.refresh(diagnostics=False)

    def _is_known(self, uri: str, kernel: Kernel) -> bool:
        known = self.facts.of(uri, kernel.name)
        return known is not None and is_fresh(known, kernel)

    def _show(self, uri: str) -> None:
        self._push(uri)
        self.client.refresh()

    def _push(self, uri: str) -> None:
        if self.client.can.pulls_diagnostics:
            return
        snapshot = self.snapshot(uri)
        if snapshot is not None:
            found = diagnostics(snapshot, self.facts, self.settings(snapshot.root))
            if snapshot.cells is None:
                self.client.publish(snapshot.uri, snapshot.version, found)
            else:
                for cell in snapshot.cells.cells:
                    self.client.publish(cell.uri, cell.version, into_cell(found, cell))

    def _jobs_changed(self) -> None:
        self.client.refresh(diagnostics=False)

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self.client.warn(sentence)

    def _warn_of_setting(self, problem: SettingProblem, path: Path) -> None:
        """Say what is wrong with a setting, with a button that leads there where the client can show it."""
        sentence = str(problem)
        if not self.client.can.shows_documents or not path.is_file():
            self._warn_once(sentence)
        elif sentence not in self._warned:
            self._warned.add(sentence)
            self.in_background(self._lead_to(sentence, path, problem.line))

    async def _lead_to(self, sentence: str, path: Path, line: int | None) -> None:
        if await self.client.ask(sentence, OPEN_SETTINGS, kind=types.MessageType.Warning) == OPEN_SETTINGS:
            await self.client.show(path.as_uri(), line)

    def _later(self, what: str, uri: str, seconds: float, action: Callable[[], None]) -> None:
        before = self._timers.pop((what, uri), None)
        if before is not None:
            before.cancel()
        self._timers[what, uri] = asyncio.get_running_loop().call_later(seconds, action)
