"""Put code of ours into every Python process of a command, without changing what the command does.

`injected` makes a folder with a `sitecustomize.py` of ours, a copy of the worker's code under a name of its own (it
cannot be taken for an installed `tritonforge`), and `options.json`. Its path in front of `PYTHONPATH` is all that the
command notices: children inherit it (fork, spawn, `torchrun`, xdist, notebook kernels, `-m module`), the program's own
`sitecustomize` still runs, and `sys.path` is as without us. In each process the modules that `start` names are imported
and their `start(folder, options, imported)` called; `imported.when(("torch", "triton"), then)` waits for imports. What
they write into `Injection.spool` stays there until the block is left.

    with injected(start=("worker.tracing.recording",), options={"root": root}) as injection:
        end = run_command(command, injection.environment(os.environ))
        spools = injection.spools()

A process without `PYTHONPATH` (`python -I`, `-E`), without `site` (`-S`) or with another environment is not reached:
`Injection.processes` counts those that were.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import secrets
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonforge.domain.trace import Spool, read_spool
from tritonforge.targets.archive import worker_archive

_IMPORT = re.compile(r"(?m)^(\s*)(from|import) tritonforge\b")

_SITECUSTOMIZE = '''\
"""Starts recording in this process, then makes way for the `sitecustomize` that would have run here."""
import os as _os
import sys as _sys

_here = _os.path.dirname(_os.path.abspath(__file__))


def _start():
    from importlib import util
    folder = _os.path.dirname(_here)
    place = _os.path.join(folder, "code", "{package}")
    spec = util.spec_from_file_location(
        "{package}", _os.path.join(place, "__init__.py"), submodule_search_locations=[place]
    )
    module = util.module_from_spec(spec)
    _sys.modules["{package}"] = module
    spec.loader.exec_module(module)
    from {package}.worker.tracing.starting import start
    start(folder)


_sys.path[:] = [p for p in _sys.path if p != _here]
_sys.path_importer_cache.pop(_here, None)
try:
    if _sys.version_info >= (3, 10):
        _start()
    open(_os.path.join(_os.path.dirname(_here), "spool", str(_os.getpid()) + ".python"), "w").close()
except Exception as _error:
    try:
        with open(_os.path.join(_os.path.dirname(_here), "spool", str(_os.getpid()) + ".failed"), "w") as _file:
            _file.write("{{}}: {{}}".format(type(_error).__name__, _error))
    except Exception:
        pass

from importlib.machinery import PathFinder as _PathFinder  # noqa: E402

_spec = _PathFinder.find_spec("sitecustomize", _sys.path)
if _spec is None or _spec.loader is None:
    # What `site` expects, and keeps quiet about, when there is none.
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
from importlib import util as _util  # noqa: E402

_module = _util.module_from_spec(_spec)
_sys.modules["sitecustomize"] = _module
_spec.loader.exec_module(_module)
'''


@dataclass(frozen=True)
class Injection:
    """A folder that is being injected. `spool` is where traced processes write."""

    folder: Path

    @property
    def spool(self) -> Path:
        """The folder that records are written to."""
        return self.folder / "spool"

    @property
    def marker(self) -> str:
        """A text that is in the environment of every process of the command, and of no other."""
        return str(self.folder / "site")

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return `base` with what injects us in front of its `PYTHONPATH`."""
        before = base.get("PYTHONPATH", "")
        return {**base, "PYTHONPATH": self.marker + (f":{before}" if before else "")}

    def processes(self) -> int:
        """How many Python processes we were started in."""
        return len({p.stem for p in self.spool.glob("*.python")})

    def failed(self) -> tuple[str, ...]:
        """Why we could not be started in processes where we could not, each reason once."""
        return tuple(dict.fromkeys(p.read_text("utf-8", "replace")[:500] for p in sorted(self.spool.glob("*.failed"))))

    def spools(self) -> list[Spool]:
        """Read what every process has left so far, in the order in which they began to record."""
        names = sorted(self.spool.glob("*.records"), key=lambda p: (p.stat().st_ctime_ns, p.name))
        return [read_spool(self.spool, path.stem) for path in names]


@contextlib.contextmanager
def injected(*, start: tuple[str, ...], options: Mapping[str, Any]) -> Iterator[Injection]:
    """Prepare an injection that starts the modules `start` (`worker.…`) with `options`; its folder goes at the end.

    Raises:
        OSError: when no temporary folder can be written.
    """
    folder = Path(tempfile.mkdtemp(prefix="tritonforge-trace-"))
    try:
        injection = Injection(folder)
        package = f"_tritonforge_{secrets.token_hex(4)}"
        _unpack(folder / "code", package)
        injection.spool.mkdir()
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITECUSTOMIZE.format(package=package), encoding="utf-8")
        text = json.dumps({**options, "start": list(start), "spool": str(injection.spool)})
        (folder / "options.json").write_text(text, encoding="utf-8")
        yield injection
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(to: Path, package: str) -> None:
    with zipfile.ZipFile(io.BytesIO(worker_archive().data)) as archive:
        for name in archive.namelist():
            top, _, inner = name.partition("/")
            if top != "tritonforge" or inner.startswith("runtime/"):
                continue
            path = to / package / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            text = archive.read(name).decode("utf-8")
            path.write_text(_IMPORT.sub(rf"\1\2 {package}", text), encoding="utf-8")
