"""Take launches out of Triton's hands: what was launched, from where, with which options, over which grid."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

from tritonforge.domain.launch import CallSite, RecordedLaunch, Scalar
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.places import relative
from tritonforge.worker.values import Describing, describe

_OURS = str(Path(__file__).resolve().parent) + os.sep
_DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
_NOT_FOR_THIS_DEVICE = frozenset(["OutOfResources", "CompileTimeAssertionFailure", "PTXASError"])
"""What an autotuner takes for a configuration that cannot be chosen."""
_NOT_OPTIONS = {"debug", "instrumentation_mode", "ir_override", "stream", "device", "device_type", "warmup"}


@dataclass
class LaunchEvent:
    """One launch as it reached Triton: the jitted function, its bound parameters, options and resolved grid."""

    kernel: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    bound: dict[str, Any]
    options: dict[str, Any]
    grid: tuple[int, int, int]
    frame: FrameType | None
    autotuned: bool

    @property
    def name(self) -> str:
        """Return the kernel's qualified name."""
        return qualified_name(self.kernel)


Taker = Callable[[LaunchEvent], Any]
"""Gets each launch in place of the GPU; what it returns is what `kernel[grid](…)` returns."""


def qualified_name(kernel: Any) -> str:
    """Return the kernel function's qualified name without `<locals>`."""
    return str(kernel.fn.__qualname__).replace("<locals>.", "")


@contextlib.contextmanager
def taking_launches(take: Taker, turn: int = 0) -> Iterator[None]:
    """Hand every launch of a `JITFunction` to `take`; autotuners use the configuration of `turn` without measuring."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    patches = Patches()
    tuned = Tuned()

    def run(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:
        if warmup:
            return CompiledStub(kwargs)
        for hook in getattr(self, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        bound, options = bind(self, args, kwargs)
        resolved = resolve_grid(grid, bound)
        if 0 in resolved:
            return CompiledStub(kwargs)
        event = LaunchEvent(self, args, kwargs, bound, options, resolved, user_frame(), tuned.depth > 0)
        result = take(event)
        return CompiledStub(kwargs) if result is None else result

    run.original = JITFunction.run  # type: ignore[attr-defined]  # what compiles, for those who want that of a launch
    patches.set(JITFunction, "run", run)
    patches.set(Autotuner, "run", functools.partialmethod(run_in_turn, tuned, turn))
    try:
        yield
    finally:
        patches.restore()


@contextlib.contextmanager
def first_configs(turn: int = 0) -> Iterator[None]:
    """Make autotuners use their first configuration, or that of `turn`, without measuring; launches are left alone."""
    from triton.runtime.autotuner import Autotuner

    patches = Patches()
    patches.set(Autotuner, "run", functools.partialmethod(run_in_turn, Tuned(), turn))
    try:
        yield
    finally:
        patches.restore()


@dataclass
class Tuned:
    """How many autotuners are on the stack: what is launched below one is tuned."""

    depth: int = 0


def configs_in_turn(tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the configurations of an autotuner after its own pruning, where that works, its first one first.

    Then come the first of each other choice of constexprs, and then those that differ in nothing but options.
    """
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    listed: list[Any] = []
    with contextlib.suppress(Exception):
        listed = list(tuner.prune_configs(kwargs))
    listed = listed or list(tuner.configs)
    distinct: dict[str, Any] = {}
    for config in listed:
        distinct.setdefault(repr(sorted(config.kwargs.items())), config)
    first = {id(config) for config in distinct.values()}
    return [*distinct.values(), *(config for config in listed if id(config) not in first)]


def run_in_turn(self: Any, tuned: Tuned, turn: int, *args: Any, **kwargs: Any) -> Any:
    """Stand in for `Autotuner.run`: run the configuration of `turn`, counted round and round, and measure none.

    One that the device has no room for, or that does not compile, is passed over, as an autotuner does.
    """
    listed = configs_in_turn(self, args, kwargs)
    nargs = self.nargs
    tuned.depth += 1
    try:
        for more in range(len(listed)):
            config = listed[(turn + more) % len(listed)]
            self.best_config = config
            try:
                if config.pre_hook is not None:
                    config.pre_hook({**nargs, **kwargs, **config.all_kwargs()})
                return self.fn.run(*args, **kwargs, **config.all_kwargs())
            except Exception as error:
                if more + 1 == len(listed) or type(error).__name__ not in _NOT_FOR_THIS_DEVICE:
                    raise
    finally:
        tuned.depth -= 1
        self.nargs = None


class CompiledStub:
    """Stands for the compiled kernel that a launch or `warmup` returns; figures are those of a middling kernel."""

    n_regs = 64
    n_spills = 0
    n_max_threads = 1024

    def __init__(self, options: dict[str, Any]) -> None:
        self.metadata = SimpleNamespace(
            shared=16384,
            num_warps=options.get("num_warps", 4),
            num_stages=options.get("num_stages", 3),
            num_ctas=options.get("num_ctas", 1),
            name="",
        )
        self.asm: dict[str, str] = {}
        self.function = self.module = None

    def _init_handles(self) -> None:
        return None

    def run(self, *_args: Any, **_kwargs: Any) -> None:
        """Launch nothing."""

    def __getitem__(self, _grid: Any) -> Callable[..., None]:
        return lambda *_a, **_k: None


