"""Frames survive any way of cutting the stream, and anything else is refused with what was seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritonforge.domain.codec import PROTOCOL_VERSION, CodecError
from tritonforge.domain.frames import Frame, FrameError, FrameParser, body_of, message, pack
from tritonforge.domain.launch import Call, ExactValues, Scalar, Tensor
from tritonforge.domain.messages import Failure

CALL = Call(
    "id",
    "f.py",
    "f",
    (
        Tensor((2,), (1,), "int8", values=ExactValues(b"\x00\xff")),
        Scalar(float("inf")),
        Tensor((0,), (1,), "int8", values=ExactValues(b"")),
        Tensor((3,), (1,), "int8", values=ExactValues(b"abc")),
    ),
)


@given(
    st.lists(st.tuples(st.dictionaries(st.text(), st.integers()), st.binary(max_size=200)), max_size=5),
    st.integers(1, 64),
)
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(contents, size):
    frames = [Frame(header, payload) for header, payload in contents]
    stream = b"".join(piece for frame in frames for piece in pack(frame))
    parser = FrameParser()
    received = [frame for at in range(0, len(stream), size) for frame in parser.feed(stream[at : at + size])]
    assert received == frames


def test_a_noun_travels_as_text_and_its_bytes_raw_beside_it():
    frame = message("result", CALL, id=7)
    assert frame.header == {"v": PROTOCOL_VERSION, "kind": "result", "id": 7, "body": frame.header["body"]}
    assert frame.payload[frame.header["body"] :] == b"\x00\xffabc"
    assert body_of(frame, Call) == CALL


def test_empty_bytes_alone_come_back_too():
    assert body_of(message("result", ExactValues(b"")), ExactValues) == ExactValues(b"")


@pytest.mark.parametrize("noise", [b"Welcome to gpu1!\nLast login: yesterday\n", b"TFr1" + b"\xff" * 40])
def test_what_is_no_frame_is_refused(noise):
    with pytest.raises(FrameError):
        list(FrameParser().feed(noise))


@pytest.mark.parametrize("header", [b"[]", b"{", b"\xff\xfe"])
def test_a_header_that_is_no_object_is_refused(header):
    good, _ = pack(Frame({}))
    bad = good[:7] + bytes([len(header)]) + good[8:16] + header
    with pytest.raises(FrameError):
        list(FrameParser().feed(bad))


@pytest.mark.parametrize(
    "frame",
    [
        Frame({"kind": "result"}),
        Frame({"kind": "result", "body": 10}, b"{}"),
        Frame({"kind": "result", "body": True}, b"1"),
        Frame({"kind": "result", "body": 3}, b"nul"),
        Frame({"kind": "result", "body": 2}, b"{}"),
        Frame({"kind": "result", "body": 21}, b'{"$blob":[0,9999999]}abc'),
    ],
)
def test_a_body_that_does_not_fit_is_a_codec_error(frame):
    with pytest.raises(CodecError):
        body_of(frame, Failure)
