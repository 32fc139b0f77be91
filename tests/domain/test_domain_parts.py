"""Large frames in parts: what is cut comes together again, whatever comes between, and small ones do not wait."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritonforge.domain.frames import Frame, FrameError, FrameParser, message, pack
from tritonforge.domain.parts import PART, PART_BYTES, WHOLE, Inbox, Outbox, Window


def arrived(stream, inbox=None):
    """The whole frames in a stream of bytes."""
    inbox = inbox or Inbox()
    for frame in FrameParser().feed(stream):
        yield from inbox.take(frame) if frame.kind == PART else [frame]


def drained(outbox):
    return b"".join(iter(outbox.take, b""))


def payload(size, number=0):
    return bytes(itertools.islice(itertools.cycle(range(number, number + 251)), size)) if size < 1 << 16 else (
        bytes(range(251)) * (size // 251 + 1))[:size]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0, 10, WHOLE - 200, WHOLE + 1, 3 * PART_BYTES, 400_000]), max_size=6))
def test_every_frame_arrives_as_it_was_sent(sizes):
    outbox = Outbox()
    for number, size in enumerate(sizes):
        outbox.put(Frame({"v": 1, "kind": "x", "id": number}, payload(size)))
    got = list(arrived(drained(outbox)))
    assert sorted((frame.header["id"], frame.payload) for frame in got) == [
        (number, payload(size)) for number, size in enumerate(sizes)
    ]
    assert outbox.size == 0
    assert not outbox


def test_a_small_frame_passes_a_large_one_that_is_under_way():
    outbox = Outbox()
    outbox.put(Frame({"v": 1, "kind": "large", "id": 1}, payload(1 << 20)))
    stream = outbox.take() + outbox.take()
    outbox.put(message("cancel", id=1))
    stream += outbox.take()
    assert [frame.kind for frame in FrameParser().feed(stream)] == [PART, PART, "cancel"]
    assert [frame.kind for frame in arrived(stream + drained(outbox))] == ["cancel", "large"]


def test_large_frames_take_turns():
    outbox = Outbox()
    for number in (1, 2):
        outbox.put(Frame({"v": 1, "kind": "large", "id": number}, payload(4 * PART_BYTES)))
    order = [frame.header["of"] for frame in FrameParser().feed(drained(outbox))]
    assert order[:4] == [1, 2, 1, 2]


@pytest.mark.parametrize("begun", [0, 2])
def test_a_large_frame_that_nobody_wants_any_more_is_dropped_at_both_ends(begun):
    outbox, inbox = Outbox(), Inbox()
    outbox.put(Frame({"v": 1, "kind": "large", "id": 7}, payload(1 << 20)))
    stream = b"".join(outbox.take() for _ in range(begun))
    assert outbox.drop(7)
    assert not outbox.drop(7)
    outbox.put(message("next", id=8))
    assert [frame.kind for frame in arrived(stream + drained(outbox), inbox)] == ["next"]
    assert inbox._open == {}
    assert inbox._held == 0
    assert outbox.size == 0


def test_what_is_announced_bounds_what_is_held():
    inbox = Inbox(1000)
    with pytest.raises(FrameError, match="more than any message has"):
        list(inbox.take(Frame({"kind": PART, "of": 1, "size": 1001}, b"")))
    list(inbox.take(Frame({"kind": PART, "of": 1, "size": 900}, bytes(600))))
    with pytest.raises(FrameError, match="more parts than were announced"):
        list(inbox.take(Frame({"kind": PART, "of": 2, "size": 900}, bytes(600))))
    with pytest.raises(FrameError, match="more parts than were announced"):
        list(Inbox().take(Frame({"kind": PART, "of": 1, "size": 5}, bytes(6))))


def test_the_window_follows_what_the_line_carries():
    slow, fast = Window(), Window()
    for window, rate, trip in ((slow, 1e6, 0.05), (fast, 200e6, 0.05)):
        now = 0.0
        for _ in range(400):
            now += PART_BYTES / rate
            window.sent(PART_BYTES, now)
            window.got(now + trip)
    assert slow.size < 600_000, "a third of a second at 1 MB/s"
    assert fast.size > 4_000_000


def test_the_window_closes_when_nothing_is_confirmed():
    window = Window()
    sent = 0
    while window.open:
        window.sent(PART_BYTES, 0.0)
        sent += PART_BYTES
    assert sent <= 512 << 10
    window.got(0.1)
    assert window.open


def test_a_frame_of_exactly_the_size_that_is_sent_whole():
    outbox = Outbox()
    empty = len(b"".join(pack(Frame({"v": 1, "kind": "x"}, b""))))
    outbox.put(Frame({"v": 1, "kind": "x"}, bytes(WHOLE - empty)))
    outbox.put(Frame({"v": 1, "kind": "x"}, bytes(WHOLE - empty + 1)))
    kinds = [frame.kind for frame in FrameParser().feed(drained(outbox))]
    assert kinds[0] == "x"
    assert set(kinds[1:]) == {PART}
