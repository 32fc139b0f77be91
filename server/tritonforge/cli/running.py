"""What the commands share: an open workspace, an open target, progress on stderr, the exit code."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click
from rich.console import Console
from rich.status import Status

from tritonforge.cli.rendering import print_lines
from tritonforge.cli.selecting import Selected
from tritonforge.config import Settings, load
from tritonforge.domain.kernel import RunnableEntry
from tritonforge.jobs.session import Session, open_session
from tritonforge.report.text import Line
from tritonforge.store import Store, open_store
from tritonforge.workload.gather import FileWorkload


class Progress(AbstractContextManager["Progress"]):
    """One changing line on stderr, on a terminal only; silent in a pipe, where it would be noise in a log."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status: Status | None = self._console.status("") if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def say(self, text: str) -> None:
        """Replace the line."""
        if self._status:
            self._status.update(text)


@dataclass(frozen=True)
class Workspace:
    """A workspace with its settings and its store."""

    root: Path
    settings: Settings
    store: Store

    def workload(self, selected: Selected, *, allow_run: bool, progress: Progress) -> FileWorkload:
        """Return what finds the calls of the kernels of `selected`.

        Only a file that the user named is ever run, and only without `--no-run`.
        """

        def say(entry: RunnableEntry) -> None:
            progress.say(f"recording the launches of {selected.analysis.file} ({entry.name or entry.kind}) …")

        return FileWorkload(
            root=str(self.root),
            analysis=selected.analysis,
            text=selected.text,
            settings=self.settings,
            store=self.store,
            allow_run=allow_run and selected.named,
            on_entry=say,
        )


def open_workspace(root: Path) -> Workspace:
    """Read the settings (refusing wrong ones) and open the store.

    Raises:
        UsageError: for settings that are wrong or cannot be read.
    """
    return Workspace(root, load(root), open_store(root, warn=warn))


@asynccontextmanager
async def target(workspace: Workspace, name: str | None, progress: Progress) -> AsyncIterator[Session]:
    """Open the target called `name`, or the workspace's default."""
    progress.say("starting the worker …")
    async with open_session(workspace.settings, name) as session:
        yield session


def warn(sentence: str) -> None:
    """Say something on stderr that stops nothing."""
    click.echo(f"tritonforge: {sentence}", err=True)


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine to its exit code; Ctrl-C cancels it first, so that it can keep what it has."""
    return asyncio.run(work)


def emit(output_format: str, as_json: Callable[[], Any], as_text: Callable[[], Iterable[Line]]) -> None:
    """Print a result: JSON goes to stdout alone, text in colour where the terminal has it."""
    if output_format == "json":
        json.dump(as_json(), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
        sys.stdout.write("\n")
    else:
        print_lines(as_text())


def format_option() -> Callable[[Any], Any]:
    """Declare `--format`."""
    return click.option(
        "--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="What to print on stdout.",
    )  # fmt: skip


def target_option(*, several: bool = False) -> Callable[[Any], Any]:
    """Declare `--target`."""
    return click.option(
        "--target", "targets" if several else "target_name", metavar="NAME", multiple=several,
        help="Where to compile, verify and measure: a name of tritonforge.toml, auto, local or offline."
        + (" May be given several times." if several else ""),
    )  # fmt: skip


def no_run_option() -> Callable[[Any], Any]:
    """Declare `--no-run`."""
    return click.option(
        "--no-run", is_flag=True,
        help="Never run the user's code to find launches; use specs and earlier recordings only.",
    )  # fmt: skip
