"""One disk cache of compiled kernels for all lanes: what one has compiled, no other compiles again.

Lanes without a GPU compile for the architecture of the GPU, side by side, and know the key that Triton itself would use
there. So a kernel that is going to be run or timed has usually been compiled already.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tritonforge.worker.asm_lines import whole_assembly_lines
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.places import cache_folder, no_room

_VARIABLE = "TRITON_CACHE_DIR"


def require_cache() -> None:
    """See that there is a cache to compile into.

    Raises:
        JobFailed: `environment`, when it cannot be written.
    """
    _folder()


def _folder(*parts: str) -> Path:
    try:
        return cache_folder("triton", *parts)
    except OSError as error:
        raise JobFailed("environment", no_room(error)) from error


@contextlib.contextmanager
def cache_of(file: str) -> Iterator[None]:
    """Compile with the disk cache of the kernel's own file.

    Triton's key leaves the path out, but line information in a binary has it: a copy of the file elsewhere would get
    the other's. Nor does it know of `whole_assembly_lines`: what was compiled without is kept elsewhere.

    Raises:
        JobFailed: `environment`, when that cache cannot be written.
    """
    digest = hashlib.sha256(os.path.realpath(file).encode()).hexdigest()[:16]
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(_folder(f"{digest}-lines"))
    try:
        with whole_assembly_lines():
            yield
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before


def share_compilations() -> None:
    """Have this process look for kernels in that cache before it compiles them. Does nothing the second time.

    Kernels take the compiler when they are first launched, so those launched before keep to Triton's own cache.
    """
    import triton.compiler

    if hasattr(triton.compiler.compile, "original"):
        return
    original = triton.compiler.compile

    def compile_once(src: Any, *args: Any, **kwargs: Any) -> Any:
        code = getattr(getattr(getattr(src, "fn", None), "fn", None), "__code__", None)
        if code is None:  # not a function, but the text of some representation
            return original(src, *args, **kwargs)
        with cache_of(code.co_filename):
            return original(src, *args, **kwargs)

    compile_once.original = original  # type: ignore[attr-defined]
    triton.compiler.compile = compile_once
