"""Load a `Program`: the user's file as a module, with texts from overlays in place of what is on disk.

Several programs that differ only in their overlays live in one lane at a time. Each keeps its own copies of the
workspace modules; `Loaded.active()` puts them (and the source lines that `inspect` and Triton read) in force.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from tritonforge.domain.messages import Program
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.operators import of_program
from tritonforge.worker.places import absolute, in_workspace, real_path, relative

_RELATIVE_IMPORT = re.compile(r"^\s*from\s+\.", re.MULTILINE)
_loaded: dict[str, Loaded] = {}
_KEPT = 24


class Modules(dict[str, ModuleType]):
    """The modules of one loaded program; `number` tells programs apart."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.number = next(Modules._numbers)


@dataclass
class Loaded:
    """A loaded program: its main module and every workspace module that loading and running it imported."""

    program: Program
    path: str
    digest: str
    overlays: Mapping[str, str]
    module: ModuleType
    modules: Modules = field(default_factory=Modules)
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of every file that was imported from disk: when it was written, and its size."""

    @contextlib.contextmanager
    def active(self) -> Iterator[ModuleType]:
        """Make this program's modules and sources the ones that imports, `inspect` and Triton see."""
        with _in_force(self.program.root, self.overlays, self.modules):
            yield self.module
        self.note_files()

    def note_files(self) -> None:
        """Remember the state of the files that were imported since."""
        for module in self.modules.values():
            path = getattr(module, "__file__", None)
            if path and path not in self.stamps and real_path(path) not in self.overlays:
                stamp = _stamp(path)
                if stamp is not None:
                    self.stamps[path] = stamp

    def is_current(self) -> bool:
        """Tell whether every file that was imported is still as it was."""
        return all(_stamp(path) == stamp for path, stamp in self.stamps.items())

    def module_of(self, file: str) -> ModuleType:
        """Return the module of a workspace file (relative to the root or absolute); call it while active."""
        path = absolute(file, self.program.root)
        if path == self.path:
            return self.module
        for module in list(sys.modules.values()):
            origin = getattr(module, "__file__", None)
            if origin and os.path.realpath(origin) == path:
                return module
        return _import_file(path, self.program.root, self.overlays)


def digest_of(program: Program) -> str:
    """Return a hash of what the program's own text is: its root, file, overlays and the file on disk."""
    h = hashlib.sha256(f"{program.root}\0{program.file}".encode())
    for name, text in sorted(program.overlays):
        h.update(f"\0{name}\0{text}".encode())
    with contextlib.suppress(OSError):
        h.update(Path(absolute(program.file, program.root)).read_bytes())
    return h.hexdigest()


def overlays_of(program: Program) -> dict[str, str]:
    """Return the overlay texts by real absolute path."""
    return {absolute(name, program.root): text for name, text in program.overlays}


def load(program: Program) -> Loaded:
    """Load the program's file as a module (not as `__main__`), or return it when this lane has it already.

    Raises:
        JobFailed: `user-error`, when the file cannot be read, is no Python, or raises while it is imported.
    """
    digest = digest_of(program)
    kept = _loaded.pop(digest, None)
    if kept is not None and kept.is_current():
        _loaded[digest] = kept
        return kept
    path, overlays = absolute(program.file, program.root), overlays_of(program)
    _check_text(path, program, overlays)
    modules = Modules()
    with _in_force(program.root, overlays, modules):
        try:
            module = _import_file(path, program.root, overlays)
        except (Exception, SystemExit) as error:
            raise_user_error(error, program)
    loaded = Loaded(program, path, digest, overlays, module, modules)
    loaded.note_files()
    _loaded[digest] = loaded
    while len(_loaded) > _KEPT:
        del _loaded[next(iter(_loaded))]
    return loaded


def reload(program: Program) -> Loaded:
    """Load the program anew, so that what its file does while it is imported happens again."""
    _loaded.pop(digest_of(program), None)
    return load(program)


def run_as_main(program: Program) -> Loaded:
    """Run the program's file as `__main__`, the way `python FILE` would, and return what it left.

    Raises whatever the user's code raises; `SystemExit` with status 0 or None ends it normally.
    """
    path, overlays = absolute(program.file, program.root), overlays_of(program)
    _check_text(path, program, overlays)
    module = ModuleType("__main__")
    loaded = Loaded(program, path, digest_of(program), overlays, module)
    with loaded.active():
        module.__file__ = path
        name, top = _module_name(path, program.root, overlays.get(path) or "")
        module.__package__ = name.rpartition(".")[0] or None
        previous = sys.modules.get("__main__")
        sys.modules["__main__"] = module
        _prepend(top)
        try:
            text = overlays.get(path)
            source = text if text is not None else importlib.util.decode_source(Path(path).read_bytes())
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        except SystemExit as stop:
            if stop.code not in {None, 0}:
                raise
        finally:
            if previous is not None:
                sys.modules["__main__"] = previous
    return loaded


def raise_user_error(error: BaseException, program: Program, doing: str = "") -> NoReturn:
    """Turn an exception of the user's code into a typed failure with the line of theirs that raised it."""
    if isinstance(error, JobFailed):
        raise error
    file, line = position_of(error, program)
    said = " ".join(str(error).split())[:400]
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, SystemExit):
        what = f"the program ended itself with status {error.code!r}"
    message = f"{doing}{what}"
    raise JobFailed("user-error", message, file=file, line=line, detail="".join(traceback.format_exception(error)))


