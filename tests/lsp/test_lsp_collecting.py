"""When the server's garbage is collected: in pauses, and never while a message waits."""

import asyncio
import gc
import weakref

import pytest

from tritonforge.lsp import collecting


class Cycle:
    def __init__(self):
        self.own = self


@pytest.fixture(autouse=True)
def as_it_was():
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.fixture
def garbage():
    gc.disable()
    made = weakref.ref(Cycle())
    assert made() is not None
    yield made
    gc.enable()


def test_a_pause_is_used_to_collect_and_what_comes_after_it_is_taken(monkeypatch, garbage):
    monkeypatch.setattr(collecting, "PAUSE_S", 0.01)

    async def typist():
        said = asyncio.get_running_loop().create_future()

        async def comes():
            return await said

        coming = asyncio.create_task(comes())
        await collecting.collect_in_pauses(coming)
        assert garbage() is None
        said.set_result(b"x")
        await collecting.collect_in_pauses(coming)
        return await coming

    assert asyncio.run(typist()) == b"x"


def test_nothing_is_collected_while_messages_come(garbage):
    async def typist():
        async def comes():
            return b"x"

        coming = asyncio.create_task(comes())
        await collecting.collect_in_pauses(coming)
        return await coming

    assert asyncio.run(typist()) == b"x"
    assert garbage() is not None


def test_a_server_that_has_settled_collects_the_young_in_small_steps_and_leaves_the_rest(monkeypatch):
    monkeypatch.setattr(collecting, "_SETTLED_S", 0.0)

    async def begin():
        collecting.begin()
        await asyncio.sleep(0.01)

    asyncio.run(begin())
    young, *older = gc.get_threshold()
    assert young < 10_000
    assert min(older) >= 1_000
    assert gc.get_freeze_count() > 0
