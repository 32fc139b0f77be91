"""Line tables that charge a load to the line that loads, also where the compiler counts lines of assembly on from it.

Triton 3.9 writes a `.loc` for every line of the assembly that it puts in for a load, a store or an atomic, each with a
line number one higher. The line table of the binary then charges an access to one of the user's lines below it. The
instructions are the same without those.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

_BLOCK = re.compile(r"^[ \t]*// begin inline asm\n.*?^[ \t]*// end inline asm\n", re.MULTILINE | re.DOTALL)
_LOCATION = re.compile(r"^[ \t]*\.loc\s.*\n", re.MULTILINE)


def without_inner_locations(ptx: str) -> str:
    """Return PTX without the locations inside inline assembly: that before it holds for all of it."""
    return _BLOCK.sub(lambda block: _LOCATION.sub("", block[0]), ptx)


@contextlib.contextmanager
def whole_assembly_lines() -> Iterator[None]:
    """Compile with the locations inside inline assembly left out, as versions before 3.9 do."""
    try:
        from triton.backends.nvidia.compiler import CUDABackend
    except ImportError:
        yield
        return
    original = inspect.getattr_static(CUDABackend, "make_cubin", None)
    if not inspect.isfunction(original) or next(iter(inspect.signature(original).parameters)) != "self":
        yield  # 3.2: of before the change
        return

    def make_cubin(self: Any, src: Any, *rest: Any, **named: Any) -> Any:
        return original(self, without_inner_locations(src) if isinstance(src, str) else src, *rest, **named)

    CUDABackend.make_cubin = make_cubin
    try:
        yield
    finally:
        CUDABackend.make_cubin = original
