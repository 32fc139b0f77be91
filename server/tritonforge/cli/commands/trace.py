"""`tritonforge trace`: see what a program launches while it runs as ever."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from tritonforge.cli.rendering import text_width
from tritonforge.cli.running import Workspace, open_workspace, warn
from tritonforge.config import workspace_root
from tritonforge.domain.errors import UsageError

_DEFAULT = ".tritonforge/trace.json"


class _AfterDashes(click.Command):
    """A command whose last arguments are another command, set off by `--`, whatever options that one has."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a command that is not set off: its options would be taken for ours."""
        if "--" not in args and not {"-h", "--help"} & set(args):
            stray = [a for a in args if not a.startswith("-")]
            mend = f" Put -- in front of it: tritonforge trace -- {' '.join(stray[-2:])}" if stray else ""
            raise click.UsageError(f"the command to trace is missing, which comes after --.{mend}", ctx)
        return super().parse_args(ctx, args)


@click.command(cls=_AfterDashes)
@click.option(
    "-o", "--output", metavar="FILE", default=None,
    help=f"Where to write what was recorded.  [default: {_DEFAULT} in the workspace]",
)  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def trace(output: str | None, command: tuple[str, ...]) -> int:
    """Record every Triton launch of a program: its calls, shapes, values, options and, on a GPU, times.

    The program runs as without tracing, and its exit code is returned. Where there is no GPU, CUDA is pretended:
    launches are recorded and no kernel runs. Child processes are recorded too. Later commands find the launches.
    """
    root = workspace_root(Path.cwd())
    workspace = open_workspace(root)
    file = _prepared(root, output)
    return _trace(command, workspace, file)


def _trace(command: tuple[str, ...], workspace: Workspace, file: Path) -> int:
    from tritonforge.report.json_trace import trace_json
    from tritonforge.report.text import plain, to_ascii
    from tritonforge.report.text_trace import trace_text
    from tritonforge.workload.tracing import store_calls, trace_command

    traced = trace_command(command, workspace.root, arch=workspace.settings.targets["offline"].arch or "sm_90")
    try:
        _write(file, trace_json(traced.trace))
    except OSError as error:
        warn(f"{file} could not be written ({error.strerror}). Name another file with -o.")
        return traced.exit_code
    store_calls(traced, workspace.root, workspace.store)
    lines = trace_text(traced.trace, _shown(file), width=text_width(stderr=True))
    text = plain(lines)
    try:
        text.encode(sys.stderr.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        text = plain(to_ascii(lines))
    click.echo(text, err=True, nl=False)
    return traced.exit_code


def _prepared(root: Path, output: str | None) -> Path:
    """Return the file to write, having seen before the program runs that it can be written.

    Raises:
        UsageError: when it cannot.
    """
    if output == "":
        raise UsageError("-o names no file.", "Name one, or leave -o out.")
    file = Path(output) if output is not None else root / _DEFAULT
    if output is None:
        with contextlib.suppress(OSError):
            file.parent.mkdir(exist_ok=True)
    if file.is_dir():
        raise UsageError(f"{output} is a folder.", "Name a file with -o.")
    if not file.parent.is_dir():
        raise UsageError(f"the folder of {output or file} does not exist.", "Make it, or name another file with -o.")
    if not os.access(file.parent, os.W_OK):
        raise UsageError(f"{output or file} cannot be written.", "Name another file with -o.")
    return file.absolute()


def _write(file: Path, report: dict[str, Any]) -> None:
    """Write a report whole or not at all."""
    text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if file.exists() and not file.is_file():  # a pipe or a terminal
        file.write_text(text, encoding="utf-8")
        return
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with open(number, "w", encoding="utf-8") as new:  # noqa: PTH123 - a descriptor
        new.write(text)
    Path(name).chmod(0o666 & ~_umask())
    Path(name).replace(file)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _shown(file: Path) -> str:
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)
