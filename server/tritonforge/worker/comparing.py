"""The `Compare` and `CompareOnDevice` jobs: does the candidate compute what the original does?"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compare, CompareOnDevice, CompareResult, InputOutcome, Program, Tolerance
from tritonforge.worker.calling import identity, runnable, seed_everything
from tritonforge.worker.earlier import earlier_of
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.interpreter.poison import CANDIDATE, ORIGINAL, Poison
from tritonforge.worker.loading import digest_of, load, position_of
from tritonforge.worker.outcomes import Comparison, Outputs, compare_outputs, flatten, same_bits
from tritonforge.worker.rebuilding import Rebuilt, real_device, rebuild

_CACHE_BYTES = 512 << 20
_cache: OrderedDict[str, Outputs] = OrderedDict()


class RunFailed(Exception):
    """A program did not get through a call; the text says why, with the line where known."""

    def __init__(self, message: str, *, out_of_bounds: bool = False) -> None:
        super().__init__(message)
        self.out_of_bounds = out_of_bounds


@dataclass(frozen=True)
class Where:
    """How a call is run: `around` sets up one run with its poison and yields the launches it makes."""

    device: str
    around: Callable[[Poison], contextlib.AbstractContextManager[list[tuple[str, dict[str, Any]]]]]
    finish: Callable[[], None] = lambda: None
    is_fatal: Callable[[BaseException], bool] = lambda _error: False
    """Tells an error after which this process can no longer be used."""


def compare(request: Compare | CompareOnDevice, context: JobContext, where: Where) -> CompareResult:
    """Run both programs on each input and compare them.

    Raises:
        JobFailed: `unsupported`, when an input cannot be rebuilt; what a device reports as `cuda-error`.
    """
    outcomes: list[InputOutcome] = []
    for i, call in enumerate(request.inputs):
        context.progress(f"Comparing on input {i + 1} of {len(request.inputs)}", i / len(request.inputs))
        outcome = _compare_on(request, call, where, measure_original=i == 0)
        outcomes.append(outcome)
        if request.stop_at_first and outcome.status in {"different", "candidate-failed"}:
            break
    return CompareResult(tuple(outcomes))


def _compare_on(
    request: Compare | CompareOnDevice, call: Call, where: Where, *, measure_original: bool
) -> InputOutcome:
    try:
        want = _original(request.original, call, where)
    except RunFailed as error:
        return InputOutcome("original-failed", str(error), out_of_bounds=error.out_of_bounds)
    moved = _original_error(request, call, where, want) if measure_original else None
    started = time.perf_counter()
    try:
        got = run_call(request.candidate, call, where, CANDIDATE)
    except RunFailed as error:
        seconds = time.perf_counter() - started
        return InputOutcome(
            "candidate-failed",
            str(error),
            original_error=moved,
            out_of_bounds=error.out_of_bounds,
            seconds=seconds,
        )
    seconds = time.perf_counter() - started
    found = _compare_kept(want, got, request.tolerance)
    return InputOutcome(
        status="different" if found.problem else "equal",
        detail=found.problem,
        worst_error=found.worst_error,
        original_error=moved,
        difference=found.difference,
        inputs_changed=tuple(sorted(got.changed - want.changed)),
        outputs=found.compared,
        seconds=seconds,
    )


def _compare_kept(want: Outputs, got: Outputs, tolerance: Tolerance) -> Comparison:
    with torch._C.DisableTorchFunction():
        found = compare_outputs(want, got, tolerance)
    if not found.problem and not found.compared:
        return replace(found, problem="nothing can be compared: no tensor is returned, taken or given to a kernel")
    return found


def _original(program: Program, call: Call, where: Where) -> Outputs:
    """Return the original's outputs, from this lane's cache when it ran before."""
    key = identity(digest_of(program), replace(call, launches=(), id=""), where.device)
    if key in _cache:
        _cache.move_to_end(key)
        return _cache[key]
    outputs = run_call(program, call, where, ORIGINAL)
    if outputs.n_bytes <= _CACHE_BYTES // 2:
        _cache[key] = outputs
        while sum(o.n_bytes for o in _cache.values()) > _CACHE_BYTES:
            _cache.popitem(last=False)
    return outputs


def _original_error(request: Compare | CompareOnDevice, call: Call, where: Where, want: Outputs) -> float | None:
    """Return how far the original's outputs move when its floating inputs move by one rounding of their dtype."""
    key = identity(digest_of(request.original), replace(call, launches=(), id=""), where.device, "moved")
    if key not in _moved:
        try:
            moved = run_call(request.original, call, where, ORIGINAL, nudge=True)
            found = _compare_kept(want, moved, Tolerance(float("inf"), float("inf")))
            _moved[key] = found.worst_error if found.compared else None
        except RunFailed:
            _moved[key] = None
    return _moved[key]


