"""What in a workspace gets to a kernel: the functions that launch it, and what can be run to see its launches."""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tritonforge.analysis.outline import MAIN, Imported, Outline, OutlinedEntry, outline
from tritonforge.domain.kernel import Kernel, RunnableEntry
from tritonforge.store import Store
from tritonforge.workload.index_files import WorkspaceFiles
from tritonforge.workload.index_modules import Modules, shared

MOST_FILES_READ = 200
"""Files that are parsed to answer for one kernel; what lies further away than those is not found."""
SEARCH_S = 1.0
"""Seconds after which no further file is parsed, once `LEAST_FILES_READ` were: a wrapper may be used by thousands."""
LEAST_FILES_READ = 50
_KEPT_OUTLINES = 1024
_LONG_WALK_S, _REST = 0.02, 20.0
"""After a walk through the workspace that took this long, no other is made for so many times its duration."""


@dataclass(frozen=True)
class Way:
    """Something that can be run to see a kernel launched.

    `file` is workspace-relative; `through` names the functions between the entry and the kernel; `steps` counts the
    files between them; `alone` says that the recorder can run it, else a test runner must.
    """

    file: str
    entry: RunnableEntry
    through: tuple[str, ...] = ()
    steps: int = 0
    alone: bool = True

    @property
    def name(self) -> str:
        """What a person calls it: `test_softmax of tests/test_ops.py`."""
        what = {"main": "the main block", "module": "importing"}.get(self.entry.kind, self.entry.name)
        return f"{what} of {self.file}" if self.entry.kind != "module" else f"{what} {self.file}"

    @property
    def short(self) -> str:
        """The same in fewer words: `test_softmax`, `the main block`, `bench.py`."""
        if self.entry.kind == "function":
            return self.entry.name
        return "the main block" if self.entry.kind == "main" else self.file.rpartition("/")[2]

    @property
    def reason(self) -> str:
        """Why running it helps: `test_softmax calls softmax, which launches the kernel`."""
        if not self.through:
            return "it launches the kernel"
        return f"it calls {', which calls '.join(self.through)}, which launches the kernel"

    @property
    def command(self) -> str:
        """The command that runs it under `tritonforge trace`, to be typed in the workspace's root."""
        file = shlex.quote(self.file)
        if self.entry.kind == "function" and self.entry.name.rpartition(".")[2].startswith("test"):
            return f"tritonforge trace -- python -m pytest {file}::{self.entry.name.replace('.', '::')}"
        return f"tritonforge trace -- python {file}"


class WorkspaceIndex:
    """Answers what gets to a kernel, from the texts on disk. Safe for threads; reading is all it ever does."""

    def __init__(self, root: Path, store: Store | None = None) -> None:
        """Begin with what `store` remembers; nothing is read before the first question."""
        self.files = WorkspaceFiles(root)
        self._lock = threading.Lock()
        self._store = store
        self._loaded = False
        self._modules: Modules | None = None
        self._generation = -1
        self._outlines: OrderedDict[str, tuple[tuple[int, int], Outline]] = OrderedDict()
        self._watched = False
        self._stale = True
        self._look_again_at = 0.0

    def changed(self, paths: Iterable[Path]) -> None:
        """Take note of files that somebody else says have changed; from then on the workspace is walked only once."""
        with self._lock:
            self._watched = True
            if not self._stale:
                self.files.note(paths)

    def ways(self, kernel: Kernel, text: str | None = None) -> tuple[Way, ...]:
        """Return what can be run to see `kernel` launched, most useful first; `text` stands in for its file's.

        First what its own file offers, then tests that get to it, the nearest first, then benchmarks and programs.
        """
        with self._lock:
            self._refresh()
            search = _Search(self, kernel, text)
            search.run()
            return search.ways()

    def triton_files(self) -> dict[str, tuple[int, int]]:
        """Return the files that mention Triton, each with a stamp that changes when it does."""
        with self._lock:
            self._refresh()
            return {name: (one.mtime_ns, one.size) for name, one in self.files.files.items() if one.triton}

    def imports_of(self, file: str, text: str) -> tuple[str, ...]:
        """Return the files of the workspace that `text`, which is `file`'s, imports directly."""
        with self._lock:
            self._refresh()
            modules = self.modules()
            names = (name for one in outline(text).imports for name in (one.module, _module_of(one)))
            found = dict.fromkeys(modules.file_of(name, file) for name in names)
            return tuple(one for one in found if one is not None and one != file)

    def users_of(self, file: str, name: str) -> tuple[str, ...]:
        """Return the files of the workspace that import `file`, or something of it, and mention `name`."""
        with self._lock:
            self._refresh()
            mentioned = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b")
            importers = sorted(self.modules().importers(file))
            return tuple(one for one in importers if mentioned.search(self.files.read(one)))

    def modules(self) -> Modules:
        """Return who is called what; call it with the lock held."""
        if self._modules is None or self._generation != self.files.generation:
            self._modules, self._generation = Modules(self.files.files), self.files.generation
        return self._modules

    def outline_of(self, file: str) -> Outline:
        """Return the outline of a file as it is on disk; call it with the lock held."""
        scanned = self.files.files[file]
        stamp = (scanned.mtime_ns, scanned.size)
        kept = self._outlines.get(file)
        if kept is None or kept[0] != stamp or not scanned.mtime_ns:
            kept = self._outlines[file] = stamp, outline(self.files.read(file))
            while len(self._outlines) > _KEPT_OUTLINES:
                self._outlines.popitem(last=False)
        self._outlines.move_to_end(file)
        return kept[1]

    def _refresh(self) -> None:
        if self._store is not None and not self._loaded:
            self.files.load(self._store)
        self._loaded = True
        began = time.monotonic()
        if self._stale or (not self._watched and began >= self._look_again_at):
            self.files.refresh()
            self._stale = False
            # Asked about every kernel of a large workspace, do not walk through it for each.
            took = time.monotonic() - began
            self._look_again_at = began + (_REST * took if took > _LONG_WALK_S else 0.0)
        if self._store is not None:
            self.files.save(self._store)


