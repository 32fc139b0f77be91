"""Starting a process that a tool of NVIDIA's watches, and ending it with everything it started."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time

from tritonforge.worker import processes
from tritonforge.worker.children import PACKAGE_ROOT

_TAIL = 20_000


def program_of(module: str) -> str:
    """Return the text that runs `main` of a module of `worker` with the first argument, for `python -c`."""
    # `-c` puts the current folder first on the path, where a user's `json.py` would stand in for the real one.
    return (
        f"import sys; sys.path[:] = [{PACKAGE_ROOT!r}, *filter(None, sys.path)]; "
        f"from tritonforge.worker.{module} import main; main(sys.argv[1])"
    )


def run_to_end(command: list[str], seconds: float) -> tuple[int | None, str]:
    """Run a command to its end; returns its exit status (None: it had to be stopped) and the end of what it printed."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            # A profiler starts the program as its child, and outlives neither it nor us.
            _end(process)
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - _TAIL))
        return status, out.read().decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 5.0
    while process.poll() is None and time.monotonic() < deadline:
        processes.kill([*processes.descendants(process.pid), process.pid])
        time.sleep(0.01)
