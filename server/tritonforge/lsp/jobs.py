"""Jobs: work that outlives the request that asked for it. One queue for each target, urgent ones first."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field

from tritonforge.domain.errors import TritonForgeError
from tritonforge.lsp.client import Client

_log = logging.getLogger("tritonforge.lsp")

USER, BACKGROUND = 0, 10
"""Priorities: lower goes first. What a person asked for also interrupts what runs in the background."""
_REPORT_S = 0.1
"""Progress is shown at most this often."""


@dataclass
class Job:
    """One piece of work. `subject` is the (uri, kernel) it is about; `title` is None for silent ones."""

    id: str
    title: str | None
    subject: tuple[str, str]
    priority: int
    verb: str = ""
    task: asyncio.Task[str] | None = None
    waiting_for_turn: bool = False
    started: bool = False
    cancelled: bool = False
    preempted: bool = False
    """Whether it was cancelled to make room for what a person asked for."""
    document: str | None = None
    """The open document that it was started for, and ends with."""
    prefix: str = ""
    """Said before each step: which of several kernels it is about."""
    _last: float = 0.0
    _message: tuple[str, int | None] = ("", None)
    _shown: bool = False
    _client: Client | None = field(default=None, repr=False)

    def report(self, message: str, done: int = 0, total: int = 0) -> None:
        """Say how far it is."""
        self._message = f"{self.prefix}{message}", (100 * done // total if total else None)
        now = asyncio.get_running_loop().time()
        if self._shown and self._client is not None and now - self._last >= _REPORT_S:
            self._last = now
            self._client.report(self.id, *self._message)


class Jobs:
    """All jobs, waiting and running."""

    def __init__(self, client: Client, on_change: Callable[[], None]) -> None:
        """Call `on_change` when the set of jobs has changed."""
        self._client = client
        self._on_change = on_change
        self._ids = itertools.count(1)
        self._jobs: dict[str, Job] = {}
        self._turns: dict[Hashable, _Turns] = {}

    def start(
        self,
        work: Callable[[Job], Awaitable[str]],
        *,
        title: str | None,
        subject: tuple[str, str] = ("", ""),
        priority: int = USER,
        verb: str = "",
        document: str | None = None,
    ) -> Job:
        """Begin a job and return it at once. `work` returns its outcome in one line."""
        job = Job(f"tritonforge-{next(self._ids)}", title, subject, priority, verb, _client=self._client)
        job.document = document
        self._jobs[job.id] = job
        job.task = asyncio.create_task(self._run(job, work))
        job.task.add_done_callback(lambda _: self._ended(job))
        if title is not None:
            self._on_change()
        return job

    def turn(self, key: Hashable, job: Job) -> _Turn:
        """Return a context in which `job` has the target called `key` to itself."""
        return _Turn(self._turns.setdefault(key, _Turns()), job)

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False when there is none of that id, or it is being cancelled already."""
        job = self._jobs.get(job_id)
        # A second cancellation would break off what the first one saves.
        if job is None or job.cancelled or job.task is None:
            return False
        job.cancelled = True
        # A task that is cancelled before its first step never takes it, and would end without a word.
        return job.task.cancel() if job.started else True

    def about(self, subject: tuple[str, str]) -> Job | None:
        """Return the job that a person sees for this (uri, kernel), or None."""
        return next((job for job in self._jobs.values() if job.title and job.verb and job.subject == subject), None)

    def turn_to(self, job: Job, subject: tuple[str, str], prefix: str) -> None:
        """Let a job about several kernels go on to the next one."""
        job.subject, job.prefix = subject, prefix
        self._on_change()

    def cancel_background(self, uri: str) -> None:
        """Cancel background jobs about a document."""
        for job in tuple(self._jobs.values()):
            if job.priority >= BACKGROUND and job.subject[0] == uri:
                self.cancel(job.id)

    def cancel_of(self, document: str) -> None:
        """Cancel what was started for a document; a search keeps what it has verified."""
        for job in tuple(self._jobs.values()):
            if job.document == document:
                self.cancel(job.id)

    def cancel_all(self) -> list[asyncio.Task[str]]:
        """Cancel every job there is now, and return their tasks."""
        jobs = tuple(self._jobs.values())
        for job in jobs:
            self.cancel(job.id)
        return [job.task for job in jobs if job.task is not None]

    @staticmethod
    async def ended(tasks: Sequence[asyncio.Task[str]], seconds: float = 3.0) -> None:
        """Wait for cancelled jobs to end, at most that long; then insist."""
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()

    def _ended(self, job: Job) -> None:
        self._jobs.pop(job.id, None)
        if job.title is not None:
            self._on_change()

    async def _run(self, job: Job, work: Callable[[Job], Awaitable[str]]) -> str:
        # Progress needs the client's consent, and a client that is slow to give it must not hold the work up.
        begun = asyncio.create_task(self._begin(job)) if job.title and job.verb else None
        outcome = "Failed"
        try:
            job.started = True
            outcome = "Cancelled" if job.cancelled else await work(job)
        except asyncio.CancelledError:
            outcome = "Cancelled"
        except TritonForgeError as error:
            self._complain(job, str(error))
        except Exception as error:  # noqa: BLE001 - a bug in one job must not end the others
            _log.exception("job %s failed", job.id)
            self._complain(job, f"this is a bug in TritonForge ({type(error).__name__}: {error}); see its log")
        finally:
            if begun is not None:
                # A short job may be over before the client has agreed, and still has a beginning and an end.
                await asyncio.wait({begun}, timeout=1.0)
                begun.cancel()
                if job._shown:  # noqa: SLF001 - same module
                    self._client.end(job.id, outcome)
        return outcome

    async def _begin(self, job: Job) -> None:
        assert job.title is not None
        if await self._client.begin(job.id, job.title):
            job._shown = True  # noqa: SLF001 - same module
            if job._message[0]:  # noqa: SLF001
                self._client.report(job.id, *job._message)  # noqa: SLF001

    def _complain(self, job: Job, sentence: str) -> None:
        if job.priority >= BACKGROUND:
            _log.info("background job: %s", sentence)
        else:
            self._client.warn(sentence)


class _Turns:
    """Who has a target, and who waits for it."""

    def __init__(self) -> None:
        self.holder: Job | None = None
        self.waiting: list[tuple[int, int, asyncio.Future[None], Job]] = []
        self.order = itertools.count()

    def pass_on(self) -> None:
        self.holder = None
        self.waiting = [entry for entry in self.waiting if not entry[2].done()]
        if self.waiting:
            entry = min(self.waiting)
            self.waiting.remove(entry)
            self.holder = entry[3]  # at once: nobody may slip in before that task goes on
            entry[2].set_result(None)


class _Turn:
    """A job's turn on a target, as an async context."""

    def __init__(self, turns: _Turns, job: Job) -> None:
        self._turns = turns
        self._job = job

    async def __aenter__(self) -> None:
        turns, job = self._turns, self._job
        if turns.holder is None and not turns.waiting:
            turns.holder = job
            return
        holder = turns.holder
        # One that is being cancelled already is on its way; a second time would break off what it still tidies up.
        if holder is not None and holder.priority > job.priority and holder.task is not None and not holder.cancelled:
            holder.cancelled = holder.preempted = True
            holder.task.cancel()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns.waiting.append((job.priority, next(turns.order), future, job))
        job.waiting_for_turn = True
        job.report("waiting for another job")
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                turns.pass_on()
            raise
        finally:
            job.waiting_for_turn = False

    async def __aexit__(self, *_: object) -> None:
        self._turns.pass_on()
