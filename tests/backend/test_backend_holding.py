"""What is opened once for many: cancelling one who waits leaves the others alone, and nobody waits for ever."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from tritonforge.backend.holding import Held


class Opened:
    """Notes what becomes of a resource that opens when told to."""

    def __init__(self):
        self.log = []
        self.may_open = asyncio.Event()

    @asynccontextmanager
    async def manager(self, error=None):
        self.log.append("opening")
        await self.may_open.wait()
        if error is not None:
            raise error
        try:
            yield "it"
        finally:
            self.log.append("closed")


async def begun(opened):
    while not opened.log:  # noqa: ASYNC110 - nothing says when
        await asyncio.sleep(0)


def test_one_who_waits_is_cancelled_and_the_others_get_it():
    async def run():
        opened = Opened()
        held = Held(opened.manager())
        one, other = asyncio.create_task(held.wait()), asyncio.create_task(held.wait())
        await begun(opened)
        one.cancel()
        await asyncio.wait({one})
        assert (one.cancelled(), held.opened, held.failed) == (True, None, False)
        opened.may_open.set()
        assert await other == await held.wait() == held.opened == "it"
        assert opened.log == ["opening"]
        held.close()
        await held.task
        assert opened.log == ["opening", "closed"]

    asyncio.run(run())


def test_what_cannot_be_opened_says_why_to_all():
    async def run():
        opened = Opened()
        held = Held(opened.manager(KeyError("why")))
        opened.may_open.set()
        for _ in range(2):
            with pytest.raises(KeyError, match="why"):
                await held.wait()
        assert (held.failed, held.opened) == (True, None)
        await held.task

    asyncio.run(run())


@pytest.mark.parametrize("has_begun", [True, False])
def test_nobody_waits_for_what_is_closed_before_it_is_open(has_begun):
    async def run():
        opened = Opened()
        held = Held(opened.manager())
        waiting = asyncio.create_task(held.wait())
        if has_begun:
            await begun(opened)
        held.close()
        await asyncio.wait({waiting, held.task}, timeout=30)
        assert (waiting.cancelled(), held.failed, held.opened) == (True, True, None)

    asyncio.run(run())
