"""`tritonforge watch`: profile kernels again whenever they are saved."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import click
from rich.console import Console, Group
from rich.live import Live

from tritonforge.cli.rendering import print_lines, styled
from tritonforge.cli.running import no_run_option, run, target_option, warn
from tritonforge.cli.watch_files import WatchedFiles
from tritonforge.cli.watch_kernel import Screen
from tritonforge.cli.watch_loop import Watcher
from tritonforge.config import workspace_root
from tritonforge.report.text import Line
from tritonforge.report.text_watch import WatchRow, watch_table
from tritonforge.workload.watching import watching

TERMINATED = 128 + signal.SIGTERM


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@target_option()
@no_run_option()
def watch(paths: tuple[str, ...], target_name: str | None, *, no_run: bool) -> int:
    """Profile the kernels of PATHs, and again each one that a save has changed, until Ctrl-C.

    On a terminal a table is kept up to date; in a pipe each change is one line. Saves that change no kernel, no launch
    and nothing that these use cost nothing. Without a GPU times are predicted, and say so.
    """
    return run(_watch(paths, target_name, allow_run=not no_run))


async def _watch(paths: tuple[str, ...], target_name: str | None, *, allow_run: bool) -> int:
    files = WatchedFiles(paths)
    with _Table() if sys.stdout.isatty() else _Log() as screen:
        root = workspace_root(Path(paths[0].partition("::")[0]))
        watcher = Watcher(files, root, screen, target_name=target_name, allow_run=allow_run)
        with _terminated() as was:
            try:
                async with watching((*watcher.roots, *files.folders), files.named) as changes:
                    if changes.note:
                        warn(changes.note)
                    if watcher.empty:
                        warn(f"no Triton kernel in {', '.join(paths)} yet: the first that is saved is profiled.")
                    await watcher.run(changes)
            except asyncio.CancelledError:
                if not was:
                    raise
                return TERMINATED
    return 0


@contextlib.contextmanager
def _terminated() -> Iterator[list[int]]:
    """End as Ctrl-C does when asked to terminate, so that the terminal is left as it was; the list tells of it."""
    was: list[int] = []
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def end() -> None:
        was.append(signal.SIGTERM)
        if task is not None:
            task.cancel()

    try:
        loop.add_signal_handler(signal.SIGTERM, end)
    except (NotImplementedError, RuntimeError, ValueError):
        yield was
        return
    try:
        yield was
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


class _Log(Screen):
    """One line for each thing that happens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to restore."""

    def show(self, rows: list[WatchRow], problems: list[str], footer: str) -> None:
        """A log has no table."""

    def happened(self, what: Line) -> None:
        """Print it at once: somebody may be following."""
        print_lines([what])
        sys.stdout.flush()


class _Table(Screen):
    """A table that changes in place."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="ellipsis")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, rows: list[WatchRow], problems: list[str], footer: str) -> None:
        """Draw it anew."""
        texts = list(styled(watch_table(rows, problems, footer, width=self._console.width), self._console.encoding))
        for text in texts:
            # A wrapped row would tear the table apart.
            text.no_wrap, text.overflow = True, "ellipsis"
        self._live.update(Group(*texts), refresh=True)

    def happened(self, what: Line) -> None:
        """The table shows it."""