_moved: dict[str, float | None] = {}


def run_call(program: Program, call: Call, where: Where, poison: Poison, *, nudge: bool = False) -> Outputs:
    """Run a call once on fresh arguments and keep what it computed.

    Raises:
        RunFailed: when the program cannot be loaded, raises, or leaves its buffers.
    """
    with where.around(poison) as launches:
        try:
            loaded = load(program)
            with loaded.active():
                repeated = runnable(loaded, call)
                with torch._C.DisableTorchFunction():
                    rebuilt = rebuild(
                        call,
                        device=where.device,
                        names=repeated.names,
                        fill_unset=poison.fill,
                        fill_gaps=poison.between,
                        main=loaded.module,
                    )
                    if nudge:
                        _nudge(rebuilt)
                    before = {p: t.detach().clone() for p, t in rebuilt.tensors.items()}
                seed_everything(call.seed)
                result = repeated.run(rebuilt.arguments, rebuilt.keywords)
                where.finish()
        except JobFailed as failed:
            if failed.failure.kind != "user-error":
                raise
            raise RunFailed(_with_line(failed.failure.message, failed.failure.file, failed.failure.line)) from failed
        except (Exception, SystemExit) as error:
            if where.is_fatal(error):
                who = "original" if poison is ORIGINAL else "candidate"
                raise JobFailed("cuda-error", f"The {who} broke the GPU's context: {_why(error, program)}") from error
            raise RunFailed(_why(error, program), out_of_bounds=getattr(error, "out_of_bounds", False)) from error
        if rebuilt.overrun():
            raise RunFailed("a kernel writes beside the memory of an argument", out_of_bounds=True)
        with torch._C.DisableTorchFunction():
            outputs = _outputs(result, rebuilt, before, launches, poison)
            if where.device == "cpu" and not nudge:
                outputs.overwrites = earlier_of(loaded.digest).note(result)
            return outputs


def _why(error: BaseException, program: Program) -> str:
    from tritonforge.worker.interpreter.failing import KernelFailed

    if isinstance(error, KernelFailed):
        return str(error)
    file, line = position_of(error, program)
    said = " ".join(str(error).split())[:300]
    return _with_line(f"{type(error).__name__}: {said}" if said else type(error).__name__, file, line)


def _with_line(message: str, file: str | None, line: int | None) -> str:
    return f"{message} ({file}:{line})" if file and line else message


def _nudge(rebuilt: Rebuilt) -> None:
    """Move every floating input up or down by one rounding of its dtype, as a coin of a fixed seed says."""
    generator = torch._C.Generator()
    generator.manual_seed(1)
    for tensor in rebuilt.tensors.values():
        target = tensor.detach()
        if not target.dtype.is_floating_point or target.numel() == 0:
            continue
        for axis, (n, s) in enumerate(zip(target.shape, target.stride(), strict=True)):
            if s == 0 and n > 1:
                target = target.narrow(axis, 0, 1)
        info = torch.finfo(target.dtype)
        coin = torch.randint(0, 2, target.shape, generator=generator, dtype=torch.int8).to(real_device(target))
        factor = 1.0 + info.eps * (coin.double() * 2 - 1)
        wide = target.double()
        target.copy_(torch.where(torch.isfinite(wide), wide * factor, wide).to(target.dtype))


def _outputs(
    result: Any, rebuilt: Rebuilt, before: dict[str, Any], launches: list[tuple[str, dict[str, Any]]], poison: Poison
) -> Outputs:
    outputs = Outputs(poison=poison, launches=len(launches))
    changed: set[str] = set()
    for path, leaf in flatten(result, "returned"):
        if isinstance(leaf, torch.Tensor):
            outputs.tensors[path] = leaf.detach().clone(memory_format=torch.preserve_format)
        elif isinstance(leaf, (int, float, str, bool, bytes)):
            outputs.values[path] = leaf
    for path, tensor in rebuilt.tensors.items():
        now = tensor.detach()
        if not same_bits(before[path], now):
            changed.add(path)
        outputs.tensors[path] = now.clone()
    if not outputs.tensors:
        # A test or a main function: what its kernels were given is all there is to see.
        for name, tensor in _buffers(launches):
            outputs.tensors[name] = tensor.detach().clone()
    outputs.changed = frozenset(changed)
    return outputs


def _buffers(launches: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors that launches were given, by parameter name; of those of one name, each distinct problem."""
    seen: dict[str, int] = {}
    for _, bound in launches:
        for name, given in bound.items():
            value = getattr(given, "base", given)  # of a tensor descriptor
            if isinstance(value, torch.Tensor):
                seen[name] = seen.get(name, 0) + 1
                yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), value
