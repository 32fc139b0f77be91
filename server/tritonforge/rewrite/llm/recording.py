"""Exchanges in a file of JSON Lines: written while a model is asked, and answered from without one.

Each line is one `Exchange` as the codec writes it, so a recording is what was asked and answered, and with which
parameters. A replay answers a question with the exchange whose question is the same. Prompts hold measured times, which
differ from run to run: where none is the same, the next one of that kernel and purpose answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.domain.errors import UsageError
from tritonforge.domain.exchange import Exchange, Question
from tritonforge.rewrite.llm.transport import ModelUnavailable, Transport


def read_recording(path: Path) -> tuple[Exchange, ...]:
    """Return the exchanges of a recording.

    Raises:
        UsageError: when it cannot be read, with the line that is wrong.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"The recording {path} cannot be read: {reason}.") from error
    found: list[Exchange] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(decode(Exchange, json.loads(line)))
        except (ValueError, TypeError, CodecError, RecursionError) as error:
            raise UsageError(
                f"{path}:{number} is no exchange with a model.", "Record it again with --record-llm."
            ) from error
    if not found:
        raise UsageError(f"The recording {path} is empty.", "Record it again with --record-llm.")
    return tuple(found)


def line_of(exchange: Exchange) -> str:
    """Return one line of a recording."""
    return json.dumps(encode(exchange), ensure_ascii=True, sort_keys=True) + "\n"


class Recorder:
    """Passes questions on and writes every exchange down at once, so that an interrupted run loses none."""

    def __init__(self, inner: Transport, path: Path) -> None:
        """Begin an empty recording at `path`.

        Raises:
            UsageError: when it cannot be written.
        """
        self._inner = inner
        self._path = path
        try:
            path.write_text("", "utf-8")
        except OSError as error:
            raise UsageError(f"The recording {path} cannot be written: {error.strerror}.") from error

    @property
    def model(self) -> str:
        """The model's name."""
        return self._inner.model

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return self._inner.endpoint

    async def ask(self, question: Question, *, say: Callable[[str], None] = lambda _: None) -> Exchange:
        """Ask, and write down what came of it."""
        exchange = await self._inner.ask(question, say=say)
        await asyncio.to_thread(self._write, line_of(exchange))
        return exchange

    def _write(self, line: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as out:
                out.write(line)
        except OSError as error:
            raise ModelUnavailable(f"The recording {self._path} cannot be written: {error.strerror}.") from error

    async def close(self) -> None:
        """Let go of connections."""
        await self._inner.close()


class Recorded:
    """Answers from a recording; nothing is sent anywhere."""

    def __init__(self, exchanges: Iterable[Exchange], name: str) -> None:
        """`name` says what the recording is called."""
        self._left: list[Exchange] = list(exchanges)
        self._first = self._left[0] if self._left else None
        self._name = name
        self.differing = 0
        """How many questions were not word for word those of the recording."""

    @property
    def model(self) -> str:
        """The model that was recorded."""
        return self._first.model if self._first is not None else "none"

    @property
    def endpoint(self) -> str:
        """What it stands for."""
        return f"{self._name} (recorded)"

    async def ask(self, question: Question, *, say: Callable[[str], None] = lambda _: None) -> Exchange:  # noqa: ARG002
        """Return the recorded exchange for a question, each once.

        Raises:
            ModelUnavailable: when there is none left.
        """
        await asyncio.sleep(0)
        exchange = _same(question, self._left) or _next(question, self._left)
        if exchange is None:
            raise ModelUnavailable(f"{self._name} holds no further answer for {question.about}.")
        self._left.remove(exchange)
        self.differing += not _is_same(question, exchange.question)
        return exchange

    async def close(self) -> None:
        """Do nothing."""


def _is_same(a: Question, b: Question) -> bool:
    return (a.purpose, a.about, a.instructions, a.prompt) == (b.purpose, b.about, b.instructions, b.prompt)


def _same(question: Question, exchanges: Sequence[Exchange]) -> Exchange | None:
    return next((one for one in exchanges if _is_same(question, one.question)), None)


def _next(question: Question, exchanges: Sequence[Exchange]) -> Exchange | None:
    wanted = (question.purpose, question.about)
    return next((one for one in exchanges if (one.question.purpose, one.question.about) == wanted), None)
