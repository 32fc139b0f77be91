"""What jobs on a real GPU share: whether there is one, poisoned allocations, and telling CUDA's errors from others."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tritonforge.domain.messages import TUNED, CompareOnDevice, CompareResult
from tritonforge.worker.comparing import Where, compare
from tritonforge.worker.compiled_once import share_compilations
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.host_operations import HostWork, watching_host
from tritonforge.worker.interpreter.poison import CANDIDATE, Poison
from tritonforge.worker.launching import bind, first_configs
from tritonforge.worker.seen import Seen


def need_gpu() -> None:
    """Check that there is a GPU.

    Raises:
        JobFailed: `unsupported`, when there is none.
    """
    if not torch.cuda.is_available():
        raise JobFailed("unsupported", "This worker has no GPU: choose a target that has one.")


def is_cuda_error(error: BaseException) -> bool:
    """Tell whether an error leaves the process's CUDA context unusable."""
    text = str(error)
    lost = (
        "illegal memory access",
        "device-side assert",
        "misaligned address",
        "unspecified launch failure",
        "illegal instruction",
        "launch timed out",
        "hardware stack error",
        "invalid address space",
        "operation not supported on global/shared address space",
        "invalid program counter",
        "uncorrectable ECC error",
        "CUDA error: unknown",
    )
    return any(phrase in text for phrase in lost)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that the GPU has too little memory; its context is still good."""
    return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error).lower()


@contextlib.contextmanager
def typed_cuda_errors() -> Iterator[None]:
    """Turn errors of CUDA that escape into typed failures: the lane of a lost context must not do another job.

    Raises:
        JobFailed: `cuda-error`, or `memory` when the GPU has too little of it.
    """
    try:
        yield
    except JobFailed:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        if is_cuda_error(error):
            raise JobFailed("cuda-error", f"The GPU's context broke: {text}") from error
        if is_out_of_memory(error):
            raise JobFailed("memory", f"The GPU ran out of memory: {text}") from error
        raise


def compare_on_device(request: CompareOnDevice, context: JobContext) -> CompareResult:
    """Answer a `CompareOnDevice` request.

    Raises:
        JobFailed: `unsupported` without a GPU; `cuda-error` when a program breaks the context, and names which.
    """
    need_gpu()
    share_compilations()
    from tritonforge.worker.racing import run_again

    turn = _Turn()
    where = Where(
        "cuda",
        functools.partial(_around, turn),
        torch.cuda.synchronize,
        is_cuda_error,
        witnessing=_witnessing,
        further=run_again,
        choose=turn.choose,
    )
    return compare(request, context, where)


@dataclass
class _Turn:
    """Which configuration the candidate's autotuners use (`CompareOnDevice.turns`)."""

    now: int = 0

    def choose(self, turn: int) -> None:
        """Have it be another one."""
        self.now = turn


class _PoisonedEmpty(TorchFunctionMode):  # type: ignore[misc]
    """Fills what `torch.empty` and its like return."""

    def __init__(self, fill: Callable[[Any], None]) -> None:
        super().__init__()
        self._fill = fill

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _EMPTY and isinstance(result, torch.Tensor) and not result.is_meta:
            self._fill(result.detach())
        return result


_EMPTY = {
    getattr(owner, name)
    for owner, names in (
        (torch, ("empty", "empty_like", "empty_strided", "empty_permuted")),
        (torch.Tensor, ("new_empty", "new_empty_strided")),
    )
    for name in names
    if hasattr(owner, name)
}


@dataclass
class _Witness:
    """Sees what a host function computes beside its kernels, which are not watched on a GPU."""

    work: HostWork
    launches: list[tuple[str, dict[str, Any]]]

    def seen(self, outputs: Mapping[str, Any]) -> Seen:
        """Return what was seen."""
        del outputs
        parameters = frozenset(name for _, bound in self.launches for name in bound)
        return Seen(operations=dict(self.work.operations), parameters=parameters)


@contextlib.contextmanager
def _witnessing(tensors: Mapping[str, Any], launches: list[tuple[str, dict[str, Any]]]) -> Iterator[_Witness]:
    from triton.runtime.autotuner import Autotuner

    patches, tuning = Patches(), [0]
    original = getattr(Autotuner, "_bench", None)

    def bench(self: Any, *args: Any, **kwargs: Any) -> Any:
        tuning[0] += 1
        try:
            return original(self, *args, **kwargs)  # type: ignore[misc]
        finally:
            tuning[0] -= 1

    if original is not None:
        patches.set(Autotuner, "_bench", bench)
    try:
        with watching_host(tensors, launches, is_launching=lambda: tuning[0] > 0) as work:
            yield _Witness(work, launches)
    finally:
        patches.restore()


@contextlib.contextmanager
def _around(turn: _Turn, poison: Poison) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Set up a run.

    An autotuner would compile and measure all of its configurations for each of the gate's sizes, which takes minutes
    and shows nothing of most of them: only the one that it chooses there leaves a result. So nothing is measured, and
    inputs take turns with the candidate's configurations. All of them are ways to compute the same, and which one will
    run depends on the device and the sizes; inputs as they were recorded have the one that is chosen for them.
    """
    launches: list[tuple[str, dict[str, Any]]] = []
    now = turn.now if poison is CANDIDATE else 0
    tuned = contextlib.nullcontext() if now == TUNED else first_configs(now)
    with tuned, noting_launches(launches), _PoisonedEmpty(poison.fill):
        yield launches


@contextlib.contextmanager
def noting_launches(launches: list[tuple[str, dict[str, Any]]]) -> Iterator[None]:
    """Note each launch's kernel and arguments while it runs as always."""
    from triton.runtime.jit import JITFunction

    patches = Patches()
    original = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup:
            bound, _ = bind(self, args, kwargs)
            launches.append((self.fn.__qualname__.replace("<locals>.", ""), bound))
        before = len(launches)
        try:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        except Exception:
            if not warmup:  # an autotuner may go on with another configuration
                del launches[before - 1 :]
            raise

    patches.set(JITFunction, "run", run)
    try:
        yield
    finally:
        patches.restore()
