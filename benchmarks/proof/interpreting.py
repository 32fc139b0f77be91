"""Triton's plain interpreter, made to show what a GPU may do: undefined lanes, TF32, programs in any order.

Everything here is switched on in a process of its own that ends with the run, so nothing is restored.
"""

from __future__ import annotations

import inspect
import itertools
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as ti
from triton.runtime.autotuner import Autotuner

_POISON = 0x7E
_TF32_DROPPED_BITS = 13
_BF16_NAN = 0x7FC0
_BF16_LARGEST = 0x7F7F
_MOST_THREADS = 256

Place = tuple[int, int, int]
Run = Callable[[Callable[[], None], Sequence[Place]], None]
"""Runs a kernel's body once for each program id, in some order."""


class Launches:
    """What is launched in this process: the programs are counted, and only some of them run where `only` names them."""

    programs = 0
    only: tuple[Place, ...] = ()


def install(schedule: str, *, large_lanes: bool = False) -> None:
    """Change the interpreter of this process for good.

    `large_lanes`: undefined lanes hold the largest value instead of NaN, which a maximum would pass over.

    Raises:
        ValueError: for an unknown schedule.
    """
    _undefined_lanes(large=large_lanes)
    _tensor_cores()
    # Timing needs a GPU: an autotuned kernel runs with its first configuration.
    Autotuner._bench = lambda *_, **__: [0.0, 0.0, 0.0]
    if schedule == "interleaved":
        run: Run = Interleaving().run
    elif schedule in ("in order", "reversed", "shuffled", "muted"):
        run = _one_by_one(schedule)
    else:
        raise ValueError(f"unknown schedule {schedule!r}")
    if schedule == "muted":
        _mute()
    ti.GridExecutor.__call__ = lambda executor, *args, **kwargs: _launch(executor, args, kwargs, run)


def _launch(executor: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Run) -> None:
    # As the interpreter does it, on the CPU tensors themselves: copying them back would touch gaps of gigabytes.
    names = inspect.signature(executor.fn).parameters
    kwargs = {name: value for name, value in kwargs.items() if name in names}
    for hook in executor.pre_run_hooks:
        hook(*args, **kwargs)
    scope = ti._patch_lang(executor.fn)
    try:
        bound = inspect.getcallargs(executor.fn, *args, **kwargs)
        bound = {name: one if name in executor.constexprs else ti._implicit_cvt(one) for name, one in bound.items()}
        grid = executor.grid(bound) if callable(executor.grid) else executor.grid
        grid = (*grid, *(1,) * (3 - len(grid)))
        ti.interpreter_builder.set_grid_dim(*grid)
        nx, ny, nz = grid
        places = Launches.only or list(itertools.product(range(nx), range(ny), range(nz)))
        Launches.programs += len(places)
        run(lambda: executor.fn(**bound), places)
    finally:
        scope.restore()


def _one_by_one(schedule: str) -> Run:
    def run(body: Callable[[], None], places: Sequence[Place]) -> None:
        order = list(places)
        if schedule == "reversed":
            order.reverse()
        elif schedule == "shuffled":
            random.Random(1).shuffle(order)
        for place in order:
            ti.interpreter_builder.set_grid_idx(*place)
            body()

    return run


def _undefined_lanes(*, large: bool) -> None:
    load = ti.InterpreterBuilder.create_masked_load

    def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any) -> Any:
        if other is None:
            element = ptrs.get_element_ty()
            dtype = ti._get_np_dtype(element)
            other = ti.TensorHandle(_undefined(ptrs.data.shape, dtype, element, large), element)
        return load(self, ptrs, mask, other, *rest)

    ti.InterpreterBuilder.create_masked_load = masked_load


