"""Which file of a workspace an import means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from tritonforge.workload.index_files import Scanned


class Modules:
    """The modules of a set of files, under every name that a project may give them, and who imports whom.

    Which folders are on `sys.path` is not known, so a file goes by the dotted path from each folder above it that is no
    package: `src/lib/ops.py` is `lib.ops` (and `src.lib.ops`). Of several files of one name the nearest is meant.
    """

    def __init__(self, files: Mapping[str, Scanned]) -> None:
        """Name every file."""
        self._files = files
        self._by_name: dict[str, list[str]] = {}
        self._resolved: dict[tuple[str, str], str | None] = {}
        self._importers: dict[str, set[str]] | None = None
        packages = {name[: -len("/__init__.py")] for name in files if name.endswith("/__init__.py")}

        @cache
        def tops(folder: str) -> tuple[int, ...]:
            """Return at how many parts into `folder` a dotted name may begin."""
            parts = folder.split("/") if folder else []
            at = len(parts)
            while at and "/".join(parts[:at]) in packages:
                at -= 1
            return tuple(range(at + 1))

        for name in files:
            folder, _, last = name.rpartition("/")
            parts = name[:-3].split("/")
            if last == "__init__.py":
                parts.pop()
                folder = folder.rpartition("/")[0] if folder in packages else folder
            for start in tops(folder):
                if parts[start:]:
                    self._by_name.setdefault(".".join(parts[start:]), []).append(name)

    def file_of(self, module: str, importer: str) -> str | None:
        """Return the file that `module` (with its dots, when relative) is for `importer`; None for none of ours."""
        key = (module, importer.rpartition("/")[0])
        if key not in self._resolved:
            self._resolved[key] = self._find(module, importer)
        return self._resolved[key]

    def _find(self, module: str, importer: str) -> str | None:
        if module.startswith("."):
            name = module.lstrip(".")
            folder = importer.split("/")[:-1]
            up = len(module) - len(name) - 1
            if up > len(folder):
                return None
            base = "/".join([*folder[: len(folder) - up], *(name.split(".") if name else [])])
            options = (f"{base}.py", f"{base}/__init__.py") if name else (f"{base}/__init__.py".lstrip("/"),)
            return next((option for option in options if option in self._files), None)
        found = self._by_name.get(module)
        if not found:
            return None
        # A file that imports its own name means somebody else's: `ops.py` with `from ops import …` beside it.
        others = [file for file in found if file != importer] or found
        return (
            max(others, key=lambda file: (shared(file, importer), -len(file), file)) if len(others) > 1 else others[0]
        )

    def importers(self, file: str) -> Iterable[str]:
        """Return the files that import `file`, or something from it."""
        if self._importers is None:
            self._importers = {}
            for name, scanned in self._files.items():
                for module in scanned.imports:
                    found = self.file_of(module.removesuffix(".*"), name)
                    if found is not None and found != name:
                        self._importers.setdefault(found, set()).add(name)
        return self._importers.get(file, ())


def shared(one: str, other: str) -> int:
    """Return how many folders two files have in common, from the root on."""
    count = 0
    for a, b in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count
