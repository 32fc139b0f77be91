"""The first thing that runs in each process of a traced program, before any of its own code: light, and silent.

`options.json` in the folder of the injection says what to start: names of modules of this package, each with a
function `start(folder, options, imported)` that may wait for modules with `imported.when(names, then)`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

_PACKAGE = __name__.rpartition(".worker.")[0]


def start(folder: str) -> None:
    """Start what the injection in `folder` asks for."""
    import importlib
    import json

    # pathlib takes a while to import, and every process pays for it.
    with open(os.path.join(folder, "options.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
        options = json.load(file)
    imported = Imported()
    for name in options["start"]:
        module = importlib.import_module(f"{_PACKAGE}.{name}")
        module.start(folder, options, imported)
    if imported.waiting:
        sys.meta_path.insert(0, imported)


class Imported:
    """Says when modules have been imported; stands first in `sys.meta_path` while anybody waits."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[tuple[set[str], Callable[[], None]]]] = {}
        self._asking: set[str] = set()

    def when(self, names: tuple[str, ...], then: Callable[[], None]) -> None:
        """Call `then` once, when all of `names` have been imported completely."""
        missing = {n for n in names if not _complete(n)}
        if not missing:
            then()
            return
        entry = (missing, then)
        for name in missing:
            self.waiting.setdefault(name, []).append(entry)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find the module as the others would, and have its loader tell when it is done."""
        if name not in self.waiting or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = None
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                if finder is not self and find is not None:
                    spec = find(name, path, target)
                    if spec is not None:
                        break
        finally:
            self._asking.discard(name)
        loader = getattr(spec, "loader", None)
        if loader is None or not hasattr(loader, "__dict__"):
            return spec
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            loader.__dict__.pop("exec_module", None)
            execute(module)
            self._done(name)

        loader.__dict__["exec_module"] = exec_module
        return spec

    def _done(self, name: str) -> None:
        for missing, then in self.waiting.pop(name, ()):
            missing.discard(name)
            if not missing:
                then()
        if not self.waiting:
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(self)


def _complete(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)
