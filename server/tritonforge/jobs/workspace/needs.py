"""What a source file needs of its workspace, read off its text: modules that it imports, files that it names."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_LONGEST = 300
_IMPORTERS = frozenset(["import_module", "__import__", "importorskip"])
_JOINERS = frozenset(["join", "joinpath", "Path", "PurePath"])


@dataclass(frozen=True)
class Needs:
    """`modules`: (level, dotted name, names imported from it). `paths`: parts of paths as they are joined, with `/`."""

    modules: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    paths: tuple[str, ...] = ()


@lru_cache(maxsize=512)
def needs_of(text: str) -> Needs:
    """Return what the source `text` needs; nothing when it is no Python, which its loader will say better."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Needs()
    modules: dict[tuple[int, str, tuple[str, ...]], None] = {}
    paths: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(((0, alias.name, ()), None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules[node.level, node.module or "", tuple(alias.name for alias in node.names)] = None
        elif isinstance(node, ast.Call) and _called(node) in _IMPORTERS:
            modules.update(((0, text, ()), None) for arg in node.args if (text := _text(arg)))
        elif isinstance(node, ast.Constant) and (text := _text(node)):
            paths[text] = None
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            paths.update((joined, None) for joined in _joined(list(_operands(node))))
        elif isinstance(node, ast.Call) and _called(node) in _JOINERS:
            paths.update((joined, None) for joined in _joined(node.args))
    return Needs(tuple(modules), tuple(paths))


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _text(node: ast.expr) -> str:
    text = node.value if isinstance(node, ast.Constant) else ""
    return text if isinstance(text, str) and len(text) <= _LONGEST else ""


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield from _operands(node.left)
        yield from _operands(node.right)
    else:
        yield node


def _joined(parts: list[ast.expr]) -> Iterator[str]:
    """The texts that end a joined path: `HERE / "data" / "x.json"` names `data/x.json`."""
    texts: list[str] = []
    for part in reversed(parts):
        if not (isinstance(part, ast.Constant) and isinstance(part.value, str)):
            break
        texts.insert(0, part.value)
    if texts:
        yield "/".join(texts)


def modules_in(root: Path, file: Path, needs: Needs) -> Iterator[Path]:
    """Yield the files under `root` that the imports of `file` mean, packages' `__init__.py` with them."""
    top = file.parent
    while top != root and (top / "__init__.py").is_file():
        top = top.parent
    bases = list(dict.fromkeys((file.parent, top, root, root / "src")))
    for level, module, names in needs.modules:
        parts = [part for part in module.split(".") if part]
        for start in bases if not level else file.parents[level - 1 : level]:
            found = list(_module(start, parts, names))
            yield from found
            if found and not level:
                break


def _module(start: Path, parts: list[str], names: tuple[str, ...]) -> Iterator[Path]:
    folder = start
    for depth, part in enumerate(parts):
        plain = folder / f"{part}.py"
        folder /= part
        if (folder / "__init__.py").is_file():
            yield folder / "__init__.py"
        elif plain.is_file():
            if depth == len(parts) - 1:
                yield plain
            return
        elif not folder.is_dir():
            return
    if not parts and (folder / "__init__.py").is_file():
        yield folder / "__init__.py"
    for name in names:
        if name == "*":
            continue
        if (folder / f"{name}.py").is_file():
            yield folder / f"{name}.py"
        elif (folder / name / "__init__.py").is_file():
            yield folder / name / "__init__.py"


def named_in(root: Path, file: Path, needs: Needs) -> Iterator[Path]:
    """Yield the files under `root` that texts of `file` name, from its folder or one above it."""
    folders = [file.parent]
    while folders[-1] != root and root in folders[-1].parents:
        folders.append(folders[-1].parent)
    for text in needs.paths:
        if "\0" in text or "\n" in text or text.startswith(("/", "~")) or text.endswith((".", "/")):
            continue
        for folder in folders:
            path = folder / text
            try:
                if path.is_file():
                    yield Path(os.path.normpath(path))
                    break
            except (OSError, ValueError):
                break
