"""A server's side of a backend: starts the process, hands tasks over, and hears what comes of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tritonforge.backend.tasks import Event, Opening, Task
from tritonforge.backend.wire import Unpacker, packed
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.profile import TargetInfo

R = TypeVar("R")
_READ = 1 << 16
CANCEL_S = 8.0
"""Seconds that a cancelled task has to hand over what it has; a backend that does not answer then is ended."""
_KILLED_S = 0.5
_PROGRAM = "import sys; sys.path[:] = {path!r}; from tritonforge.backend.host import main; main()"


class Bug(RuntimeError):
    """Something that a task should not have run into; its traceback is in the log."""


@dataclass
class _Pending:
    answer: asyncio.Future[Any]
    on_event: Callable[[Event], None]


class Backend:
    """A process that works on one target. Any number of tasks may be under way at once."""

    def __init__(self, process: asyncio.subprocess.Process, named: str) -> None:
        """Use a process that was started; `named` is the target's name, for messages."""
        assert process.stdin is not None
        self._process = process
        self._stdin = process.stdin
        self._named = named
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._ended: TargetUnreachable | None = None
        self.info: TargetInfo | None = None
        """What the target said of itself when it was last opened."""
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, opening: Opening) -> Backend:
        """Start a process, and have it open a target.

        Raises:
            UsageError: no such target is configured.
            TargetUnreachable: its worker does not start.
        """
        name = opening.name or opening.settings.default_target
        # The path is ours: with `-m`, files of the folder that we were started in would be found first.
        program = _PROGRAM.format(path=[part for part in sys.path if part])
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-c", program,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C on a terminal is for the server alone, which decides what ends
            )  # fmt: skip
        except OSError as error:
            raise TargetUnreachable(f"{sys.executable} cannot be started ({error.strerror or error}).") from error
        backend = cls(process, name)
        try:
            await backend._ask(0, ("open", opening), lambda _: None)
        except BaseException:
            await backend.close(0.0)
            raise
        return backend

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._ended is not None

    async def run(self, task: Task[R], on_event: Callable[[Event], None] = lambda _: None) -> R:
        """Have a task done and return what it ends with; `on_event` hears of it meanwhile.

        A task that is cancelled may still end with something, as a search does with its best so far; then that is
        returned, and the cancellation is over.

        Raises:
            TritonForgeError: what the task raised.
            TargetUnreachable: the process is gone.
            Bug: the task failed in a way that nobody thought of.
        """
        number = next(self._numbers)
        result: R = await self._ask(number, ("run", number, task), on_event)
        return result

    async def _ask(self, number: int, message: tuple[Any, ...], on_event: Callable[[Event], None]) -> Any:
        if self._ended is not None:
            raise self._ended
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = _Pending(answer, on_event)
        try:
            self._send(message)
            try:
                await asyncio.wait({answer})
            except asyncio.CancelledError:
                self._send(("cancel", number))
                await asyncio.wait({answer}, timeout=CANCEL_S)
                if not answer.done():
                    self._kill()
                current = asyncio.current_task()
                if current is None or not answer.done() or answer.cancelled() or answer.exception():
                    raise
                current.uncancel()
            return answer.result()
        finally:
            self._pending.pop(number, None)
            answer.cancel()
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, even when it came too late

    async def close(self, seconds: float) -> None:
        """End the process and its worker: the end of its input is the order to end, and then there is force."""
        self._end(TargetUnreachable(f"The work on target {self._named!r} was ended."))
        try:
            self._stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), seconds)
        finally:
            self._kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _KILLED_S)
        self._listener.cancel()
        await asyncio.wait([self._listener])
        # What a worker still holds open for a moment would keep the transport until the loop is gone.
        self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001

    def _send(self, message: tuple[Any, ...]) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(packed(message))

    def _kill(self) -> None:
        # Its worker notices that nobody holds the other end of its pipe, and ends with everything it has started.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        unpacker, what = Unpacker(), "has ended"
        try:
            while data := await self._process.stdout.read(_READ):
                for message in unpacker.feed(data):
                    self._take(message)
        except OSError as error:
            what = f"cannot be read from ({error.strerror or error})"
        except Exception as error:  # noqa: BLE001 - whatever a pickle of another version leads to
            what = f"sent what cannot be read ({type(error).__name__}: {error})"
        if self._ended is None:
            with contextlib.suppress(TimeoutError):  # to send a signal would take its status from who waits for it
                await asyncio.wait_for(self._process.wait(), _KILLED_S if what == "has ended" else 0.0)
            self._kill()
            status = await self._process.wait()
            said = f" (status {status})" if what == "has ended" else ""
            self._end(
                TargetUnreachable(f"The process that works on target {self._named!r} {what}{said}.", "Try again.")
            )

    def _end(self, error: TargetUnreachable) -> None:
        if self._ended is None:
            self._ended = error
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(error)

    def _take(self, message: tuple[Any, ...]) -> None:
        if message[0] == "ready":
            self.info = message[1]
            message = ("done", 0, None)
        pending = self._pending.get(message[1])
        if pending is None or pending.answer.done():
            return
        match message:
            case ("event", number, event):
                try:
                    pending.on_event(event)
                except Exception as error:  # noqa: BLE001 - for whoever listens to it, not for all others
                    pending.answer.set_exception(error)
                    self._send(("cancel", number))
            case ("done", _, result):
                pending.answer.set_result(result)
            case ("cancelled", _):
                pending.answer.cancel()
            case ("failed", _, error):
                pending.answer.set_exception(error)
            case ("bug", _, sentence):
                pending.answer.set_exception(Bug(sentence))