def position_of(error: BaseException, program: Program) -> tuple[str | None, int | None]:
    """Return the innermost workspace file and line of an exception, as written in messages."""
    path = absolute(program.file, program.root)
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return relative(error.filename, program.root), error.lineno
    best: tuple[str | None, int | None] = (relative(path, program.root), None)
    for frame in traceback.extract_tb(error.__traceback__):
        if in_workspace(frame.filename, program.root) or os.path.realpath(frame.filename) == path:
            best = (relative(frame.filename, program.root), frame.lineno)
    return best


def _check_text(path: str, program: Program, overlays: Mapping[str, str]) -> None:
    if path not in overlays and not Path(path).is_file():
        raise JobFailed("user-error", f"{program.file} is not there.", file=program.file)


@contextlib.contextmanager
def _in_force(root: str, overlays: Mapping[str, str], modules: Modules) -> Iterator[None]:
    """Swap in `modules` and the overlays; on the way out keep in `modules` what was imported meanwhile."""
    sys.dont_write_bytecode = True
    outer = {name: m for name, m in list(sys.modules.items()) if _is_workspace_module(m, root, overlays)}
    for name in outer:
        del sys.modules[name]
    foreign = dict(sys.modules)
    sys.modules.update(modules)
    lines = {path: linecache.cache.get(path) for path in overlays}
    for path, text in overlays.items():
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    finder = _OverlayFinder(overlays)
    sys.meta_path.insert(0, finder)
    path_before, argv, cwd = list(sys.path), sys.argv, Path.cwd()
    with contextlib.suppress(OSError):
        os.chdir(root)
    # A test imports the project by the name that it has from the root (or from `src`), wherever the test itself lies.
    sys.path += [f for f in _project_folders(root) if f not in sys.path]
    importlib.invalidate_caches()
    try:
        with of_program(modules.number):
            yield
    finally:
        sys.meta_path.remove(finder)
        sys.path[:], sys.argv = path_before, argv
        with contextlib.suppress(OSError):
            os.chdir(cwd)
        modules.clear()
        here = [(name, m) for name, m in list(sys.modules.items()) if foreign.get(name) is not m]
        modules.update({name: m for name, m in here if _is_workspace_module(m, root, overlays)})
        for name in modules:
            del sys.modules[name]
        sys.modules.update(outer)
        for path, entry in lines.items():
            linecache.cache.pop(path, None)
            if entry is not None:
                linecache.cache[path] = entry


def _project_folders(root: str) -> list[str]:
    base = Path(os.path.realpath(Path(root).expanduser()))
    return [str(folder) for folder in (base, base / "src") if folder.is_dir()]


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _is_workspace_module(module: Any, root: str, overlays: Mapping[str, str]) -> bool:
    name = str(getattr(module, "__name__", ""))
    if name == "__main__" or name.startswith("tritonforge."):
        return False
    if not isinstance(module, ModuleType):
        return False
    file = module.__dict__.get("__file__")
    if file is None:
        # A namespace package: its folders say whose it is. Lazy modules must not be asked for attributes.
        paths = module.__dict__.get("__path__")
        return isinstance(paths, Iterable) and any(in_workspace(str(p), root) for p in list(paths))
    return in_workspace(str(file), root) or (bool(overlays) and real_path(str(file)) in overlays)


def _import_file(path: str, root: str, overlays: Mapping[str, str]) -> ModuleType:
    text = overlays.get(path)
    if text is None:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    name, top = _module_name(path, root, text)
    _prepend(top)
    sys.argv = [path]
    if "." in name or Path(path).name == "__init__.py":
        return importlib.import_module(name)
    present = sys.modules.get(name)
    if present is not None and os.path.realpath(getattr(present, "__file__", None) or "") == path:
        return present
    # A file may be called like an installed module (`random.py`): it must not take that name away from others.
    if present is not None or name in sys.stdlib_module_names:
        name = f"_tritonforge_{name}"
    loader: importlib.abc.Loader = (
        _OverlayLoader(name, path, overlays[path])
        if path in overlays
        else importlib.machinery.SourceFileLoader(name, path)
    )
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _module_name(path: str, root: str, text: str) -> tuple[str, str]:
    """Return the name under which `path` is to be imported, and the folder that must be on `sys.path` for it."""
    file = Path(path)
    parts = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) == 1 and _RELATIVE_IMPORT.search(text) and in_workspace(path, root):
        # Relative imports without an `__init__.py`: the folders are namespace packages below the root.
        inside = Path(path).relative_to(os.path.realpath(root))
        if len(inside.parts) > 1 and all(p.isidentifier() for p in inside.with_suffix("").parts):
            return ".".join(inside.with_suffix("").parts), os.path.realpath(root)
    return ".".join(parts), str(folder)


def _prepend(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


class _OverlayLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_data(self, path: str) -> bytes:  # noqa: ARG002 - the importer's signature
        return self._text.encode()

    def get_code(self, fullname: str) -> Any:  # noqa: ARG002 - the importer's signature
        return compile(self._text, self.path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str:  # noqa: ARG002 - the importer's signature
        return self._text


class _OverlayFinder(importlib.abc.MetaPathFinder):
    """Answers imports whose file is overlaid, and leaves every other to the finders behind it."""

    def __init__(self, overlays: Mapping[str, str]) -> None:
        self._overlays = overlays

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> Any:
        if not self._overlays:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        origin = os.path.realpath(spec.origin) if spec is not None and spec.origin else None
        if origin is None:
            for folder in path if path is not None else sys.path:
                candidate = os.path.realpath(Path(folder, fullname.rpartition(".")[2] + ".py"))
                if candidate in self._overlays:
                    origin = candidate
        if origin is None or origin not in self._overlays:
            return None
        loader = _OverlayLoader(fullname, origin, self._overlays[origin])
        packaged = spec.submodule_search_locations if spec is not None else None
        return importlib.util.spec_from_file_location(
            fullname, origin, loader=loader, submodule_search_locations=packaged
        )
