"""Recorded calls: through which edits they stay known, which of many are judged, and which launch ranks first."""

from __future__ import annotations

import dataclasses

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.kernel import RunnableEntry
from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.store import open_store
from tritonforge.workload.discovery import MAX_CALLS, select
from tritonforge.workload.launches import Weights, distinct, problem_id, to_launch
from tritonforge.workload.recorded import keep, kept, origin_of

SOURCE = '''\
import torch
import triton
import triton.language as tl

SIZES = [64, 128]
NOTE = "not read by anything that runs"


@triton.jit
def k(x, n, BLOCK: tl.constexpr):
    """Doubles."""
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def other(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)


def host(x):
    k[(1,)](x, x.numel(), BLOCK=128)


def more(x):
    other[(1,)](x, BLOCK=64)


def sizes():
    return SIZES


def test_it():
    for n in sizes():
        host(torch.ones(n, device="cuda"))
        more(torch.ones(64, device="cuda"))
'''
ENTRY = RunnableEntry("function", "test_it", 33)


def kernel_of(text):
    return analyze(text, "k.py").kernels[0]


def launch(n, *, count=1, time_us=None, block=128):
    tensor = Tensor((n,), (1,), "float32")
    return RecordedLaunch(
        "k.py", "k", 10, (("x", tensor), ("n", Scalar(n))), (("BLOCK", Scalar(block)),), (("num_warps", Scalar(4)),),
        (1, 1, 1), CallSite("k.py", 22, "host"), count=count, time_us=time_us,
    )  # fmt: skip


def call(name, *launches, count=1):
    return Call(name, "k.py", "host", (launches[0].arguments[0][1],), launches=launches, count=count)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path) as opened:
        yield opened


def stale_after(store, text, *, origin=None, elsewhere=None):
    """Record on the source as it is above, edit it to `text`, and say what is then wrong with what was recorded."""
    keep(store, kernel_of(SOURCE), (call("a", launch(64)),), origin or origin_of("k.py", ENTRY), lambda _: SOURCE)
    texts = {"k.py": text, **(elsewhere or {})}
    (found,) = kept(store, kernel_of(text), texts.get)
    return found.stale


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def host(x):\n", "# moves everything below it\n\n\ndef host(x):\n    # a comment\n"),
        ('"""Doubles."""', '"""Doubles, as said."""'),
        (
            "    k[(1,)](x, x.numel(), BLOCK=128)",
            "    k[(1,)](\n        x,\n        x.numel(),\n        BLOCK=128,\n    )",
        ),
        ("tl.store(x + tl.arange(0, BLOCK), 1.0)", "tl.store(x + tl.arange(0, BLOCK), 3.0)"),
        ("2 * tl.load", "3 * tl.load"),  # repeated on the kernel as it now stands
        ('NOTE = "not', 'NOTE = "never'),
        ("SIZES = [64, 128]", "SIZES = [64, 128]\nUNRELATED = 5"),
    ],
)
def test_recorded_calls_stay_known_through_an_edit_that_cannot_change_them(store, before, after):
    assert before in SOURCE
    assert stale_after(store, SOURCE.replace(before, after)) == ""


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("    k[(1,)](x, x.numel(), BLOCK=128)", "    k[(1,)](x, 4, BLOCK=128)", "host of k.py"),
        ("SIZES = [64, 128]", "SIZES = [64, 256]", "test_it of k.py"),
        ("return SIZES", "return SIZES[:1]", "test_it of k.py"),
        ("for n in sizes():", "for n in (1,):", "test_it of k.py"),
        ("def test_it():", "def test_that():", "test_it of k.py"),
        ("def host(x):", "def hosted(x):", "host of k.py"),
    ],
)
def test_an_edit_of_what_makes_them_is_named(store, before, after, says):
    assert before in SOURCE
    stale = stale_after(store, SOURCE.replace(before, after))
    assert says in stale
    assert stale.endswith(" changed since")


def test_calls_made_from_other_files_depend_on_those(store):
    texts = {"k.py": SOURCE, "ops.py": "def wrap(x):\n    launch(x)\n", "t.py": "def test_t():\n    wrap(1)\n"}
    made = dataclasses.replace(call("a", launch(64)), file="ops.py", function="wrap")
    keep(store, kernel_of(SOURCE), (made,), origin_of("t.py", RunnableEntry("function", "test_t", 1)), texts.get)
    (found,) = kept(store, kernel_of(SOURCE), texts.get)
    assert found.stale == ""
    (found,) = kept(store, kernel_of(SOURCE), {**texts, "ops.py": "def wrap(x):\n    launch(2 * x)\n"}.get)
    assert found.stale == "wrap of ops.py changed since"
    (found,) = kept(store, kernel_of(SOURCE), {k: v for k, v in texts.items() if k != "t.py"}.get)
    assert found.stale == "test_t of t.py changed since"


