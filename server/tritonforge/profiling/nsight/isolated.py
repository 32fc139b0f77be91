"""Reading a report with NVIDIA's module in a process of its own: native code that crashes must take nothing along."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.profiling.nsight.finding import import_ncu_report
from tritonforge.profiling.nsight.launch import ReportedLaunch
from tritonforge.profiling.nsight.python_interface import read_with_module

_ROOT = str(Path(__file__).resolve().parents[3])
_SECONDS = 180.0
_CHECK_SECONDS = 30.0
_ABSENT = 3
_SHOWN = 200


@dataclass(frozen=True)
class Broken:
    """The module is there and did not read the report: `why` is a clause."""

    why: str


@functools.cache
def has_module() -> bool:
    """Tell whether NVIDIA's module can be loaded here; asked once, in a process of its own."""
    try:
        return _ask("--check", "", _CHECK_SECONDS).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def read_isolated(path: Path, functions: Collection[str] | None = None) -> tuple[ReportedLaunch, ...] | Broken | None:
    """Return the launches of a report; None when there is no module that can be loaded.

    `functions`: names (or their starts) of those whose instructions are wanted; None wants all.
    """
    wanted = json.dumps(sorted(functions) if functions is not None else None)
    try:
        done = _ask(str(path), wanted, _SECONDS)
    except subprocess.TimeoutExpired:
        return Broken(f"it did not end within {_SECONDS:g} s")
    except OSError as error:
        return Broken(f"no process could be started ({error.strerror})")
    if done.returncode == _ABSENT:
        return None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        how = f"was killed by signal {-done.returncode}" if done.returncode < 0 else f"failed: {(said or ['?'])[-1]}"
        return Broken(f"it {how}"[:_SHOWN])
    try:
        launches: tuple[ReportedLaunch, ...] = decode(tuple[ReportedLaunch, ...], json.loads(done.stdout))
    except (ValueError, CodecError) as error:
        return Broken(f"its answer cannot be read ({error})"[:_SHOWN])
    return launches


def _ask(path: str, wanted: str, seconds: float) -> subprocess.CompletedProcess[bytes]:
    # `-P`, because a report may lie beside a user's `json.py`.
    program = (
        f"import sys; sys.path.insert(0, {_ROOT!r}); from tritonforge.profiling.nsight.isolated import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-P", "-c", program, path, wanted],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )


def main() -> None:
    """Read the report that the arguments name and write its launches to stdout as JSON."""
    path, wanted = sys.argv[1:3]
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here, and nobody will debug it
    answer = sys.stdout
    sys.stdout = sys.stderr  # what the module prints is no JSON
    module = import_ncu_report()
    if module is None:
        sys.exit(_ABSENT)
    if path == "--check":
        return
    names = json.loads(wanted)
    launches = read_with_module(module, Path(path), lambda function: names is None or function.startswith(tuple(names)))
    json.dump(encode(launches), answer)
