"""What a `Record` job has found so far, kept outside its process: a program may end in ways that leave no last word."""

from __future__ import annotations

from collections.abc import Mapping

from tritonforge.domain.codec import CodecError
from tritonforge.domain.frames import Frame, body_of, message
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Failure, Record, RecordResult
from tritonforge.worker.schedule import Job

KIND = "found"
"""The kind of the frames in which a lane says what it has found; the `slot` in their header says what they replace."""

_MOST_BYTES = 512 << 20
_RESCUED = {"timeout", "memory", "crashed"}


def keep(found: dict[str, Frame], frame: Frame) -> None:
    """Add what a lane said to what it has said before."""
    if sum(len(f.payload) for f in found.values()) + len(frame.payload) <= _MOST_BYTES:
        found[str(frame.header.get("slot"))] = frame


def rescued(job: Job, found: Mapping[str, Frame], failure: Failure, output: str) -> Frame | None:
    """Return the result of a recording that was cut short, or None when nothing had been found."""
    if job.name != Record.__name__ or failure.kind not in _RESCUED:
        return None
    calls: dict[str, Call] = {}
    for frame in found.values():
        try:
            call: Call = body_of(frame, Call)
        except CodecError:
            continue  # it was being written when its process ended
        calls.setdefault(call.id, call)
    if not calls:
        return None
    why = f"the program was cut short after the calls that were recorded: {failure.message}"
    return message("result", RecordResult(tuple(calls.values()), (("", why),), output), id=job.id)
