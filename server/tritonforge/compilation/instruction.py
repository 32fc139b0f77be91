"""One machine instruction, whoever made the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.compilation.locations import Frame


@dataclass(frozen=True)
class Instruction:
    """One instruction: `frames` innermost first, `target` the label it branches to (None: no branch).

    `row` is the 0-based line of the text that it stands on.
    """

    frames: tuple[Frame, ...]
    mnemonic: str
    modifiers: str
    operands: str
    target: str | None
    row: int = -1
