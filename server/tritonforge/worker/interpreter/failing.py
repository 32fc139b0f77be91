"""How an interpreted kernel fails; apart from what interprets, because a process that compiles may not import that."""

from __future__ import annotations


class KernelFailed(Exception):
    """A kernel could not be interpreted to its end; the text names kernel, line and program.

    `out_of_bounds` tells that it accessed memory outside every buffer of its launch.
    """

    def __init__(self, message: str, line: int | None, *, out_of_bounds: bool = False) -> None:
        super().__init__(message)
        self.line = line
        self.out_of_bounds = out_of_bounds