def bind(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bind a launch's arguments to the kernel's parameters; what is no parameter is an option of the compiler.

    `num_warps` and its like count as options even where they are parameters too, as Triton does.
    """
    signature: inspect.Signature = getattr(kernel, "signature", None) or inspect.signature(kernel.fn)
    own = {k: v for k, v in kwargs.items() if k in signature.parameters}
    bound = signature.bind(*args, **own)
    bound.apply_defaults()
    rest = {k: v for k, v in kwargs.items() if k not in signature.parameters and k not in _NOT_OPTIONS}
    options = {**_DEFAULTS, **rest}
    for name in _DEFAULTS:
        if name in bound.arguments and isinstance(bound.arguments[name], int):
            options[name] = bound.arguments[name]
    return dict(bound.arguments), {k: v for k, v in options.items() if v is not None}


def resolve_grid(grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
    """Return the grid's three extents; callables are called with the bound parameters."""
    if callable(grid):
        grid = grid(bound)
    if isinstance(grid, int):
        grid = (grid,)
    extents = [int(n) for n in grid] + [1, 1, 1]
    return extents[0], extents[1], extents[2]


def user_frame() -> FrameType | None:
    """Return the innermost frame that is neither ours nor Triton's nor torch's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_machinery(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=4096)
def is_machinery(filename: str) -> bool:
    """Tell whether a frame's file is ours, Triton's or torch's rather than the user's."""
    if filename.startswith("<frozen"):
        return True
    real = os.path.realpath(filename)
    return real.startswith(_machinery()) or real.endswith((f"{os.sep}contextlib.py", f"{os.sep}functools.py"))


@functools.lru_cache(maxsize=1)
def _machinery() -> tuple[str, ...]:
    import torch
    import triton

    return _OURS, *(str(Path(module.__file__).resolve().parent) + os.sep for module in (torch, triton))


def describe_launch(event: LaunchEvent, root: str, known: Describing) -> RecordedLaunch:
    """Describe a launch in the nouns."""
    kernel = event.kernel
    constexprs = constexpr_names(kernel)
    arguments = tuple((n, describe(v, known)) for n, v in event.bound.items() if n not in constexprs)
    file, line = kernel_position(kernel)
    return RecordedLaunch(
        kernel_file=relative(file, root),
        kernel=event.name,
        kernel_line=line,
        arguments=arguments,
        constexprs=tuple((n, describe(v, known)) for n, v in event.bound.items() if n in constexprs),
        options=tuple((n, describe(v, known)) for n, v in sorted(event.options.items()) if _is_plain(v)),
        grid=event.grid,
        call_site=call_site(event.frame, root),
        autotuned=event.autotuned,
    )


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float, str, bool, tuple, list))


def constexpr_names(kernel: Any) -> frozenset[str]:
    """Return the names of the kernel's constexpr parameters, however their annotation is written."""
    params = getattr(kernel, "params", None)
    if params is not None:
        return frozenset(p.name for p in params if p.is_constexpr)
    return frozenset(n for n, kind in getattr(kernel.fn, "__annotations__", {}).items() if "constexpr" in str(kind))


def kernel_position(kernel: Any) -> tuple[str, int]:
    """Return the file of a kernel and the line of its `def`."""
    code: CodeType = kernel.fn.__code__
    line = code.co_firstlineno
    for offset, text in enumerate(linecache.getlines(code.co_filename)[line - 1 : line + 200]):
        if text.lstrip().startswith(("def ", "async def ")):
            return code.co_filename, line + offset
    return code.co_filename, line


def call_site(frame: FrameType | None, root: str) -> CallSite:
    """Say where a frame stands: file, line, and the qualified name of its function ("" at module level)."""
    if frame is None:
        return CallSite("", 0, "")
    return CallSite(relative(frame.f_code.co_filename, root), frame.f_lineno, code_name(frame.f_code))


def code_name(code: CodeType) -> str:
    """Return a code object's qualified name without `<locals>`, "" for a module's."""
    if code.co_name == "<module>":
        return ""
    name = getattr(code, "co_qualname", None)  # Python 3.11
    if name is None:
        name = _names_in(code.co_filename).get((code.co_firstlineno, code.co_name), code.co_name)
    return str(name).replace("<locals>.", "")


@functools.lru_cache(maxsize=64)
def _names_in(filename: str) -> dict[tuple[int, str], str]:
    """Map (first line, name) to the qualified name of every function of a file, for Python 3.10."""
    names: dict[tuple[int, str], str] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                names[first, child.name] = prefix + child.name
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    with contextlib.suppress(SyntaxError):
        visit(ast.parse("".join(linecache.getlines(filename))), "")
    return names


def scalar_option(value: Any) -> Any:
    """Return the plain value of a described option."""
    if isinstance(value, Scalar):
        return value.value
    raise JobFailed("unsupported", f"The launch option {value!r} is no plain value.")
