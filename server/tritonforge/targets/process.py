"""The real transport: a child process, local or a command prefix, whose Python fetches the worker over the pipe."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.target import Target
from tritonforge.targets.archive import worker_archive
from tritonforge.targets.command import bootstrap, command_line
from tritonforge.targets.ssh import mend_for, never_asking
from tritonforge.targets.text import plain, shown

_MARK = b"tritonforge-worker/1 "
_READ = 1 << 20
_NOISE_LIMIT = 1 << 20
_STDERR_LINES = 40
_SHOWN_LINES = 3
_SHOWN_BYTES = 300
_GRACE_S = 1.4


@dataclass(frozen=True)
class ProcessTransport:
    """Starts the worker of `target` as a child process.

    `options` are fields of the worker's own `Options` (`warm`, `lanes`, and, for tests, `handlers` and `path`); `log`
    is called with every line that the worker or the command writes to stderr.
    """

    target: Target
    options: dict[str, Any] = field(default_factory=dict)
    log: Callable[[str], None] | None = None

    async def open(self, timeout: float) -> ProcessChannel:  # noqa: ASYNC109 - the error needs what was seen until then
        """Start the worker; see `Transport.open`."""
        archive = worker_archive()
        program = bootstrap(archive, self.options)
        target = dataclasses.replace(self.target, command=never_asking(self.target.command))
        arguments = command_line(target, len(program))
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=4 * _READ,
                start_new_session=True,  # Ctrl-C on a terminal is for us alone; we decide what becomes of the worker
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise TargetUnreachable(
                f"Target {self.target.name!r}: {arguments[0]} cannot be started ({reason}).",
                "Correct `command` or `python` of the target.",
            ) from error
        channel = ProcessChannel(process, self.log)
        try:
            async with asyncio.timeout(timeout):
                await self._greet(channel, program, archive.data)
        except BaseException as error:
            await channel.close()
            if isinstance(error, TimeoutError):
                words = await channel.last_words()
                raise TargetUnreachable(
                    f"Target {self.target.name!r} did not answer within {timeout:g} s{_quoted(words)}.",
                    mend_for(words, self.target.command)
                    or f"See what {shown(self.target.command) or arguments[0]} does by itself.",
                ) from None
            raise
        return channel

    async def _greet(self, channel: ProcessChannel, program: bytes, archive: bytes) -> None:
        channel.write(program)
        while True:
            answer = await channel.read_mark()
            if answer is None:
                status = await channel.status()
                words = await channel.last_words()
                what = "closed its output" if status is None else f"ended with status {status}"
                raise TargetUnreachable(
                    f"Target {self.target.name!r}: the command {what} before a worker answered{_quoted(words)}.",
                    mend_for(words, self.target.command)
                    or "Check that `command` reaches the machine without a question and that `python` is there.",
                )
            word, _, rest = answer.partition(" ")
            if word == "need":
                channel.write(archive)
                await channel.drain()
            elif word == "start":
                return
            elif word == "python":
                version, _, executable = plain(rest)[:200].partition(" ")
                raise TargetUnreachable(
                    f"Target {self.target.name!r} runs Python {version} ({executable}), too old for a worker (3.10).",
                    "Name a newer interpreter that has torch and triton as the target's `python`.",
                )
            elif word == "platform":  # anything else only looks like an answer
                raise TargetUnreachable(
                    f"Target {self.target.name!r} is no Linux machine ({plain(rest)[:80]}), which Triton needs.",
                    "Use a container or a Linux host as target.",
                )


class ProcessChannel:
    """The pipes of a worker's process."""

    def __init__(self, process: asyncio.subprocess.Process, log: Callable[[str], None] | None) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._early = b""
        self._unfinished = self._unfinished_error = b""
        self._errors: deque[str] = deque(maxlen=_STDERR_LINES)
        self._listener = asyncio.create_task(self._listen(log))

    @property
    def pid(self) -> int:
        """The process id of the worker, or of the command that reaches it."""
        return self._process.pid

    async def _listen(self, log: Callable[[str], None] | None) -> None:
        assert self._process.stderr is not None
        rest = b""
        while data := await self._process.stderr.read(_READ):
            *lines, rest = (rest + data).split(b"\n")
            self._unfinished_error = rest = rest[-10_000:]
            for line in lines:
                text = line.decode("utf-8", "replace").rstrip()
                if text:
                    self._errors.append(plain(text))
                if log is not None:
                    log(text)
        if rest.strip():
            self._errors.append(plain(rest.decode("utf-8", "replace").rstrip()))
        self._unfinished_error = b""

    async def read_mark(self) -> str | None:
        """Skip whatever a login prints, and return what the bootstrap says next; None when the process has ended."""
        seen = self._early
        while True:
            *lines, seen = seen.split(b"\n")
            for index, line in enumerate(lines):
                if line.startswith(_MARK):
                    self._unfinished = b""
                    self._early = b"\n".join([*lines[index + 1 :], seen])
                    return line[len(_MARK) :].decode("utf-8", "replace").rstrip("\r")
                if line.strip():
                    self._errors.append(plain(line.decode("utf-8", "replace").rstrip()))
            self._unfinished = seen = seen[-_NOISE_LIMIT:]
            data = await self._stdout.read(_READ)
            if not data:
                return None
            seen += data

    async def read(self) -> bytes:
        """See `Channel.read`."""
        if self._early:
            data, self._early = self._early, b""
            return data
        return await self._stdout.read(_READ)

    def write(self, data: bytes) -> None:
        """See `Channel.write`."""
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def drain(self) -> None:
        """See `Channel.drain`; a worker that has ended is noticed by who reads from it."""
        with contextlib.suppress(ConnectionError):
            await self._stdin.drain()

    async def last_words(self) -> str:
        """See `Channel.last_words`; of a process that has ended, what is still on its way is waited for."""
        if self._stdout.at_eof():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._listener), 0.3)
        # A question ends without a line's end.
        rests = (self._unfinished_error, self._unfinished)
        questions = (plain(rest[-_SHOWN_BYTES:].decode("utf-8", "replace")).strip() for rest in rests)
        return "\n".join([*self._errors, *filter(None, questions)][-_SHOWN_LINES:])

    async def status(self) -> int | None:
        """Return the exit status of a process whose output has ended; None where it goes on without any."""
        # Others may hold its pipes open (a connection that ssh shares), which `wait` would wait for.
        deadline = asyncio.get_running_loop().time() + _GRACE_S
        while self._process.returncode is None and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return self._process.returncode

    async def close(self) -> None:
        """See `Channel.close`: the end of its input is the order to end, and then there is force."""
        try:
            self._stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE_S)
        finally:  # also when whoever closes is cancelled
            try:
                await end_session(self._process)
            finally:
                self._listener.cancel()
        await asyncio.wait([self._listener])


async def end_session(process: asyncio.subprocess.Process) -> None:
    """End a process that was started in a session of its own, with all that it started there, and let its pipes go."""
    try:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.5)
    finally:
        # Pipes that a process of the user's still holds open would keep the transport until the loop is gone.
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001


def _quoted(words: str) -> str:
    return f" (last lines: {' / '.join(words.splitlines())})" if words else ""
