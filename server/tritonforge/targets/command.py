"""The command line that starts a target's Python."""

from __future__ import annotations

import os
import re
import shlex
import sys
from functools import cache
from importlib.resources import files
from typing import Any

from tritonforge.domain.target import Target
from tritonforge.targets.archive import Archive

_HOME = re.compile(r"~[A-Za-z0-9_.-]*/")


def bootstrap(archive: Archive, options: dict[str, Any]) -> bytes:
    """Return the program that a target's Python reads from its stdin first, and which asks for `archive` if need be."""
    settings = {
        "digest": archive.digest,
        "size": len(archive.data),
        "whole": (archive.files, archive.size),
        "options": options,
    }
    return f"SETTINGS = {settings!r}\n{_bootstrap_source()}".encode()


@cache
def _bootstrap_source() -> str:
    return files("tritonforge.targets").joinpath("bootstrap.py").read_text(encoding="utf-8")


def command_line(target: Target, program_size: int) -> tuple[str, ...]:
    """Return the arguments that start the target's Python on a program of `program_size` bytes sent to its stdin.

    The program itself is not an argument: what is left is one short line without a quote that any shell (csh and fish
    too) might take amiss, whatever the length limits on the way are.
    """
    program = f'import io;exec(io.open(0,"rb",closefd=False).read({program_size}))'
    if not target.command:
        python = os.path.expanduser(target.python) if target.python else sys.executable  # noqa: PTH111 - may be a bare name
        return (python, "-u", "-c", program)
    python = target.python or "python3"
    if target.quoting == "shell":
        # The other side's shell joins its arguments and reads them again; it must also be the one that expands `~`.
        home = match[0] if (match := _HOME.match(python)) else ""
        rest = python[len(home) :]
        return (*target.command, f"{home}{shlex.quote(rest) if rest else ''}", "-u", "-c", shlex.quote(program))
    if python.startswith("~/"):
        launcher = f'exec "$HOME"/{shlex.quote(python[2:])} "$@"'
        return (*target.command, "sh", "-c", launcher, "sh", "-u", "-c", program)
    return (*target.command, python, "-u", "-c", program)
