"""The device's own record of each kernel, when it started and ended, by CUPTI through Triton's profiler (Proton).

Such a time has neither launch gaps nor events nor anything of the host in it, and steps of 32 ns. Proton, because the
first start of torch's profiler took 5.3 s on an H200.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tritonforge.worker.timing.judging import one_kernel_each

_SCOPE = "tritonforge-"


class NoRecords(Exception):
    """The profiler could not be started or read; the text says why."""


@dataclass
class Tape:
    """`around(place)` is entered round the launch of that number; `read(names)` returns durations once it has ended."""

    around: Callable[[int], AbstractContextManager[Any]]
    root: Any = None

    def read(self, names: list[str]) -> list[float]:
        """Return the duration in µs of each launch, whose kernels are named in `names`, in order of their numbers.

        Raises:
            NoRecords: when any record is missing, or of another kernel.
        """
        found = one_kernel_each(self.root, _SCOPE, names)
        if found is None:
            raise NoRecords("CUPTI's records do not match the launches")
        return found


@contextlib.contextmanager
def recording() -> Iterator[Tape]:
    """Record every kernel that runs meanwhile.

    Raises:
        NoRecords: when that is not possible here; what was run meanwhile has run all the same.
    """
    try:
        proton = importlib.import_module("triton.profiler")
    except ImportError as error:
        raise NoRecords(f"this Triton has no profiler: {_said(error)}") from error
    with tempfile.TemporaryDirectory(prefix="tritonforge-") as folder:
        name = str(Path(folder) / "records")
        try:
            session = proton.start(name, backend="cupti")
        except (RuntimeError, ValueError, TypeError) as error:
            raise NoRecords(f"CUPTI does not start: {_said(error)}") from error
        if session is None:
            raise NoRecords("Proton is switched off")
        tape = Tape(lambda place: proton.scope(f"{_SCOPE}{place}"))
        try:
            yield tape
            torch.cuda.synchronize()
        except BaseException:
            with contextlib.suppress(RuntimeError):
                proton.finalize(session)
            raise
        try:
            proton.finalize(session)
            tape.root = json.loads(Path(f"{name}.hatchet").read_bytes())
        except (RuntimeError, OSError, ValueError) as error:
            raise NoRecords(f"CUPTI's records cannot be read: {_said(error)}") from error


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]
