"""Where compiled kernels are launched from, and with what: read from the frame of Triton's own function."""

from __future__ import annotations

import inspect
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

OPTIONS = ("num_warps", "num_stages", "num_ctas")
"""Options of the compiler that any launch may be given."""


class Made(NamedTuple):
    """A launch as `Recorder.record` takes it."""

    kernel: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grid: Any


class Entrances:
    """The code that calls launchers: of `JITFunction.run`, and of what `CompiledKernel.__getitem__` returns."""

    def __init__(self, run: FunctionType, getitem: FunctionType) -> None:
        code = run.__code__
        names = code.co_varnames
        after = code.co_argcount + code.co_kwonlyargcount
        self._run, self._self, self._args, self._kwargs = code, names[0], names[after], names[after + 1]
        # What `run` puts into its keywords itself (`debug`).
        self._own = {name for name in code.co_consts if isinstance(name, str)} - set(OPTIONS)
        self._runners = tuple(const for const in getitem.__code__.co_consts if isinstance(const, CodeType))

    def made(self, frame: FrameType) -> Made | None:
        """Return the launch that a frame is about, None when it is not that of `JITFunction.run`."""
        if frame.f_code is not self._run:
            return None
        values = frame.f_locals
        kernel = values[self._self]
        own = self._own.difference(kernel.arg_names)
        kwargs = {name: value for name, value in values[self._kwargs].items() if name not in own}
        return Made(kernel, values[self._args], kwargs, values["grid"])

    def is_runner(self, frame: FrameType) -> bool:
        """Whether the frame is that of `compiled_kernel[grid](…)`."""
        return any(frame.f_code is code for code in self._runners)


def suits() -> bool:
    """Whether the installed Triton launches as this module expects."""
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    run, init, getitem = (
        JITFunction.run,
        vars(CompiledKernel).get("_init_handles"),
        vars(CompiledKernel).get("__getitem__"),
    )
    if not all(isinstance(function, FunctionType) for function in (run, init, getitem)):
        return False
    code = run.__code__
    kinds = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return (
        code.co_argcount == 1
        and set(code.co_varnames[1 : 1 + code.co_kwonlyargcount]) == {"grid", "warmup"}
        and code.co_flags & kinds == kinds
        and {"run", "function", "packed_metadata"} <= set(code.co_names)
        and "module" in getattr(init, "__code__", code).co_names
    )