def test_a_trace_knows_no_entry_and_stays_fresh_while_its_hosts_do(store):
    assert stale_after(store, SOURCE.replace("for n in sizes():", "for n in (1,):"), origin="trace") == ""
    store.put_calls(
        "k.py", "k", code_hash="", site_hashes=tuple(s.site_hash for s in kernel_of(SOURCE).launch_sites),
        calls=(call("b", launch(32)),), origin="trace",
    )  # fmt: skip
    (found,) = kept(store, kernel_of(SOURCE), lambda _: SOURCE)
    assert (found.stale, found.calls[0].id) == ("", "b")


def test_of_many_calls_those_with_the_most_time_are_judged_in_the_order_they_were_made():
    kernel = kernel_of(SOURCE)
    calls = [call(str(n), launch(n, time_us=10.0 - n), count=1) for n in range(1, 8)]
    calls.append(call("often", launch(100, time_us=1.0), count=1000))
    chosen = select(kernel, calls)
    assert [one.id for one in chosen] == ["1", "2", "3", "often"]
    assert len(chosen) == MAX_CALLS


def test_without_times_the_count_decides_and_then_the_size():
    kernel = kernel_of(SOURCE)
    calls = [call(str(n), launch(n)) for n in (8, 4096, 16, 2048, 32, 1024)] + [call("often", launch(4, count=9))]
    assert [one.id for one in select(kernel, calls)] == ["4096", "2048", "1024", "often"]


def test_the_call_that_makes_the_pinned_launch_is_among_those_that_are_judged():
    kernel = kernel_of(SOURCE)
    calls = [call(str(n), launch(n)) for n in (8, 4096, 2048, 1024, 512)]
    pinned = to_launch(kernel, launch(8)).id
    assert [one.id for one in select(kernel, calls, (pinned,))] == ["8", "4096", "2048", "1024"]


def test_launches_rank_by_time_and_count_and_a_pinned_one_first():
    kernel = kernel_of(SOURCE)
    slow, often, rare = launch(1024, time_us=50.0), launch(64, time_us=2.0, count=100), launch(32, time_us=1.0)
    calls = (call("a", slow, rare), call("b", often, count=2))
    weights = Weights(kernel, calls)
    seen = [weights.launch(slow, calls[0]), weights.launch(rare, calls[0]), weights.launch(often, calls[1])]
    launches = distinct(seen)
    assert [(one.count, one.rank) for one in launches] == [(1, 2), (1, 3), (200, 1)]
    assert [one.rank for one in distinct(seen, pinned=(launches[1].id,))] == [3, 1, 2]


def test_a_pin_outlives_another_block_size_and_says_nothing_about_another_problem():
    kernel = kernel_of(SOURCE)
    before = to_launch(kernel, launch(64))
    pin = (before.id, problem_id(kernel, before.problem))
    tuned = [to_launch(kernel, launch(n, block=256)) for n in (4096, 64)]
    assert tuned[1].id != before.id
    assert [one.rank for one in distinct(tuned, pinned=pin, kernel=kernel)] == [2, 1]
    assert [one.rank for one in distinct(tuned[:1], pinned=pin, kernel=kernel)] == [1]


def test_an_edited_version_of_a_launch_weighs_as_much_as_the_recorded_one():
    kernel = kernel_of(SOURCE)
    recorded = call("a", launch(64, count=3, time_us=7.0), count=5)
    found = Weights(kernel, (recorded,)).launch(launch(64, block=256), recorded)
    assert (found.count, found.time_us) == (15, 7.0)


def test_a_pin_is_kept_in_the_store_and_can_be_taken_back(tmp_path):
    with open_store(tmp_path) as store:
        store.pin("k.py", "k", ("abc", "def"))
    with open_store(tmp_path) as store:
        assert store.pinned("k.py", "k") == ("abc", "def")
        assert store.pinned("k.py", "other") == ()
        store.pin("k.py", "k", ())
        assert store.pinned("k.py", "k") == ()
