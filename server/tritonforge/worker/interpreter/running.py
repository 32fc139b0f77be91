"""Interpreted launches: checked, poisoned, and reported with the kernel's own line when they fail."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import random
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle, np  # type: ignore[attr-defined,unused-ignore]

from tritonforge.worker.interpreter.bounds import Buffer, Guard, OutOfBounds, buffers_of
from tritonforge.worker.interpreter.conflicts import Conflict, Footprint
from tritonforge.worker.interpreter.failing import KernelFailed
from tritonforge.worker.interpreter.poison import ORIGINAL, Poison
from tritonforge.worker.launching import CompiledStub, constexpr_names, is_machinery, resolve_grid

Order = Literal["forward", "reverse", "shuffled"]
"""In which order the programs of a grid run; a GPU promises none."""


@dataclass
class Run:
    """One repetition of a call: the poison it uses and the launches it made, as (kernel, arguments)."""

    poison: Poison = ORIGINAL
    launches: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    deadline: float = math.inf
    """When to stop, on the monotonic clock."""
    order: Order = "forward"
    following: bool = False
    """Whether to find out what programs do to each other's elements, and which bytes launches write."""
    conflicts: list[Conflict] = field(default_factory=list)
    written: list[tuple[int, int, Any]] = field(default_factory=list)
    """Where launches wrote, as `Footprint.written` has it."""
    programs: int = 0
    """The number of programs of the largest launch."""
    launching: bool = False
    """Whether a launch is being interpreted right now."""
    atomics: bool = False
    """Whether a kernel updated memory atomically."""
    guard: Callable[[list[Buffer]], Guard] = Guard
    """Makes what checks the accesses of each launch, unless they are followed."""


class OutOfTime(Exception):
    """A run's deadline is over in the middle of a launch."""


_run: Run = Run()
_guard: Guard | None = None


@contextlib.contextmanager
def running(run: Run) -> Iterator[Run]:
    """Interpret launches as part of `run`."""
    global _run
    before, _run = _run, run
    try:
        yield run
    finally:
        _run = before


def current_run() -> Run:
    """Return the run that launches are part of right now."""
    return _run


