"""Run a call once, in a program, on fresh arguments, and keep what it computed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program
from tritonforge.worker.calling import Runnable, runnable, seed_everything
from tritonforge.worker.earlier import earlier_of
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.interpreter.poison import ORIGINAL, Poison
from tritonforge.worker.loading import load, position_of
from tritonforge.worker.outcomes import Outputs, flatten, same_bits
from tritonforge.worker.rebuilding import Rebuilt, rebuild

Launches = list[tuple[str, dict[str, Any]]]


class RunFailed(Exception):
    """A program did not get through a call; the text says why, with the line where known."""

    def __init__(self, message: str, *, out_of_bounds: bool = False) -> None:
        super().__init__(message)
        self.out_of_bounds = out_of_bounds


@dataclass(frozen=True)
class Where:
    """How a call is run: `around` sets up one run with its poison and yields the launches it makes."""

    device: str
    around: Callable[[Poison], contextlib.AbstractContextManager[Launches]]
    finish: Callable[[], None] = lambda: None
    is_fatal: Callable[[BaseException], bool] = lambda _error: False
    """Tells an error after which this process can no longer be used."""
    widened: Callable[[], contextlib.AbstractContextManager[Any]] | None = None
    """Sets up a run in float64 and yields its `Shadow`; None where there is no such thing."""
    witnessing: Callable[[Mapping[str, Any], Launches], contextlib.AbstractContextManager[Any]] | None = None
    """Watches a run, given the call's tensors and the launches so far, and yields what has seen it."""
    further: Callable[..., Any] | None = None
    """Runs a candidate again after inputs were compared: an `auditing.Further` with this `Where` besides."""
    ordered: Callable[..., Any] | None = None
    """Runs the original's program on a call with the programs of its launches in another order, and returns what it
    left; None where nothing says in which order programs run."""
    operations: Callable[[], int] = lambda: 0
    """How many operations on blocks were interpreted so far."""
    choose: Callable[[int], None] = lambda _turn: None
    """Says which configuration the candidate's autotuners use from now on (`CompareOnDevice.turns`)."""


Preparing = Callable[[Rebuilt, Any], None]
"""Changes rebuilt arguments before they are used, given the run's `Shadow` if it has one."""


def run_call(
    program: Program,
    call: Call,
    where: Where,
    poison: Poison,
    *,
    wide: bool = False,
    prepare: Preparing | None = None,
    adapt: Callable[[Runnable], Runnable] | None = None,
    hold: Callable[[Rebuilt], None] | None = None,
) -> Outputs:
    """Run a call once on fresh arguments and keep what it computed.

    Args:
        program: what to load.
        call: what to repeat.
        where: how it is run.
        poison: what fills memory that nobody wrote.
        wide: whether kernels compute in float64; the outputs then have `wide` values too.
        prepare: changes the arguments before they are used.
        adapt: changes what is run.
        hold: is given the arguments, and may keep their memory from being used again.

    Raises:
        RunFailed: when the program cannot be loaded, raises, or leaves its buffers.
    """
    widened = where.widened() if wide and where.widened is not None else contextlib.nullcontext()
    with where.around(poison) as launches, widened as shadow:
        try:
            loaded = load(program)
            with loaded.active():
                repeated = runnable(loaded, call)
                if adapt is not None:
                    repeated = adapt(repeated)
                with torch._C.DisableTorchFunction():
                    rebuilt = rebuild(
                        call,
                        device=where.device,
                        names=repeated.names,
                        fill_unset=poison.fill,
                        fill_gaps=poison.between,
                        main=loaded.module,
                    )
                    if prepare is not None:
                        prepare(rebuilt, shadow)
                    if hold is not None:
                        hold(rebuilt)
                    before = {p: t.detach().clone() for p, t in rebuilt.tensors.items()}
                seed_everything(call.seed)
                witnessing = where.witnessing if prepare is None and not wide else None
                watched = contextlib.nullcontext() if witnessing is None else witnessing(rebuilt.tensors, launches)
                performed = where.operations()
                with watched as witness:
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
            outputs = _outputs(result, rebuilt, before, launches, poison=poison, shadow=shadow)
            if where.device == "cpu" and prepare is None and not wide:
                outputs.overwrites = earlier_of(loaded.digest).note(result)
            outputs.operations = where.operations() - performed
            if witness is not None:
                returned = dict(flatten(result, "returned"))
                left = {p: t for p, t in {**returned, **rebuilt.tensors}.items() if isinstance(t, torch.Tensor)}
                outputs.seen = witness.seen(left)
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


def _outputs(
    result: Any, rebuilt: Rebuilt, before: dict[str, Any], launches: Launches, *, poison: Poison, shadow: Any
) -> Outputs:
    outputs = Outputs(poison=poison, launches=len(launches))
    changed: set[str] = set()

    def keep(path: str, tensor: Any) -> None:
        outputs.tensors[path] = tensor.clone(memory_format=torch.preserve_format)
        touched = path in changed or path not in rebuilt.tensors
        if shadow is not None and touched and tensor.dtype.is_floating_point:
            outputs.wide[path] = shadow.values_of(tensor)

    for path, leaf in flatten(result, "returned"):
        if isinstance(leaf, torch.Tensor):
            keep(path, leaf.detach())
        elif isinstance(leaf, (int, float, str, bool, bytes)):
            outputs.values[path] = leaf
    for path, tensor in rebuilt.tensors.items():
        now = tensor.detach()
        if not same_bits(before[path], now):
            changed.add(path)
        keep(path, now)
    if not outputs.tensors:
        # A test or a main function: what its kernels were given is all there is to see.
        for name, tensor in _buffers(launches):
            keep(name, tensor.detach())
    outputs.changed, outputs.given = frozenset(changed), frozenset(rebuilt.tensors)
    if shadow is not None:
        outputs.arithmetic = frozenset(shadow.arithmetic)
    return outputs


def _buffers(launches: Launches) -> Iterator[tuple[str, Any]]:
    """Yield the tensors that launches were given, by parameter name; of those of one name, each distinct problem."""
    seen: dict[str, int] = {}
    for _, bound in launches:
        for name, given in bound.items():
            value = getattr(given, "base", given)  # of a tensor descriptor
            if isinstance(value, torch.Tensor):
                seen[name] = seen.get(name, 0) + 1
                yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), value
