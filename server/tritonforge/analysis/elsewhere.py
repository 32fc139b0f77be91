"""Launches of a kernel in another file than its own, which imports it."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import lru_cache

from tritonforge.analysis.discovery import JitFunction, KernelResolver, find_jit_functions
from tritonforge.analysis.hashing import CodeHasher
from tritonforge.analysis.launches import Tuned, describe_launch, find_launches
from tritonforge.analysis.names import dotted
from tritonforge.analysis.origins import Origins
from tritonforge.analysis.scopes import ModuleIndex, Scope, index_module
from tritonforge.analysis.text import SourceText
from tritonforge.analysis.tuning import read_autotune, read_heuristics
from tritonforge.analysis.unit import Unit
from tritonforge.domain.kernel import Kernel, LaunchSite
from tritonforge.domain.source import Range


def launches_elsewhere(kernel: Kernel, text: str, file: str, importing: str) -> tuple[LaunchSite, ...]:
    """Return the launches of `kernel` that another file makes, in source order.

    Args:
        kernel: as it was found in its own file.
        text: of the kernel's file.
        file: the other file, by its path in the workspace, as the kernel's is.
        importing: that file's text.

    Imports are followed by their paths alone: `from .kernels import add_kernel as k`, `import lib.kernels`. A name that
    a package hands on is not. Empty for text that cannot be parsed.
    """
    if kernel.simple_name not in importing or "." in kernel.name:
        return ()
    return _found((kernel.file, kernel.name, kernel.range), text, file, importing)


@lru_cache(maxsize=16)
def _found(kernel: tuple[str, str, Range], text: str, file: str, importing: str) -> tuple[LaunchSite, ...]:
    # A search asks about the same few texts again and again.
    try:
        defining, tree = ast.parse(text), ast.parse(importing)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    jits = find_jit_functions(index_module(defining)).values()
    own, name, lines = kernel
    jit = next((j for j in jits if j.name == name and lines.start.line <= j.node.lineno <= lines.end.line), None)
    if jit is None:
        return ()
    here, index = SourceText(importing), index_module(tree)
    unit = Unit(file, here, index, {})
    launches = find_launches(unit, _Imported(index, jit, file, own))
    tuned = Tuned(read_autotune(jit, SourceText(text)), read_heuristics(jit))
    origins = Origins(index, here)
    sites = [describe_launch(launch, tuned, unit, origins, own=False) for launch in launches]
    hasher, hashed = CodeHasher(index, here), []
    for launch, site in zip(launches, sites, strict=True):
        host = launch.at.scope.function()
        hashed.append(replace(site, site_hash=hasher.host(host.node if host is not None else launch.at.statement)))
    hasher.restore()
    return tuple(hashed)


class _Imported(KernelResolver):
    """Knows one kernel, by what a file that imports it calls it."""

    def __init__(self, index: ModuleIndex, kernel: JitFunction, file: str, own: str) -> None:
        super().__init__(index, {})
        self._kernel = kernel
        self._file, self._own = file, own

    def _dispatch(self, node: ast.expr, scope: Scope, depth: int) -> list[JitFunction]:
        if isinstance(node, ast.Name | ast.Attribute):
            module, _, name = (dotted(node, scope) or "").rpartition(".")
            if name == self._kernel.name and module_means(module, self._file, self._own):
                return [self._kernel]
        return super()._dispatch(node, scope, depth)


def module_means(module: str, importer: str, file: str) -> bool:
    """Tell whether `module`, with its dots where it is relative, may be `file` when `importer` imports it."""
    name = module.lstrip(".")
    wanted = name.split(".") if name else []
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    if module.startswith("."):
        folder = importer.split("/")[:-1]
        dots = len(module) - len(name)
        # `from . import kernels` and `from .. import kernels` both read as one dot more than the folder they mean.
        ups = [up for up in (dots - 1, dots - 2) if 0 <= up <= len(folder)]
        return any(parts == [*folder[: len(folder) - up], *wanted] for up in ups)
    return bool(wanted) and parts[-len(wanted) :] == wanted
