"""What answers a question: a model behind a network, a recording, or a script in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tritonforge.domain.errors import TritonForgeError
from tritonforge.domain.exchange import Exchange, Question


class ModelUnavailable(TritonForgeError):
    """No answer is to be had from this model any more in this run: no package, no key, no such model, no network."""


class Transport(Protocol):
    """Something that answers questions."""

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    @property
    def endpoint(self) -> str:
        """Where it is, for a person: an address without what is secret in it."""
        ...

    async def ask(self, question: Question, *, say: Callable[[str], None] = lambda _: None) -> Exchange:
        """Put one question. What fails for this question alone comes back as `Exchange.error`.

        `say` is told what is going on, in a few words. A cancellation ends it at once.

        Raises:
            ModelUnavailable: asking again is of no use.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
