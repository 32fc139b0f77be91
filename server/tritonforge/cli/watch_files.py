"""The files that `watch` was given: read at the start, and read again one by one as they change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tritonforge.cli.selecting import Selected, select
from tritonforge.domain.errors import UsageError


@dataclass(frozen=True)
class Unreadable:
    """Why a file cannot be used as it stands: one line."""

    path: Path
    sentence: str


class WatchedFiles:
    """The arguments of `watch`: files (with a kernel or without) and folders, whose files may come and go."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Take the arguments; nothing is read yet."""
        self._arguments: dict[Path, list[str]] = {}
        self._folders: list[Path] = []
        for argument in arguments:
            path = Path(os.path.abspath(argument.partition("::")[0]))  # noqa: PTH100 - resolve() would follow links
            if path.is_dir():
                self._folders.append(path)
            self._arguments.setdefault(path, []).append(argument)

    @property
    def named(self) -> tuple[Path, ...]:
        """The files that the user named themselves."""
        return tuple(path for path in self._arguments if path not in self._folders)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders among the arguments."""
        return tuple(self._folders)

    def all(self) -> Iterator[Selected | Unreadable]:
        """Read everything.

        Raises:
            UsageError: for an argument that names nothing; later it may come and go.
        """
        for one in select([argument for arguments in self._arguments.values() for argument in arguments]):
            yield _judged(one)

    def again(self, path: Path) -> Selected | Unreadable | None:
        """Read `path` again; None when it is none of the files that were meant, or has no kernel."""
        arguments = self._arguments.get(path)
        within = any(path.is_relative_to(folder) for folder in self._folders)
        if not arguments and not (within and path.suffix == ".py"):
            return None
        if not arguments and not path.is_file():  # gone, or a pipe that nobody writes to
            return None
        try:
            found = select(arguments or [str(path)])
        except UsageError as error:
            return Unreadable(path, str(error))
        if not found or path.is_dir():
            return None
        one = found[0] if arguments else replace(found[0], named=False)
        if not arguments and not one.kernels and not (one.analysis.errors and "triton" in one.text):
            return None
        return _judged(one)


def _judged(one: Selected) -> Selected | Unreadable:
    if one.analysis.errors:
        error = one.analysis.errors[0]
        return Unreadable(one.path, f"{error.file}:{error.line}: {error.message}")
    return one
