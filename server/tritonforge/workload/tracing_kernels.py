"""From a recorded launch to the kernel in the source, as it is now on disk."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.source import Range
from tritonforge.workload.launches import matches

_NOTEBOOK = re.compile(r"<ipython-input-|/ipykernel_\d+/")


@dataclass(frozen=True)
class Resolved:
    """A kernel of a traced program.

    `unrepeatable` says why nothing can be done with it later (empty when something can). `unreachable`: it is made
    inside a function, so that it can only be launched through the functions around it.
    """

    kernel: Kernel
    unrepeatable: str = ""
    unreachable: bool = False


class Sources:
    """Finds kernels in files of a workspace and outside; each file is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, tuple[FileAnalysis, str] | None] = {}
        self._resolved: dict[tuple[str, str, int], Resolved] = {}

    def resolve(self, launch: RecordedLaunch) -> Resolved:
        """Return the kernel of `launch`; where there is none in a file, one that has its name and place alone."""
        key = (launch.kernel_file, launch.kernel, launch.kernel_line)
        if key not in self._resolved:
            self._resolved[key] = self._find(launch)
        return self._resolved[key]

    def has(self, file: str) -> bool:
        """Tell whether there is such a file: there is none for a notebook's cell, or for one that was generated."""
        return (self._root / file).is_file()

    def _find(self, launch: RecordedLaunch) -> Resolved:
        found = self._analysis(launch.kernel_file)
        if found is None:
            return Resolved(_named(launch), _why_no_file(launch.kernel_file))
        analysis, text = found
        kernels = [k for k in analysis.kernels if matches(k, launch)]
        if not kernels:
            return Resolved(
                _named(launch),
                f"{launch.kernel_file} defines no kernel {launch.kernel} at line {launch.kernel_line}: it was "
                "generated, or the file has changed since it was run",
            )
        outer = launch.kernel.rpartition(".")[0].partition(".")[0]
        unreachable = bool(outer) and re.search(rf"(?m)^class {re.escape(outer)}\b", text) is None
        return Resolved(kernels[0], "", unreachable)

    def _analysis(self, file: str) -> tuple[FileAnalysis, str] | None:
        if file not in self._files:
            try:
                data = (self._root / file).read_bytes()
            except (OSError, ValueError):
                self._files[file] = None
            else:
                self._files[file] = (analyze(data, file), data.decode("utf-8", "replace"))
        return self._files[file]


def _named(launch: RecordedLaunch) -> Kernel:
    line = max(1, launch.kernel_line)
    place = Range.of(line, 1, line, 1)
    return Kernel(launch.kernel_file or "<unknown>", launch.kernel, place, place, ())


def _why_no_file(file: str) -> str:
    if _NOTEBOOK.search(file):
        return "it is defined in a notebook's cell, which cannot be loaded again: move it to a file"
    if not file or file.startswith("<"):
        return "its source is in no file, so it cannot be loaded again: write it to a file"
    return f"its file {file} is gone, so it cannot be loaded again: keep generated kernels in a file"
