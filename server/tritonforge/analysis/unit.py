"""One parsed file, as the parts of this room hand it around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.scopes import ModuleIndex
from tritonforge.analysis.text import SourceText


@dataclass(frozen=True)
class Unit:
    """A file's name, text and index, and its jit functions by the id of their `def`."""

    file: str
    text: SourceText
    index: ModuleIndex
    jits: Mapping[int, JitFunction]
