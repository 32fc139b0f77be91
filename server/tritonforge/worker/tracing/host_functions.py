"""Functions of the program that may be host functions: the user's own, or a library's that has to do with Triton."""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path
from types import CodeType

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
