"""Jobs of one target take turns: in order, what a person asked for first, and nobody is left out."""

import asyncio
from types import SimpleNamespace

from tritonforge.lsp import batch
from tritonforge.lsp.client import Abilities
from tritonforge.lsp.jobs import BACKGROUND, Jobs


class Silent:
    """A client that shows nothing."""

    can = Abilities()

    def __init__(self):
        self.said = []

    async def begin(self, token, title):
        return False

    def warn(self, sentence):
        self.said.append(sentence)


class Queue:
    """Jobs that write down when they have the target."""

    def __init__(self):
        self.client = Silent()
        self.jobs = Jobs(self.client, lambda: None)
        self.order = []
        self.holding = 0

    def start(self, name, *, turns=1, priority=0, document=None, seconds=0.001, failing=False, title="A job"):
        async def work(job):
            for _ in range(turns):
                async with self.jobs.turn("target", job):
                    self.holding += 1
                    assert self.holding == 1, "two have the target"
                    try:
                        self.order.append(name)
                        await asyncio.sleep(seconds)
                        if failing:
                            raise RuntimeError(name)
                    finally:
                        self.holding -= 1
            return name

        title = None if priority else title
        return self.jobs.start(work, title=title, priority=priority, document=document, subject=(name, ""))

    async def all(self, *jobs):
        return await asyncio.gather(*(job.task for job in jobs), return_exceptions=True)


def test_jobs_get_the_target_in_the_order_they_were_asked_for():
    async def run():
        queue = Queue()
        jobs = [queue.start(str(n)) for n in range(20)]
        await queue.all(*jobs)
        return queue

    assert asyncio.run(run()).order == [str(n) for n in range(20)]


def test_a_job_about_many_kernels_lets_others_in_between_two_of_them():
    async def run():
        queue = Queue()
        many = queue.start("many", turns=10)
        await asyncio.sleep(0)
        others = [queue.start("a"), queue.start("b")]
        await queue.all(many, *others)
        return queue

    order = asyncio.run(run()).order
    assert order.count("many") == 10
    assert order[:4] == ["many", "a", "b", "many"]


def test_two_long_jobs_share_the_target_evenly():
    async def run():
        queue = Queue()
        await queue.all(queue.start("a", turns=8), queue.start("b", turns=8))
        return queue

    order = asyncio.run(run()).order
    assert order == ["a", "b"] * 8


def test_what_a_person_asked_for_goes_before_the_background_and_interrupts_it():
    async def run():
        queue = Queue()
        behind = queue.start("behind", priority=BACKGROUND, seconds=60)
        waiting = queue.start("waiting", priority=BACKGROUND)
        await asyncio.sleep(0.01)
        asked = queue.start("asked")
        await queue.all(behind, waiting, asked)
        return queue, behind, waiting

    queue, behind, waiting = asyncio.run(run())
    assert queue.order == ["behind", "asked", "waiting"]
    assert behind.preempted
    assert not waiting.preempted


def test_what_is_interrupted_tidies_up_undisturbed_however_many_wait():
    tidy = []

    async def run():
        queue = Queue()

        async def behind(job):
            async with queue.jobs.turn("target", job):
                try:
                    await asyncio.sleep(60)
                finally:
                    await asyncio.sleep(0.01)
                    tidy.append(True)

        job = queue.jobs.start(behind, title=None, priority=BACKGROUND)
        await asyncio.sleep(0.01)
        await queue.all(job, queue.start("one"), queue.start("two"))
        return queue

    assert asyncio.run(run()).order == ["one", "two"]
    assert tidy == [True]


def test_what_fails_or_is_cancelled_hands_the_target_on():
    async def run():
        queue = Queue()
        failing = queue.start("failing", failing=True)
        long = queue.start("long", seconds=60)
        waits = queue.start("waits", seconds=60)
        last = queue.start("last")
        while "long" not in queue.order:  # noqa: ASYNC110 - nothing says when
            await asyncio.sleep(0.001)
        assert queue.jobs.cancel(waits.id)
        assert queue.jobs.cancel(long.id)
        assert not queue.jobs.cancel(long.id), "once"
        await asyncio.wait_for(queue.all(failing, long, waits, last), 10)
        return queue

    queue = asyncio.run(run())
    assert queue.order == ["failing", "long", "last"]
    assert len(queue.client.said) == 1


def test_closing_a_document_ends_what_was_started_for_it_and_nothing_else():
    async def run():
        queue = Queue()
        mine = queue.start("mine", document="file:///a.py", seconds=60)
        queued = queue.start("queued", document="file:///a.py", seconds=60)
        other = queue.start("other", document="file:///b.py")
        batch = queue.start("batch")
        await asyncio.sleep(0.01)
        queue.jobs.cancel_of("file:///a.py")
        await asyncio.wait_for(queue.all(mine, queued, other, batch), 10)
        return queue

    assert asyncio.run(run()).order == ["mine", "other", "batch"]


def test_everything_ends_when_told_to_whatever_it_does():
    async def run():
        queue = Queue()

        async def stubborn(_):
            for _ in range(2):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue
            return ""

        queue.jobs.start(stubborn, title="Stubborn")
        queue.start("a", seconds=60)
        queue.start("b", seconds=60)
        await asyncio.sleep(0.01)
        tasks = queue.jobs.cancel_all()
        await asyncio.wait_for(queue.jobs.ended(tasks, 0.05), 10)
        await asyncio.sleep(0.05)
        return [task.done() for task in tasks]

    assert all(asyncio.run(run()))


def test_no_other_kernel_is_begun_once_a_job_about_several_is_cancelled():
    """A search that is cancelled ends without an error: it keeps the best that it has verified."""
    begun = []

    async def run():
        jobs = Jobs(Silent(), lambda: None)

        async def read(uri):
            return SimpleNamespace(kernel=lambda name: name)

        async def search(state, snapshot, kernel, job, **_):
            begun.append(kernel)
            jobs.cancel(job.id)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                asyncio.current_task().uncancel()

        quiet = SimpleNamespace(offered=lambda *_: None, say=lambda _: None)
        state = SimpleNamespace(jobs=jobs, read=read, facts=quiet, client=quiet)
        subjects = [("file:///k.py", name) for name in "abc"]
        job = jobs.start(lambda job: batch.run(state, job, subjects, search, allow_run=False), title="All")
        return await job.task

    assert asyncio.run(run()) == "1 kernel profiled. Cancelled before 2 more kernels"
    assert begun == ["a"]
