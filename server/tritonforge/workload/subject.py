"""`Subject`: a kernel of a file of a workspace, with the calls that it is judged on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program
from tritonforge.domain.source import Edit, apply_edits


@dataclass(frozen=True)
class Subject:
    """What is profiled, verified or optimised. `text` is the file's, as read (or as it stands in an editor).

    `others` are the texts of other files, by file: those whose functions the calls name, and those that launch the
    kernel, which may be imported there. `pinned` names the launch that ranks first, as `distinct` takes it.
    """

    root: str
    file: str
    text: str
    kernel: Kernel
    calls: tuple[Call, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    pinned: tuple[str, ...] = ()

    def texts(self, edits: Sequence[Edit] = ()) -> dict[str, str]:
        """Return the texts of all its files, by file, with `edits` made.

        Raises:
            KeyError: an edit is of another file.
            ValueError: edits overlap or leave their text.
        """
        texts = {self.file: self.text, **dict(self.others)}
        for file in {edit.file for edit in edits}:
            texts[file] = apply_edits(texts[file], tuple(edit for edit in edits if edit.file == file))
        return texts

    def program(self, text: str | None = None, edits: Sequence[Edit] = ()) -> Program:
        """Return the program to load: with `text` in place of the file's own, and `edits` made in other files."""
        texts = self.texts([edit for edit in edits if edit.file != self.file])
        return Program(self.root, self.file, tuple((texts | ({} if text is None else {self.file: text})).items()))