def run_interpreted(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
    """Stand in for `InterpretedFunction.run`."""
    if warmup:
        return CompiledStub(kwargs)
    global _guard
    function = self.rewrite()
    names = set(inspect.getfullargspec(function).args)
    kwargs = {k: v for k, v in kwargs.items() if k in names}
    for hook in getattr(self, "pre_run_hooks", ()):
        hook(*args, **kwargs)
    bound = inspect.getcallargs(function, *args, **kwargs)
    extents = resolve_grid(grid, bound)
    _run.launches.append((self.fn.__qualname__.replace("<locals>.", ""), bound))
    constexprs = constexpr_names(self)
    outer, limited = _guard, _run.deadline < math.inf
    run, launching = _run, _run.launching
    run.programs = max(run.programs, math.prod(extents))
    with torch._C.DisableTorchFunction(), np.errstate(all="ignore"):
        converted = {n: v if n in constexprs else interpreter._implicit_cvt(v) for n, v in bound.items()}
        _guard = Footprint(buffers_of(bound), self.fn.__name__) if run.following else run.guard(buffers_of(bound))
        builder = interpreter.interpreter_builder
        builder.set_grid_dim(*extents)
        at = (0, 0, 0)
        run.launching = True
        try:
            for at in programs_of(extents, run.order):
                if limited:
                    _check_time()
                builder.set_grid_idx(*at)
                _guard.enter(at)
                function(**converted)
        except OutOfTime:
            raise
        except Exception as error:
            raise _failed(self, error, at) from error
        finally:
            if isinstance(_guard, Footprint):
                run.conflicts += _guard.conflicts
                run.written += _guard.written()
            run.launching = launching
            _guard = outer
    return None


def programs_of(extents: tuple[int, int, int], order: Order) -> Iterator[tuple[int, int, int]]:
    """Yield every program of a grid; `forward` is x first, `shuffled` the same at each call."""
    width, height, depth = extents
    count = width * height * depth
    numbers: Iterable[int] = range(count)
    if order == "reverse":
        numbers = range(count - 1, -1, -1)
    elif order == "shuffled":
        numbers = random.Random(count).sample(range(count), count)  # noqa: S311 - an order, no secret
    for number in numbers:
        yield number % width, number // width % height, number // (width * height)


def _check_time() -> None:
    if time.monotonic() > _run.deadline:
        raise OutOfTime("a program does not end, or waits for one that has not run")


def _failed(kernel: Any, error: BaseException, at: tuple[int, int, int]) -> KernelFailed:
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    line = None
    for link in (error, root):
        for frame in traceback.extract_tb(link.__traceback__):
            if not is_machinery(frame.filename):
                line = frame.lineno
    said = " ".join(str(root).split())[:300] or type(root).__name__
    what = said if isinstance(root, (OutOfBounds, NotImplementedError)) else f"{type(root).__name__}: {said}"
    place = f"line {line}, " if line else ""
    return KernelFailed(
        f"{kernel.fn.__name__} ({place}program {at}): {what}", line, out_of_bounds=isinstance(root, OutOfBounds)
    )


_other_given = [False]
"""Whether the load that is under way was told what masked lanes hold."""


def told_load(original: Any) -> Any:
    """Wrap the `load` of Triton's semantics: an `other` of one element that is zero goes by as if it were not given.

    There Triton asks whether `other` is true, which in the interpreter its value decides.
    """
    at = list(inspect.signature(original).parameters).index("other")

    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        _other_given[0] = (args[at] if len(args) > at else kwargs.get("other")) is not None
        try:
            return original(*args, **kwargs)
        finally:
            _other_given[0] = False

    return load


def masked_load(original: Any) -> Any:
    """Wrap `create_masked_load`: check the lanes that are read, poison those that are left undefined."""

    def load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        element = ptrs.get_element_ty()
        lanes = _lanes_of(mask)
        if _guard is not None:
            volatile = rest[_VOLATILE_AT] if len(rest) > _VOLATILE_AT else kwargs.get("is_volatile", False)
            size = max(1, element.primitive_bitwidth // 8)
            _guard.check("polls" if volatile else "reads", ptrs.data, lanes, size)
            if volatile:
                if _run.deadline < math.inf:
                    _check_time()
                _synchronise(_guard, ptrs, lanes)
        if other is None and not _other_given[0] and not lanes.all():
            other = TensorHandle(_undefined(ptrs.data.shape, element), element)
        return original(self, ptrs, mask, other, *rest, **kwargs)

    return load


def _lanes_of(mask: Any) -> Any:
    """Return a mask as an array: accesses through block pointers and descriptors pass one without a handle."""
    return mask.data if isinstance(mask, TensorHandle) else mask


_VOLATILE_AT = 2
"""Where `create_masked_load` takes whether it is volatile, counted after `other`."""
_LANES = Poison(0x33)
_TORCH_OF = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
_LARGEST = {"fp16": 0x7BFF, "bf16": 0x7F7F, "fp32": 0x7F7F_FFFF, "fp64": 0x7FEF_FFFF_FFFF_FFFF}
"""The bits of the largest number of each type."""


def _undefined(shape: tuple[int, ...], element: Any) -> Any:
    kind = interpreter._get_np_dtype(element)
    unsigned = np.dtype(f"u{kind.itemsize}")
    if element.name in _TORCH_OF:
        # Its payload is not that of unwritten memory, so that a NaN computed from it is not taken for such. Maxima and
        # minima pass over a NaN, so that other lanes hold the largest numbers of both signs.
        sign = 1 << (8 * kind.itemsize - 1)
        largest = _LARGEST[element.name]
        lanes = np.array([_LANES.bits(_TORCH_OF[element.name]), largest, largest | sign], dtype=unsigned)
        return np.resize(lanes, shape).view(kind)
    if element.is_floating():
        bits = 0x7F
    elif kind == np.bool_:
        return np.full(shape, True)
    else:
        bits = int.from_bytes(bytes([0x5B + _run.poison.payload % 32] * kind.itemsize), "little")
    return np.full(shape, bits, dtype=unsigned).view(kind)


def masked_store(original: Any) -> Any:
    """Wrap `create_masked_store` with the check of the lanes that are written."""

    def store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **kwargs: Any) -> Any:
        if _guard is not None:
            size = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
            _guard.check("writes", ptrs.data, _lanes_of(mask), size, value.data)
        return original(self, ptrs, value, mask, *rest, **kwargs)

    return store


def atomic(original: Any, mask_at: int | None) -> Any:
    """Wrap an atomic operation; `mask_at` is where its mask stands among the arguments."""

    def access(self: Any, *args: Any, **kwargs: Any) -> Any:
        ptr = args[0] if mask_at is None else args[1]
        _run.atomics = True
        if _run.deadline < math.inf:
            _check_time()  # a program may wait for one that has not run
        if _guard is not None:
            mask = args[mask_at].data if mask_at is not None else None
            _guard.check("updates", ptr.data, mask, max(1, ptr.get_element_ty().primitive_bitwidth // 8))
            if not any("relaxed" in str(a).lower() for a in args[3:] if not isinstance(a, TensorHandle)):
                _synchronise(_guard, ptr, mask)
        return original(self, *args, **kwargs)

    return access


def _synchronise(guard: Guard, pointer: Any, mask: Any) -> None:
    """Order programs by a scalar atomic: those of blocks add up sums, where nobody waits for anybody."""
    if pointer.data.size == 1 and (mask is None or mask.all()):
        guard.synchronised(int(pointer.data.reshape(-1)[0]))


def scalar_conversion(original: Any) -> Any:
    """Wrap `_implicit_cvt`: a Python float reaches a kernel as a float32 scalar, not as a Python number."""

    def convert(arg: Any) -> Any:
        if type(arg) is float:
            return tl.tensor(TensorHandle(np.array([arg], dtype=np.float32), tl.float32), tl.float32)
        if type(arg) is bool:
            return tl.tensor(TensorHandle(np.array([arg], dtype=np.bool_), tl.int1), tl.int1)
        if isinstance(arg, list):
            arg = tuple(arg)
        return original(arg)

    return convert
