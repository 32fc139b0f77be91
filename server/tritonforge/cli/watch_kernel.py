"""One kernel that `watch` keeps an eye on, and where what becomes of it is seen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tritonforge.cli.selecting import Selected
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.results import ProfileResult
from tritonforge.report.text import Line
from tritonforge.report.text_watch import WatchRow

Key = tuple[Path, str]


class Screen(Protocol):
    """Where results are seen."""

    def show(self, rows: list[WatchRow], problems: list[str], footer: str) -> None:
        """Show everything as it is now; called whenever anything has changed."""

    def happened(self, what: Line) -> None:
        """Show one thing that happened; what a live table shows anyway need not be said."""


@dataclass
class Watched:
    """One kernel. `state` is that of the row's numbers (None: to be profiled), `running` that of a job under way."""

    selected: Selected
    kernel: Kernel
    row: WatchRow
    state: str | None = None
    running: str | None = None
    result: ProfileResult | None = None
    kept: WatchRow | None = None
    """The row as it was before its file could not be read."""
    lost: int = 0
    """Workers that ended while they worked for it, since it last changed."""
