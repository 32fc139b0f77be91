"""Running a call once on the GPU and keeping of each launch what it takes to repeat it alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.messages import Program, Time
from tritonforge.worker.calling import runnable, seed_everything
from tritonforge.worker.compiling import compile_error, wanted
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.launching import LaunchEvent, bind, describe_launch, resolve_grid, user_frame
from tritonforge.worker.loading import load, position_of
from tritonforge.worker.on_device import is_cuda_error, is_out_of_memory
from tritonforge.worker.rebuilding import rebuild
from tritonforge.worker.values import Describing, storage_address


@dataclass(frozen=True)
class Taken:
    """One launch that can be repeated: how, by what name the device knows it, and what has to be put back before."""

    launch: RecordedLaunch
    name: str
    start: Callable[[], Any]
    restore: list[tuple[Any, Any]]

    def reset(self) -> None:
        """Put back what the launch changes."""
        for tensor, saved in self.restore:
            tensor.copy_(saved)


class NotRun(Exception):
    """A program could not be run once; the text says why. `memory`: because the GPU has too little of it."""

    def __init__(self, message: str, *, memory: bool = False) -> None:
        super().__init__(message)
        self.memory = memory


def take(program: Program, request: Time) -> list[Taken]:
    """Run the call twice: to compile and tune, then on fresh arguments to take its launches.

    Raises:
        NotRun: when the program raises; the GPU can still be used.
        JobFailed: `cuda-error`, when it cannot.
    """
    captured: list[Taken] = []
    last: list[LaunchEvent] = []
    try:
        loaded = load(program)
        with loaded.active():
            repeated = runnable(loaded, request.call)
            for taking in (False, True):
                rebuilt = rebuild(request.call, device="cuda", names=repeated.names, main=loaded.module)
                seed_everything(request.call.seed)
                scope = _taking(program, request, captured, last) if taking else contextlib.nullcontext()
                with scope:
                    repeated.run(rebuilt.arguments, rebuilt.keywords)
                torch.cuda.synchronize()
    except JobFailed as failed:
        if failed.failure.kind in {"unsupported", "user-error"}:
            raise NotRun(failed.failure.message) from failed
        raise
    except (Exception, SystemExit) as error:
        if is_cuda_error(error):
            raise JobFailed("cuda-error", f"The program broke the GPU's context: {said(error)}") from error
        if is_out_of_memory(error):
            raise NotRun(f"The GPU ran out of memory: {said(error)}", memory=True) from error
        raise NotRun(_why(error, program, last)) from error
    return captured


def _why(error: BaseException, program: Program, last: list[LaunchEvent]) -> str:
    if type(error).__name__ in {"CompilationError", "CompileTimeAssertionFailure", "PTXASError"} and last:
        return compile_error(error, last[-1])
    file, line = position_of(error, program)
    return f"{type(error).__name__}: {said(error)}" + (f" ({file}:{line})" if line else "")


def said(error: BaseException) -> str:
    """Return an error's text on one line, without what CUDA adds about debugging."""
    return " ".join(str(error).partition("\nCUDA kernel errors might be")[0].split())[:300]


@contextlib.contextmanager
def _taking(program: Program, request: Time, captured: list[Taken], last: list[LaunchEvent]) -> Iterator[None]:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    patches = Patches()
    run_jit, run_tuner = JITFunction.run, Autotuner.run
    tuning = [0]

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup or (request.kernels and not wanted(self.fn.__qualname__, request.kernels)):
            return run_jit(self, *args, grid=grid, warmup=warmup, **kwargs)
        bound, options = bind(self, args, kwargs)
        extents = resolve_grid(grid, bound)
        event = LaunchEvent(self, args, kwargs, bound, options, extents, user_frame(), tuning[0] > 0)
        last.append(event)
        before = copies_of(bound)
        kernel = run_jit(self, *args, grid=extents, warmup=False, **kwargs)
        torch.cuda.synchronize()
        changed = changed_among(before)
        del before
        after = [(raw, raw.clone()) for raw, _ in changed]
        launch = describe_launch(event, program.root, Describing(values=False))
        kernel = kernel.result() if hasattr(kernel, "result") else kernel
        captured.append(Taken(launch, _device_name(event, kernel), _starter(event, kernel, run_jit), changed))
        for raw, saved in after:  # trying the starter launched it a second time
            raw.copy_(saved)
        return kernel

    def run_tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        at = len(captured)
        tuning[0] += 1
        try:
            result = run_tuner(self, *args, **kwargs)
        finally:
            tuning[0] -= 1
        captured[at:] = captured[-1:] if len(captured) > at else []  # what came before was tuning
        return result

    patches.set(JITFunction, "run", run)
    patches.set(Autotuner, "run", run_tuned)
    try:
        yield
    finally:
        patches.restore()


def _device_name(event: LaunchEvent, kernel: Any) -> str:
    """Return the kernel's name in its binary, which is that of its function unless a `repr` was given."""
    return str(getattr(kernel, "name", "") or getattr(getattr(kernel, "metadata", None), "name", "") or event.name)


def _starter(event: LaunchEvent, kernel: Any, run_jit: Any) -> Callable[[], Any]:
    """Return what repeats a launch with the least host work: the compiled kernel itself where that works."""
    values = tuple(event.bound.values())
    direct = kernel[event.grid] if kernel is not None and hasattr(kernel, "__getitem__") else None
    if direct is not None:
        try:
            direct(*values)
            torch.cuda.synchronize()
        except TypeError:
            pass
        else:
            return lambda: direct(*values)
    return lambda: run_jit(event.kernel, *event.args, grid=event.grid, warmup=False, **event.kwargs)


def copies_of(bound: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Copy the memory of each distinct storage among the arguments (as bytes, whatever views share it)."""
    found: dict[int, Any] = {}
    for value in bound.values():
        for tensor in tensors_in(value):
            found.setdefault(storage_address(tensor), tensor)
    copies = []
    for tensor in found.values():
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        copies.append((raw, raw.clone()))
    return copies


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield every tensor in an argument, or in the tuples and lists that it is made of."""
    if isinstance(value, torch.Tensor):
        yield value.detach()
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(getattr(value, "base", None), torch.Tensor):
        yield value.base.detach()


def changed_among(copies: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return those of `copies` (memory, what it held) whose memory holds something else now."""
    return [(raw, saved) for raw, saved in copies if not torch.equal(raw, saved)]
