"""What a target's worker said of itself the last time, as long as nothing has changed that it could say otherwise."""

from __future__ import annotations

import asyncio
import glob
import json
import os
import sys
from pathlib import Path

from tritonforge.domain.file_state import file_state
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.store import Store
from tritonforge.store.keys import content_key, tool_hash

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "PYTHONPATH", "PYTHONHOME")
_DEVICES = ("/dev/nvidia*", "/dev/kfd", "/dev/dri/*")
_DRIVERS = ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version")
_PATIENCE_S = 10.0
_LOOK = """
import importlib.util, json, os, sys
found = [sys.executable, sys.version]
for package, parts in (("torch", ["version.py"]), ("triton", ["__init__.py", "_C"])):
    spec = importlib.util.find_spec(package)
    folder = os.path.dirname(spec.origin) if spec is not None and spec.origin else None
    for part in parts if folder else ():
        path = os.path.join(folder, part)
        inner = sorted(os.listdir(path)) if os.path.isdir(path) else ()
        found += [os.path.join(path, one) for one in inner] or [path]
print(json.dumps(found))
"""
"""Says where a Python would import torch and Triton from, which takes no time: nothing is imported."""


class KnownTargets:
    """Remembers workers of this machine. Importing torch to ask again takes seconds, looking at its files none."""

    def __init__(self, store: Store) -> None:
        """Remember in `store`."""
        self._store = store

    async def recall(self, target: Target) -> WorkerInfo | None:
        """Return what the worker of `target` would say; None when it has to be asked."""
        key = await _key(target)
        return self._store.worker(key) if key is not None else None

    async def keep(self, target: Target, described: WorkerInfo) -> None:
        """Remember what the worker of `target` has said, unless it is not whole."""
        if described.torch is None or described.triton is None or described.problems:
            return
        key = await _key(target)
        if key is not None:
            self._store.put_worker(key, described)


def _python(target: Target) -> str:
    return os.path.expanduser(target.python) if target.python else sys.executable  # noqa: PTH111 - may be a bare name


async def _key(target: Target) -> str | None:
    """Return what an answer of the worker depends on; None for one that is elsewhere, or cannot be looked at."""
    if target.command:
        return None
    python = _python(target)
    try:
        process = await asyncio.create_subprocess_exec(
            python, "-c", _LOOK, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
    try:
        said, _ = await asyncio.wait_for(process.communicate(), _PATIENCE_S)
        found = json.loads(said)
    except (TimeoutError, ValueError):
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    executable, version, *files = found
    return content_key(
        "worker",
        python,
        executable,
        version,
        {path: _cheap_state(path) for path in files},
        {name: os.environ.get(name) for name in _VARIABLES},
        sorted(path for pattern in _DEVICES for path in glob.glob(pattern)),  # noqa: PTH207 - patterns are absolute
        [file_state(path) for path in _DRIVERS],
        os.cpu_count(),
        tool_hash(),
    )


def _cheap_state(path: str) -> str:
    try:
        found = Path(path).stat()
    except OSError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}"
