"""How rounds of samples are taken and read, without a GPU: the arithmetic, and rounds on a simulated stream."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pytest

from tritonforge.worker.timing import judging

pytest.importorskip("torch")
pytestmark = pytest.mark.triton


def test_a_gpu_is_settled_when_it_gets_no_faster():
    rising = [100.0, 90, 80, 75, 72, 70, 66, 64, 62, 60]
    assert not judging.is_settled(rising)
    assert not judging.is_settled([60.0] * 9)
    assert judging.is_settled([*rising, *[60.0] * 10])


def test_short_launches_are_repeated_until_the_clocks_steps_do_not_matter():
    assert judging.batch_size(1000.0, 0.5) == 1
    assert judging.batch_size(50.0, 0.5) == 2
    assert judging.batch_size(2.0, 0.032) == 4
    assert judging.batch_size(2.0, 0.5) == judging.batch_size(-1.0, 0.5) == 16


def test_the_step_of_a_clock_is_the_smallest_difference_it_shows():
    assert judging.resolution_us([5.0, 5.5, 6.5, 5.0, 6.0]) == pytest.approx(0.5)
    assert judging.resolution_us([5.0, 5.0]) == judging.resolution_us([]) == judging.FINEST_CLOCK_US


def node(name, count=0, ns=0, children=()):
    return {"frame": {"name": name}, "metrics": {"count": count, "time (ns)": ns}, "children": list(children)}


def tree(*scopes):
    return [node("ROOT", children=[node("reduce_kernel", 3, 900), *scopes]), {"CUDA": {}}]


def scope(number, *kernels):
    return node(f"s{number}", children=[node(*kernel) for kernel in kernels])


def test_each_launch_gets_the_time_of_the_one_kernel_in_its_scope():
    root = tree(scope(1, ("b", 1, 3000)), scope(0, ("a", 1, 2048)))
    assert judging.one_kernel_each(root, "s", ["a", "b"]) == [2.048, 3.0]


@pytest.mark.parametrize(
    "root",
    [
        tree(scope(0, ("a", 1, 2048))),
        tree(scope(0, ("a", 1, 2048)), scope(1, ("a", 1, 3000))),
        tree(scope(0, ("a", 1, 2048)), scope(1, ("b", 2, 3000))),
        tree(scope(0, ("a", 1, 2048)), scope(1, ("b", 1, 0))),
        tree(scope(0, ("a", 1, 2048)), scope(1, ("b", 1, 3000), ("c", 1, 10))),
        None,
        {},
        [],
    ],
)
def test_records_that_are_missing_doubled_empty_or_of_other_kernels_are_no_times(root):
    assert judging.one_kernel_each(root, "s", ["a", "b"]) is None


def test_throttling_is_named_and_a_steady_idle_gpu_is_not():
    from tritonforge.worker.timing.health import describe

    assert describe(0x1, [1980, 1980]) == []
    assert describe(0x4 | 0x20, [1980, 1500]) == [
        "the GPU was slowed down by its power limit and its temperature while measuring (SM clock 1500 to 1980 MHz)"
    ]
    assert describe(0, [1980, 1700]) == ["the GPU's clock moved while measuring (SM clock 1700 to 1980 MHz)"]
    assert describe(0, []) == []


@dataclass(frozen=True)
class Sample:
    """What the simulated stream says of one launch."""

    name: str
    between_us: float
    late: bool
    flush_us: float = 60.0
    clock_mhz: float = 1980.0


@dataclass
class Stream:
    """A GPU that takes as long as it is told, with a host that is late until it waits long enough."""

    patience_needed: int = 0
    patience: int = 0
    order: list[str] = field(default_factory=list)
    resets: int = 0

    def queue(self, launch: Any, before: Any, around: Any = None) -> Sample:
        before()
        with around or contextlib.nullcontext():
            name, took = launch()
        self.order.append(name)
        late = self.patience < self.patience_needed
        return Sample(name, took * (50 if late else 1), late)

    def wait(self) -> None:
        """Nothing is queued."""

    def wait_longer(self) -> None:
        self.patience += 1


@dataclass(frozen=True)
class Launch:
    name: str
    took: float
    reset_count: list[int]

    def start(self):
        return self.name, self.took

    def reset(self):
        self.reset_count[0] += 1


class Healthy:
    def look(self) -> None:
        """It is."""


def rounds(stream, launches, batches=None, *, wanted=20, strict=True, until=float("inf")):
    from tritonforge.worker.timing.rounds import take_rounds

    return take_rounds(
        stream, Healthy(), launches, batches or [1] * len(launches),
        wanted=wanted, until=until, strict=strict,
        around=lambda _: contextlib.nullcontext(), on_round=lambda _: None,
    )  # fmt: skip


def launches(*names):
    return [Launch(name, float(i + 1), [0]) for i, name in enumerate(names)]


def test_every_round_has_every_launch_once_in_an_order_that_changes():
    stream = Stream()
    taken = rounds(stream, launches("a", "b", "c"))
    trios = [tuple(stream.order[i : i + 3]) for i in range(0, 60, 3)]
    assert {"".join(sorted(trio)) for trio in trios} == {"abc"}
    assert len(set(trios)) >= 4
    assert taken.names == stream.order
    assert taken.samples(lambda _, queued: queued.between_us) == ((1.0,) * 20, (2.0,) * 20, (3.0,) * 20)


def test_inputs_are_put_back_before_every_single_launch():
    one = launches("a")
    rounds(Stream(), one, [3], wanted=10)
    assert one[0].reset_count == [30]


def test_samples_that_the_host_may_have_stretched_are_not_counted_and_it_waits_longer():
    stream = Stream(patience_needed=4)
    taken = rounds(stream, launches("a", "b"))
    assert taken.samples(lambda _, queued: queued.between_us) == ((1.0,) * 20, (2.0,) * 20)
    assert (taken.late, taken.late_kept, stream.patience) == (4, 0, 4)


def test_a_host_that_is_always_late_is_admitted():
    taken = rounds(Stream(patience_needed=10**6), launches("a"))
    assert len(taken.kept) == taken.late_kept == 5


def test_records_of_the_device_do_not_care_about_a_late_host():
    taken = rounds(Stream(patience_needed=10**6), launches("a"), strict=False)
    assert len(taken.kept) == 20
    assert taken.late_kept == 0


def test_a_spent_budget_still_gives_five_rounds():
    assert len(rounds(Stream(), launches("a"), until=0.0).kept) == 5


class EmptyStream(Stream):
    def empty_readings(self) -> list[float]:
        return [0.25]


def whole(stream, calls, wanted=20):
    from tritonforge.worker.timing.whole import time_calls

    return time_calls(stream, Healthy(), calls, wanted=wanted, until=float("inf"))


def test_whole_calls_are_timed_once_the_gpu_waits_long_enough_for_their_host_code():
    stream, calls = EmptyStream(patience_needed=3), launches("a", "b")
    assert whole(stream, calls) == [(0.75,) * 20, (1.75,) * 20]
    assert stream.patience == 3
    assert calls[0].reset_count[0] >= 20, "what a call changes is put back before each"


def test_a_call_that_waits_for_the_gpu_is_timed_with_its_host_code():
    stream = EmptyStream(patience_needed=10**6)
    assert whole(stream, launches("a")) == [(49.75,) * 20]


def test_collecting_garbage_is_off_while_measuring_and_on_again_afterwards():
    import gc
    import sys

    from tritonforge.worker.timing.rounds import undisturbed

    before = sys.getswitchinterval()
    with contextlib.suppress(KeyError), undisturbed():
        assert not gc.isenabled()
        assert sys.getswitchinterval() < before / 10
        raise KeyError
    assert gc.isenabled()
    assert sys.getswitchinterval() == pytest.approx(before)