@lru_cache(maxsize=4)
def _outline_of(text: str) -> Outline:
    """Outline a text that stands in for a file's: asked about each of its kernels, it is parsed once."""
    return outline(text)


@dataclass(frozen=True)
class _Step:
    """How a name leads to the kernel: the next (file, name) on the way, and how many files lie between."""

    file: str
    name: str
    steps: int
    direct: bool = False
    """Whether the name is merely another one for the next: an import or an alias."""


class _Search:
    """Which names of which files lead to one kernel, found from the kernel outwards."""

    def __init__(self, index: WorkspaceIndex, kernel: Kernel, text: str | None) -> None:
        self._index = index
        self._modules = index.modules()
        self._kernel = kernel
        self._own = _outline_of(text) if text is not None else None
        self._leading: dict[str, dict[str, _Step | None]] = {}
        self._carried: dict[str, set[str]] = {}
        self._read = 0
        self._until = time.monotonic() + SEARCH_S

    def run(self) -> None:
        kernel = self._kernel
        self._leading[kernel.file] = {kernel.name.partition(".")[0]: None}
        waiting: OrderedDict[str, None] = OrderedDict([(kernel.file, None)])
        while waiting:
            file, _ = waiting.popitem(last=False)
            self._within(file)
            # Tests first: where not every file can be looked at, these are what somebody would want to run.
            for importer in sorted(self._modules.importers(file), key=lambda name: (not _looks_run(name), name)):
                if self._may_read(importer) and self._take_over(importer, file):
                    waiting[importer] = None

    def _may_read(self, file: str) -> bool:
        if file in self._leading or self._read < LEAST_FILES_READ:
            return True
        return self._read < MOST_FILES_READ and time.monotonic() < self._until

    def _outline(self, file: str) -> Outline:
        if file == self._kernel.file and self._own is not None:
            return self._own
        return self._index.outline_of(file) if file in self._index.files.files else Outline()

    def _within(self, file: str) -> None:
        """Add the definitions of `file` that use a name that leads to the kernel, until there are no more."""
        names = self._leading[file]
        units = self._outline(file).units
        grown = True
        while grown:
            grown = False
            for unit in units:
                if not unit.name or unit.name in names or unit.jit:
                    continue
                used = self._used(unit.uses, file)
                if used is not None:
                    names[unit.name] = _Step(*used, steps=self._steps(*used))
                    grown = True

    def _used(self, uses: frozenset[str], file: str) -> tuple[str, str] | None:
        """Return the (file, name) that leads to the kernel and is used; the nearest of several."""
        names = self._leading.get(file, {})
        by_first: dict[str, list[str]] = {}
        for use in uses:
            by_first.setdefault(use.partition(".")[0], []).append(use)
        found = [(file, first) for first in by_first if first in names]
        for imported in self._outline(file).imports:
            if imported.symbol != "*" and imported.local in by_first:
                found += self._through_module(imported, by_first[imported.local], file)
        return min(found, key=lambda place: (self._steps(*place), place), default=None)

    def _through_module(self, imported: Imported, uses: Iterable[str], file: str) -> list[tuple[str, str]]:
        """Return what is used as `module.name`, where `imported` is that module or a package around it.

        `uses` are those that begin with its name.
        """
        module = _module_of(imported)
        found = []
        for use in uses:
            rest = use.split(".")[1:]
            at = module
            while rest:
                target = self._modules.file_of(at, file)
                if target is not None and rest[0] in self._leading.get(target, {}):
                    found.append((target, rest[0]))
                at = f"{at}.{rest.pop(0)}"
        return found

    def _take_over(self, importer: str, file: str) -> bool:
        """Note which names of `importer` lead to the kernel by way of `file`; tells whether any is new."""
        names = self._leading[file]
        scanned = self._index.files.files[importer]
        starred = any(m.endswith(".*") and self._modules.file_of(m[:-2], importer) == file for m in scanned.imports)
        if importer not in self._leading and not starred and not importer.endswith("__init__.py"):
            wanted = sorted({*names, *self._carried.get(file, ())})
            mentioned = re.compile(rb"\b(?:" + b"|".join(re.escape(n.encode()) for n in wanted) + rb")\b")
            if not mentioned.search(self._index.files.read(importer)):
                return False
        known = self._leading.get(importer)
        if known is None:
            self._read += 1
            known = self._leading[importer] = {}
        before = len(known)
        step = 0 if file.endswith("__init__.py") else 1
        for imported in self._outline(importer).imports:
            if self._modules.file_of(imported.module, importer) != file:
                continue
            taken = [n for n in names if not n.startswith("_") and n != MAIN] if imported.symbol == "*" else []
            if imported.symbol in names:
                known.setdefault(
                    imported.local, _Step(file, imported.symbol, self._steps(file, imported.symbol) + step, direct=True)
                )
            for name in taken:
                known.setdefault(name, _Step(file, name, self._steps(file, name) + step, direct=True))
        self._within(importer)
        return self._carries(importer, file) or len(known) > before

    def _carries(self, importer: str, file: str) -> bool:
        """Note that a package has the module `file` as an attribute: who imports the package may reach through it.

        Tells whether that adds a name.
        """
        if not importer.endswith("__init__.py"):
            return False
        as_module = any(
            imported.symbol not in (None, "*") and self._modules.file_of(_module_of(imported), importer) == file
            for imported in self._outline(importer).imports
        )
        if not as_module:
            return False
        carried = self._carried.setdefault(importer, set())
        before = len(carried)
        carried |= {*self._leading[file], *self._carried.get(file, ())}
        return len(carried) > before

    def _steps(self, file: str, name: str) -> int:
        step = self._leading.get(file, {}).get(name)
        return step.steps if step is not None else 0

    def _through(self, file: str, name: str) -> tuple[str, ...]:
        """Return the functions from (file, name) to the kernel, the kernel itself left out."""
        found: list[str] = []
        seen = set()
        step = self._leading[file].get(name)
        while step is not None and (file, name) not in seen:
            seen.add((file, name))
            if not step.direct and name != MAIN:
                found.append(name)
            file, name = step.file, step.name
            step = self._leading[file].get(name)
        return tuple(found)

    def ways(self) -> tuple[Way, ...]:
        found: list[Way] = []
        for file in self._leading:
            for outlined in self._outline(file).entries:
                used = self._used(outlined.uses, file)
                if used is not None:
                    found.append(self._way(file, outlined, used))
        return tuple(sorted(found, key=self._order))

    def _way(self, file: str, outlined: OutlinedEntry, used: tuple[str, str]) -> Way:
        own = outlined.entry.name
        through = tuple(name for name in self._through(*used) if name != own)
        steps = self._steps(*used) + (used[0] != file)
        return Way(file, outlined.entry, through, steps, outlined.alone)

    def _order(self, way: Way) -> tuple[object, ...]:
        name, kernel = way.entry.name.lower(), self._kernel
        kind = 1 if name.startswith("bench") else 2 if way.entry.kind == "main" or name == "main" else 0
        stems = {kernel.file.rpartition("/")[2][:-3], kernel.simple_name.lower(), *(t.lower() for t in way.through)}
        named = any(stem in name or stem in way.file.rpartition("/")[2] for stem in stems if len(stem) > 2)
        return (
            way.file != kernel.file,
            not way.alone,
            kind,
            way.steps,
            not named,
            -shared(way.file, kernel.file),
            way.file,
            way.entry.line,
        )


def _looks_run(file: str) -> bool:
    """Tell whether a file is called like a test or a benchmark."""
    return file.rpartition("/")[2].startswith(("test", "bench")) or file.startswith(("test", "bench"))


def _module_of(imported: Imported) -> str:
    """Return the module that an import binds, if it binds one."""
    if imported.symbol is None:
        return imported.module
    return f"{imported.module}{'' if imported.module.endswith('.') else '.'}{imported.symbol}"