def _undefined(shape: tuple[int, ...], dtype: Any, element: Any, large: bool) -> Any:
    if np.issubdtype(dtype, np.floating):
        return np.full(shape, np.finfo(dtype).max if large else np.nan, dtype)
    if element.is_bf16():
        return np.full(shape, _BF16_LARGEST if large else _BF16_NAN, dtype)
    filled = np.empty(shape, dtype)
    filled.reshape(-1).view(np.uint8).fill(1 if dtype == np.bool_ else _POISON)
    return filled


def _tensor_cores() -> None:
    def dot(_self: Any, a: Any, b: Any, d: Any, precision: Any, _imprecise: Any) -> Any:
        left, right = _operand(a, precision), _operand(b, precision)
        return ti.TensorHandle(np.matmul(left, right, dtype=d.data.dtype) + d.data, d.dtype.scalar)

    ti.InterpreterBuilder.create_dot = dot


def _operand(handle: Any, precision: Any) -> Any:
    dtype = handle.dtype.scalar
    if dtype.is_bf16():
        return (handle.data.astype(np.uint32) << 16).view(np.float32)
    if dtype.is_fp8():
        return ti._convert_float(handle.data, handle.dtype, tl.float16, None).view(np.float16)
    if dtype.is_fp32() and precision == ti._ir.INPUT_PRECISION.TF32:
        bits = handle.data.astype(np.float32).view(np.uint32)
        half = np.uint32(1 << (_TF32_DROPPED_BITS - 1))
        kept = np.uint32(0xFFFFFFFF << _TF32_DROPPED_BITS & 0xFFFFFFFF)
        return np.where(np.isfinite(handle.data), ((bits + half) & kept).view(np.float32), handle.data)
    return handle.data


def _mute() -> None:
    ti.InterpreterBuilder.create_masked_store = lambda *_: None
    rmw = ti.InterpreterBuilder.create_atomic_rmw

    def silent(self: Any, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        return rmw(self, op, ptr, val, ti.TensorHandle(np.zeros_like(mask.data), mask.dtype), sem, scope)

    ti.InterpreterBuilder.create_atomic_rmw = silent


class Interleaving:
    """Runs all programs of a launch at once, one access to memory each in turn.

    Each program is a thread; only the one whose turn it is runs, so that a schedule is the same in every run. On a GPU
    this schedule is one of those that may happen.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._alive: list[int] = []
        self._current: int | None = None
        self._mine = threading.local()
        self._errors: list[BaseException] = []
        for name in ("create_masked_load", "create_masked_store", "create_atomic_rmw", "create_atomic_cas"):
            setattr(ti.InterpreterBuilder, name, self._in_turn(getattr(ti.InterpreterBuilder, name)))

    def run(self, body: Callable[[], None], places: Sequence[Place]) -> None:
        """Run `body` for each program id, all of them at once.

        Raises:
            ValueError: for a grid that is too large for this.
        """
        if len(places) > _MOST_THREADS:
            raise ValueError(f"{len(places)} programs are too many to interleave")
        if not places:
            return
        self._alive, self._current = list(range(len(places))), 0
        threads = [
            threading.Thread(target=self._program, args=(body, number, place), daemon=True)
            for number, place in enumerate(places)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _program(self, body: Callable[[], None], number: int, place: Place) -> None:
        self._mine.number, self._mine.place = number, place
        self._wait()
        try:
            body()
        except BaseException as error:  # noqa: BLE001  # told by the thread that waits
            self._errors.append(error)
        with self._turn:
            following = self._next(number)
            self._alive.remove(number)
            self._current = following if self._alive else None
            self._turn.notify_all()

    def _next(self, number: int) -> int:
        return next((one for one in self._alive if one > number), self._alive[0])

    def _wait(self) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._current == self._mine.number)
        ti.interpreter_builder.set_grid_idx(*self._mine.place)

    def _in_turn(self, access: Callable[..., Any]) -> Callable[..., Any]:
        def accessed(*args: Any, **kwargs: Any) -> Any:
            with self._turn:
                self._current = self._next(self._mine.number)
                self._turn.notify_all()
            self._wait()
            return access(*args, **kwargs)

        return accessed
