"""The HTTP client under the `openai` client: it goes nowhere else, and reads no more than an answer can be.

The `openai` client follows redirects and reads the body of an error whole. A redirect would take code to an address
that nobody has agreed to; a body may never end, or be small on the wire and enormous when it is unpacked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

MOST_BYTES = 8_000_000
"""Bytes of an answer that are read."""
_MOST_OF_ERROR = 1 << 16
# Others unpack to too many bytes from too few. None is asked for; some servers pack all the same.
_PACKINGS = frozenset(["", "identity", "gzip", "deflate"])


def bounded_client(openai: Any, proxy: str | None) -> Any:
    """Return the client to hand to `openai`; a proxy comes from the settings, else from the environment."""
    options: dict[str, Any] = {"proxy": proxy} if proxy else {}
    return openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [_bound]}, **options)


async def _bound(response: Any) -> None:
    """Let a response end after what is of use: its stream is read later, by whoever asked."""
    if str(response.headers.get("content-encoding", "")).strip().lower() not in _PACKINGS:
        del response.headers["content-encoding"]  # read as it is, which is no JSON
    most = _MOST_OF_ERROR if response.status_code >= 300 else MOST_BYTES
    kind = next((one for one in type(response.stream).__mro__ if one.__name__ == "AsyncByteStream"), None)
    if kind is not None:
        response.stream = _bounded(kind)(response.stream, most)


def _bounded(kind: type) -> type:
    """Return a stream of the HTTP library's own kind, which it insists on, that ends after a number of bytes."""

    class Bounded(kind):  # type: ignore[misc]  # a class that is known when it runs
        def __init__(self, inner: Any, most: int) -> None:
            self._inner = inner
            self._left = most

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._inner:
                self._left -= len(piece)
                yield piece
                if self._left < 0:
                    return

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Bounded
