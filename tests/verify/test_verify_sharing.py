"""Which inputs run together on one lane, and what is found out once for all who ask."""

from __future__ import annotations

import asyncio
import random

import pytest

from tritonforge.domain.launch import Call, Scalar, Tensor
from tritonforge.jobs.together import all_of
from tritonforge.verify import Place
from tritonforge.verify.grouping import Groups
from tritonforge.verify.inputs import Variation
from tritonforge.verify.once import Once
from tritonforge.verify.resizing import places, resize
from tritonforge.verify.sharing import MOST, Planned, lanes_of, shares

CALL = Call("c", "k.py", "f", (Tensor((64, 512), (512, 1), "float32"), Scalar(512)))


def planned(*weights: float) -> list[Planned]:
    return [Planned(Place("call", 0, i), Variation(CALL, ""), weight=weight) for i, weight in enumerate(weights)]


def indices(jobs) -> list[list[int]]:
    return [[one.place.index for one in job] for job in jobs]


@pytest.mark.parametrize("seed", range(8))
def test_every_input_is_in_one_job_in_the_order_of_the_plan(seed):
    draw = random.Random(seed)
    inputs = planned(*(draw.choice([0, 1, 3, 50]) for _ in range(draw.randrange(1, 120))))
    lanes = draw.randrange(1, 9)
    jobs = indices(shares(inputs, lanes))
    assert sorted(at for job in jobs for at in job) == list(range(len(inputs)))
    assert all(job == sorted(job) for job in jobs)
    assert all(len(job) <= MOST for job in jobs)
    assert len(jobs) <= max(lanes, -(-len(inputs) // MOST))


def test_on_one_lane_jobs_follow_each_other_as_the_plan_does():
    assert indices(shares(planned(*[1, 9] * 20), 1)) == [list(range(20)), list(range(20, 40))]
    assert [len(job) for job in shares(planned(*[1] * 49), 1)] == [17, 17, 15]
    assert shares([], 1) == []


def test_what_takes_longest_begins_first_and_shares_its_lane_with_one_light_input():
    jobs = shares(planned(*[1] * 12, 9, 8), 3)
    assert indices(jobs)[0] == [0, 12]
    assert 13 in indices(jobs)[1]
    assert [sum(one.weight for one in job) for job in jobs] == [10, 10, 9]


def test_a_heavy_input_leads_no_job_though_it_comes_first():
    jobs = shares(planned(90, *[1] * 9), 4)
    assert sum(job[0].weight > 1 for job in jobs) <= 1
    assert min(len(job) for job in jobs if job[0].weight > 1) == 2


def test_inputs_of_which_nothing_is_known_are_shared_evenly():
    assert {len(job) for job in shares(planned(*[0] * 23), 4)} == {5, 6}


def test_beside_a_gpu_a_large_machine_has_one_lane_fewer():
    assert [lanes_of(15, on_device=True), lanes_of(15, on_device=False)] == [14, 15]
    assert [lanes_of(3, on_device=True), lanes_of(1, on_device=True)] == [3, 1]


def test_an_input_is_weighed_by_its_sizes_where_operations_are_known_else_by_its_elements():
    rows, columns = ([p for p in places(CALL) if p.size == size] for size in (64, 512))
    groups = Groups((tuple(rows), tuple(columns)), operations=100, each=(0.0, 5.0))
    small, long = (resize(CALL, groups.sized(sizes), seed=1) for sizes in ((20, 28), (20, 528)))
    assert groups.sizes_of(long) == [20, 528]
    assert (groups.weigh(small), groups.weigh(long)) == (100, 2600)
    assert Groups(groups.groups).weigh(long) == 20 * 528


# --- What is found out once


def test_what_is_asked_at_once_is_found_out_once_and_kept():
    asked = []

    async def find():
        asked.append(1)
        await asyncio.sleep(0)
        return len(asked)

    async def go():
        once: Once[str, int] = Once()
        found = await asyncio.gather(*(once.get("a", find) for _ in range(3)))
        return [*found, await once.get("a", find), await once.get("b", find)], "a" in once, "c" in once

    assert asyncio.run(go()) == ([1, 1, 1, 1, 2], True, False)


def test_work_goes_on_as_long_as_one_waits_for_it_and_ends_with_the_last():
    ended = []

    async def find():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    async def go():
        once: Once[str, None] = Once()
        first, second = (asyncio.create_task(once.get("a", find)) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait([first])
        assert not ended
        second.cancel()
        await asyncio.wait([second])
        assert ended
        return first.cancelled(), second.cancelled(), "a" in once

    assert asyncio.run(go()) == (True, True, False)


def test_what_failed_fails_for_all_who_wait_and_is_tried_again():
    asked = []

    async def find():
        asked.append(1)
        await asyncio.sleep(0)
        if len(asked) == 1:
            raise ValueError("not today")
        return 5

    async def go():
        once: Once[str, int] = Once()
        failed = await asyncio.gather(*(once.get("a", find) for _ in range(2)), return_exceptions=True)
        return [str(error) for error in failed], await once.get("a", find)

    assert asyncio.run(go()) == (["not today"] * 2, 5)


def test_the_first_error_ends_the_others_before_it_is_raised():
    ended = []

    async def long():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    async def wrong():
        await asyncio.sleep(0)
        raise ValueError("no")

    async def go():
        with pytest.raises(ValueError, match="no"):
            await all_of([long(), wrong(), long()])
        return list(ended)

    assert asyncio.run(go()) == [1, 1]
    assert asyncio.run(all_of([])) == []
