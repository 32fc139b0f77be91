"""What a run did, beside what it computed: by this it is told whether results come about honestly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tritonforge.worker.host_operations import beyond

if TYPE_CHECKING:
    from tritonforge.worker.interpreter.conflicts import Conflict
    from tritonforge.worker.interpreter.covering import Cover

CONFLICTS, HOST, ORDER, KEPT, RACES, BESIDE = (
    "write conflicts",
    "host computation",
    "program order",
    "kept results",
    "races",
    "memory beside buffers",
)
"""The names of the honesty checks."""


@dataclass(frozen=True)
class Seen:
    """What was seen of one run.

    `operations` counts what the host function computed in torch. The rest is known of interpreted runs only:
    `programs` of the largest launch, `parameters` of the kernels, `written`: how many elements of each output launches
    wrote; `host`: the outputs whose values torch alone made of an argument; `cover`: which lines ran.
    """

    operations: Mapping[str, int] = field(default_factory=dict)
    programs: int = 0
    conflicts: tuple[Conflict, ...] = ()
    parameters: frozenset[str] = frozenset()
    written: Mapping[str, int] = field(default_factory=dict)
    host: frozenset[str] = frozenset()
    cover: Cover | None = None


@dataclass(frozen=True)
class Doubt:
    """Why a candidate's results are not trusted although they are right: the check that says so, and a sentence."""

    check: str = ""
    text: str = ""


NO_DOUBT = Doubt()


def doubt_of(want: Seen, got: Seen) -> Doubt:
    """Return what a candidate did that its original does not do on the same input; empty when there is nothing."""
    for conflict in got.conflicts:
        if not _has_alike(want, conflict):
            return Doubt(CONFLICTS, conflict.text)
    operation = beyond(got.operations, want.operations)
    if operation:
        who = f"computes with torch's {operation}" if "." not in operation else f"reads values with {operation}"
        return Doubt(HOST, f"the candidate {who} outside its kernels, which the original does not")
    for path, count in want.written.items():
        missing = count - got.written.get(path, 0)
        if missing > 0 and path in got.host and path not in want.host:
            what = f"{missing} of the {count} elements of {path} that the original's kernels write"
            return Doubt(HOST, f"the candidate copies an argument instead of computing {what}")
    return Doubt()


def _has_alike(seen: Seen, conflict: Conflict) -> bool:
    """Tell whether the original has a conflict of that kind on that buffer (on any, where it names none so)."""
    alike = [one for one in seen.conflicts if one.kind == conflict.kind]
    return any(one.buffer == conflict.buffer for one in alike) or (
        bool(alike) and conflict.buffer not in seen.parameters
    )
