"""How far a long run is, as one line on stderr: a bar with a count, what is being done, the time it took."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from tritonforge.cli.running import Progress

_WORDS = 44


class CountedProgress(Progress):
    """`Progress` with a bar, once it is known how much there is to do; silent in a pipe like the other."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._status = None
        self._bar: Bar | None = None
        self._task = None
        if console.is_terminal:
            columns = (
                BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
            )  # fmt: skip
            self._bar = Bar(*columns, console=console, transient=True, refresh_per_second=8)
            self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Replace the words beside the bar."""
        if self._bar and self._task is not None:
            short = text if len(text) <= _WORDS else text[: _WORDS - 1] + "…"
            self._bar.update(self._task, description=short)

    def expect(self, total: int) -> None:
        """Say how much there is to do, and begin to count anew."""
        if self._bar and self._task is not None:
            self._bar.update(self._task, total=total, completed=0)

    def advance(self) -> None:
        """Count one as done."""
        if self._bar and self._task is not None:
            self._bar.advance(self._task)
