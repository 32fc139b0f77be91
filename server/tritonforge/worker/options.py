"""What a client may choose about its worker."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.worker.zygote import ZygoteKind


@dataclass(frozen=True)
class Options:
    """The module with the handlers, folders where it is found besides, zygotes to start at once, and lanes of a kind.

    `lanes` None means one fewer than there are cores, so that the machine stays responsive.
    """

    handlers: str = "tritonforge.worker.handlers"
    path: tuple[str, ...] = ()
    warm: tuple[ZygoteKind, ...] = ("compile", "interpret")
    lanes: int | None = None
    apart: bool = True
    """Whether several GPUs may be measured on while other jobs run, on cores of their own."""
    files: bool = False
    """Whether the client sends the files of its workspace, because this machine does not have them."""
