"""Mends of what is wrong: edits for findings about correctness, where the mend is certain.

They change what a kernel computes, so that no gate can compare them with the original: they are shown as mends of a
finding and never as something faster, and the search for speed does not propose them.
"""

from __future__ import annotations

from tritonforge.rewrite.mends.mend import Mend
from tritonforge.rewrite.mends.mending import CODES, mends

__all__ = ["CODES", "Mend", "mends"]
