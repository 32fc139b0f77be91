"""When the garbage collector goes through the server's objects: while nobody waits.

The trees of a large file are hundreds of thousands of objects. They hold no cycles, but with the collector's usual
thresholds every keystroke has them gone through again, for 50 ms, and with large ones a key now and then waits for
100 ms. What is young is gone through in small steps; all the rest in a pause of the person who types.
"""

from __future__ import annotations

import asyncio
import gc

PAUSE_S = 2.0
"""Seconds without a message after which everything is gone through."""
_AT_START = 200_000
"""Objects made, less those gone, before the collector looks: nearly all that is made first stays."""
_YOUNG = 5_000
"""The same, later: a millisecond or two."""
_NEVER = 1_000
"""Collections of the young after which older objects are gone through, pause or not."""
_SETTLED_S = 5.0


def begin() -> None:
    """Set the collector up for a server that starts; needs a running event loop."""
    gc.set_threshold(_AT_START, 10, 10)
    asyncio.get_running_loop().call_later(_SETTLED_S, _settle)


def _settle() -> None:
    # What is there once the features are loaded stays.
    gc.freeze()
    gc.set_threshold(_YOUNG, _NEVER, _NEVER)


def collect() -> None:
    """Go through everything that was made since the last time; what is left counts as there to stay."""
    gc.collect()
    gc.freeze()


async def collect_in_pauses(coming: asyncio.Task[object]) -> None:
    """Wait for what comes next, and collect once when that takes a while."""
    if not coming.done() and not (await asyncio.wait({coming}, timeout=PAUSE_S))[0]:
        collect()
