"""What an interpreted launch was seen to do wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["out-of-bounds", "write-write", "read-after-write", "write-after-read", "atomic-and-plain"]
"""`out-of-bounds`: an access outside every buffer of the launch. The others: two programs of one launch use one element
with nothing between them that orders them; `write-write` when they store different values."""


@dataclass(frozen=True)
class Fault:
    """One fault of a kernel, by its qualified name; `text` says what happened, with the program and the element."""

    kind: FaultKind
    kernel: str
    text: str
    line: int | None = None
