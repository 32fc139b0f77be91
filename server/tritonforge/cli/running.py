"""What the commands share: an open workspace, an open target, progress on stderr, the exit code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click
from rich.console import Console
from rich.status import Status

from tritonforge.cli.rendering import harmless, print_json, print_lines, speak_utf8, text_width
from tritonforge.cli.selecting import Selected
from tritonforge.config import Settings, load
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel, RunnableEntry
from tritonforge.domain.launch import Launch
from tritonforge.jobs.known import KnownTargets
from tritonforge.jobs.session import Session, open_session
from tritonforge.report.text import Line
from tritonforge.store import Store, open_store
from tritonforge.workload.gather import FileWorkload
from tritonforge.workload.index import WorkspaceIndex
from tritonforge.workload.launches import pinned_among, problem_id
from tritonforge.workload.specified import comment_problems

UNPIN = "auto"
"""What `--launch` takes to rank launches by themselves again."""


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
    index: WorkspaceIndex

    def workload(
        self,
        selected: Selected,
        *,
        allow_run: bool,
        progress: Progress,
        named: Iterable[Selected] = (),
        pin: str | None = None,
    ) -> FileWorkload:
        """Return what finds the calls of the kernels of `selected`.

        Only files that the user named are ever run, and only without `--no-run`; `named` holds the others of them.
        `pin` is the launch to rank first.
        """
        if pin == UNPIN:
            for kernel in selected.kernels:
                self.store.pin(kernel.file, kernel.name, ())
            pin = None

        def stale(kernel: Kernel, why: str) -> None:
            warn(
                f"the launches of {kernel.name} were recorded earlier, and {why}; record them again where that matters."
            )

        def say(file: str, entry: RunnableEntry) -> None:
            progress.say(f"recording launches: {entry.name or entry.kind} of {file} …")

        return FileWorkload(
            root=str(self.root),
            analysis=selected.analysis,
            text=selected.text,
            settings=self.settings,
            store=self.store,
            allow_run=allow_run and selected.named,
            on_entry=say,
            run_too=frozenset(one.analysis.file for one in named if one.named) if allow_run else frozenset(),
            index=self.index,
            pin=pin,
            on_stale=stale,
        )

    def remember_pin(self, kernel: Kernel, pin: str | None, launches: Sequence[Launch]) -> None:
        """Keep what `--launch` said, for later runs and the editor.

        Raises:
            UsageError: when no launch has that id.
        """
        if pin is None or pin == UNPIN:
            return
        found = pinned_among(launches, (pin,), kernel)
        if found is None:
            known = ", ".join(launch.id for launch in sorted(launches, key=lambda one: one.rank))
            raise UsageError(f"{kernel.name} has no launch {pin}.", f"Known: {known}.")
        self.store.pin(kernel.file, kernel.name, (found.id, problem_id(kernel, found.problem)))


def open_workspace(root: Path) -> Workspace:
    """Read the settings (refusing wrong ones) and open the store.

    Raises:
        UsageError: for settings that are wrong or cannot be read.
    """
    settings, store = load(root), open_store(root, warn=warn)
    return Workspace(root, settings, store, WorkspaceIndex(root, store))


@asynccontextmanager
async def target(
    workspace: Workspace, name: str | None, progress: Progress, *, at_leisure: bool = False
) -> AsyncIterator[Session]:
    """Open the target called `name`, or the workspace's default.

    `at_leisure`: its worker may turn out not to be needed, and interprets nothing.
    """
    progress.say("starting the worker …")
    if at_leisure:
        opened = open_session(workspace.settings, name, warm=("compile",), known=KnownTargets(workspace.store))
    else:
        opened = open_session(workspace.settings, name)
    async with opened as session:
        yield session


def warn(sentence: str) -> None:
    """Say something on stderr that stops nothing."""
    click.echo(f"tritonforge: {harmless(sentence)}", err=True)


def warn_of_comments(files: Iterable[Selected]) -> None:
    """Say which comments to this tool do nothing in the files that the user named."""
    for file in files:
        for problem in comment_problems(file.analysis) if file.named else ():
            at = problem.range.start
            warn(f"{problem.file}:{at.line}:{at.column}: {problem.message}")


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine to its exit code; Ctrl-C cancels it first, so that it can keep what it has."""
    return asyncio.run(work)


def emit(
    output_format: str,
    as_json: Callable[[], Any],
    as_text: Callable[[int], Iterable[Line]],
    as_html: Callable[[], str] = str,
) -> None:
    """Print a result: JSON and HTML go to stdout alone, text as wide as the terminal, in colour where it has it."""
    if output_format == "html":
        speak_utf8()  # as the page says
        sys.stdout.write(as_html())
    elif output_format == "json":
        print_json(as_json())
    else:
        print_lines(as_text(text_width()))


def is_verbose() -> bool:
    """Tell whether `--verbose` was given, before the command's name or behind it."""
    context = click.get_current_context(silent=True)
    return context is not None and bool((context.find_root().obj or {}).get("verbose"))


def format_option(*, html: bool = False) -> Callable[[Any], Any]:
    """Declare `--format`; `html`: whether the command can make a page."""
    return click.option(
        "--format", "output_format", type=click.Choice(["text", "json", *(["html"] if html else [])]),
        default="text", show_default=True,
        help="What to print on stdout" + (", html for one page that stands alone." if html else "."),
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


def launch_option() -> Callable[[Any], Any]:
    """Declare `--launch`."""

    def named(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise UsageError("--launch names no launch.", "Give the id of one, or auto.")
        return value

    return click.option(
        "--launch", "pin", metavar="ID", callback=named,
        help="The launch that matters most, by its id; it is remembered. auto: by time and count again.",
    )  # fmt: skip


def one_kernel_for(pin: str | None, files: Sequence[Selected]) -> None:
    """Check that it is clear whose launch `--launch` names.

    Raises:
        UsageError: when several kernels were chosen.
    """
    if pin is not None and sum(len(file.kernels) for file in files) != 1:
        raise UsageError("--launch is about one kernel.", "Name it as PATH::KERNEL.")
