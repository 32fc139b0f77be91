"""What runs inside a traced program tells the process that started it: records and counts, one pair of files a process.

A traced process appends to two files in a folder that it was given. `NAME.records` holds one JSON object a line; the
last line may be torn where the process was killed. `NAME.counts` is mapped into its memory, so that counts are kept
however the process ends: a header of `HEADER.size` bytes, then one slot of `SLOT_BYTES` for each distinct launch.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, Launch, RecordedLaunch, Value

HEADER = struct.Struct("<8sQQQ")
"""Magic, process id, launches beyond what is kept, timing samples that were lost."""

MAGIC = b"TFTRACE1"
HEADER_BYTES = 128
SLOT_BYTES = 128
SAMPLES = 28
_SLOT = struct.Struct(f"<QQ{SAMPLES}f")
"""Count, samples ever taken, a ring of samples in µs."""

assert HEADER.size <= HEADER_BYTES
assert _SLOT.size == SLOT_BYTES


@dataclass(frozen=True)
class TracedProcess:
    """One process of the traced program.

    `mode`: `gpu` (kernels run), `pretended` (no GPU: launches are taken, kernels do not run) or `interpreted`
    (`TRITON_INTERPRET=1`: kernels run on the CPU). `parent` is the name of the process it was forked from when it goes
    on with that one's slots, else "".
    """

    pid: int
    command: tuple[str, ...]
    mode: str
    python: str = ""
    torch: str = ""
    triton: str = ""
    gpu: str = ""
    parent: str = ""


@dataclass(frozen=True)
class TracedLaunch:
    """A launch at its first sight. `at` is CLOCK_MONOTONIC in ns, which all processes of a machine share."""

    slot: int
    at: int
    launch: RecordedLaunch


@dataclass(frozen=True)
class TracedCall:
    """A call of a host function with its arguments as they came in, and the launches it made in order."""

    at: int
    file: str
    function: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    launches: tuple[RecordedLaunch, ...]
    slots: tuple[int, ...]


@dataclass(frozen=True)
class TracedGraph:
    """A captured CUDA graph: every replay, counted in `slot`, makes `launches` (slot → how often) again."""

    slot: int
    launches: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TracedFailure:
    """What could not be recorded or repeated, in one sentence; `kernel` may be ""."""

    kernel: str
    reason: str


@dataclass(frozen=True)
class Kept:
    """The state of one slot: how often, and the last `SAMPLES` times in µs."""

    count: int
    samples: tuple[float, ...] = ()


@dataclass
class Spool:
    """Everything that one process left."""

    name: str
    process: TracedProcess | None = None
    launches: list[TracedLaunch] = field(default_factory=list)
    calls: list[TracedCall] = field(default_factory=list)
    graphs: list[TracedGraph] = field(default_factory=list)
    failures: list[TracedFailure] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)
    beyond: int = 0
    """Launches that were made after the table of distinct launches was full."""

    extra: list[dict[str, Any]] = field(default_factory=list)
    """Records of kinds that are not known here, as they are."""


_KINDS: dict[str, tuple[type, str]] = {
    "launch": (TracedLaunch, "launches"),
    "call": (TracedCall, "calls"),
    "graph": (TracedGraph, "graphs"),
    "failure": (TracedFailure, "failures"),
}
_NAMES = {kind: name for name, (kind, _) in _KINDS.items()} | {TracedProcess: "process"}


def record_line(noun: Any) -> bytes:
    """Return a noun of this module as one line of a `.records` file."""
    return json.dumps({"kind": _NAMES[type(noun)], **encode(noun)}, separators=(",", ":")).encode() + b"\n"


def read_spool(folder: Path, name: str) -> Spool:
    """Read what the process `name` left in `folder`; a torn or unreadable record is left out."""
    spool = Spool(name)
    for data in _lines(folder / f"{name}.records"):
        kind = data.pop("kind", "")
        try:
            if kind == "process":
                spool.process = decode(TracedProcess, data)
            elif kind in _KINDS:
                noun, where = _KINDS[kind]
                getattr(spool, where).append(decode(noun, data))
            else:
                spool.extra.append({"kind": kind, **data})
        except (CodecError, TypeError, ValueError):
            continue
    spool.kept, spool.beyond = read_counts(folder / f"{name}.counts")
    return spool


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    return
                try:
                    data = json.loads(line)
                except ValueError:
                    continue
                if isinstance(data, dict):
                    yield data
    except OSError:
        return


def read_counts(path: Path) -> tuple[dict[int, Kept], int]:
    """Read the slots that were used, and how many launches found no slot any more."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}, 0
    if len(data) < HEADER_BYTES or data[:8] != MAGIC:
        return {}, 0
    _, _, beyond, _ = HEADER.unpack_from(data)
    kept: dict[int, Kept] = {}
    for slot in range((len(data) - HEADER_BYTES) // SLOT_BYTES):
        count, taken, *ring = _SLOT.unpack_from(data, HEADER_BYTES + slot * SLOT_BYTES)
        if count:
            kept[slot] = Kept(count, tuple(ring[: min(taken, SAMPLES)]))
    return kept, beyond


@dataclass(frozen=True)
class TracedLaunchOf:
    """A distinct launch of a whole traced command, with the kernel it is of."""

    kernel: Kernel
    launch: Launch


@dataclass(frozen=True)
class HostCall:
    """A host call of a traced command and the ids of the launches it made, in order."""

    call: Call
    launches: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """What tracing a command showed, all its processes together.

    `launches` come in the order of first execution, ranked by time × count over all kernels. `failures` name what could
    not be recorded or cannot be repeated. `processes` are those that launched something; `python` counts those that
    could have been seen. `beyond`: launches that were made when no more distinct ones were kept.
    """

    command: tuple[str, ...]
    launches: tuple[TracedLaunchOf, ...] = ()
    calls: tuple[HostCall, ...] = ()
    failures: tuple[TracedFailure, ...] = ()
    processes: tuple[TracedProcess, ...] = ()
    python: int = 0
    beyond: int = 0
