"""`Subject`: a kernel of a file of a workspace, with the calls that it is judged on."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program


@dataclass(frozen=True)
class Subject:
    """What is profiled, verified or optimised. `text` is the file's, as read (or as it stands in an editor).

    `others` are the texts of the other files whose functions the calls name, by file: a kernel may be launched from
    elsewhere. `pinned` names the launch that ranks first, as `distinct` takes it.
    """

    root: str
    file: str
    text: str
    kernel: Kernel
    calls: tuple[Call, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    pinned: tuple[str, ...] = ()

    def program(self, text: str | None = None) -> Program:
        """Return the program to load, with `text` in place of the file's own."""
        return Program(self.root, self.file, ((self.file, self.text if text is None else text), *self.others))
