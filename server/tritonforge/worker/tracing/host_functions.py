"""Functions of the program that may be host functions: the user's own, or a library's that has to do with Triton."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from tritonforge.worker.launching import is_machinery
from tritonforge.worker.places import in_workspace

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_ODD = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def may_launch(code: CodeType, root: str) -> bool:
    """Tell whether a function of this code may be called again to repeat launches; `root` is the workspace."""
    file = code.co_filename
    if code.co_name.startswith("<") or code.co_flags & _ODD or file.startswith("<"):
        return False
    if file.startswith(_OURS) or is_machinery(file):
        return False
    return in_workspace(file, root) or _mentions_triton(file)


@functools.lru_cache(maxsize=4096)
def _mentions_triton(file: str) -> bool:
    try:
        with open(file, "rb") as text:  # noqa: PTH123 - many files, once each
            return b"triton" in text.read()
    except OSError:
        return False


class Functions:
    """Finds the function that a frame runs, by an index of each module that is made when it is first asked for."""

    def __init__(self) -> None:
        self._index: dict[CodeType, tuple[str, FunctionType]] = {}

    def of(self, frame: FrameType) -> tuple[str, FunctionType] | None:
        """Return the function of a frame and its path from its module, when attribute access reaches it there."""
        code = frame.f_code
        if code not in self._index:
            name = frame.f_globals.get("__name__")
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is not None and vars(module) is frame.f_globals:
                self._index_module(module)
        return self._index.get(code)

    def _index_module(self, module: ModuleType) -> None:
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == module.__name__:
                for inner, member in list(vars(value).items()):
                    self._index_value(f"{name}.{inner}", getattr(member, "__func__", member), module)
            else:
                self._index_value(name, value, module)

    def _index_value(self, path: str, value: Any, module: ModuleType) -> None:
        # Through wrappers (`functools.wraps`): repeating goes through them as well.
        for _ in range(8):
            if isinstance(value, FunctionType) and value.__globals__ is vars(module):
                self._index.setdefault(value.__code__, (path, value))
            value = vars(value).get("__wrapped__") if isinstance(value, FunctionType) else None
            if value is None:
                return
