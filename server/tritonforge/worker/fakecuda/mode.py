"""The function mode: strips CUDA devices from calls, fills `torch.empty`, and follows which tensors are the CPU's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tritonforge.worker.fakecuda.factories import (
    ATTRIBUTES,
    DRAWN,
    DRAWN_ELEMENTS,
    EMPTY,
    EMPTY_LIKE,
    FACTORIES,
    SIZED,
    VIEWS,
    WHOLE_READS,
    ZEROABLE,
    drawn,
    functions,
    lazy_zeros,
    size_of,
)
from tritonforge.worker.fakecuda.large import (
    Room,
    TooLarge,
    holds_nothing,
    tensors_of,
    without_values,
    working_out_shapes,
)

_CPU_MARK = "_tritonforge_cpu"
_PINNED_MARK = "_tritonforge_pinned"
_COMPUTED_MARK = "_tritonforge_computed"
_LAZY_BYTES = 32 << 20
_MAPPED_LIMIT = 64 << 30
"""The largest tensor of zeros whose pages are reserved without being there."""
_GPU_TYPES = {"cuda", "hip"}


def is_cpus(tensor: Any) -> bool:
    """Tell whether a tensor is known to be the CPU's."""
    return _CPU_MARK in tensor.__dict__


def mark_cpu(value: Any) -> None:
    """Mark a tensor, or the tensors directly in a tuple or list, as the CPU's."""
    for tensor in tensors_in(value):
        setattr(tensor, _CPU_MARK, True)


def tensors_in(value: Any, depth: int = 2) -> Iterator[Any]:
    """Yield the tensors in a value and, to some depth, in the containers that functions take and return."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)) and depth:
        for item in value:
            yield from tensors_in(item, depth - 1)


class FakeCudaMode(TorchFunctionMode):  # type: ignore[misc]
    """Sees every overridable torch function while code runs as if there were a GPU."""

    def __init__(self, fill_empty: Callable[[Any], None] | None) -> None:
        super().__init__()
        self.fill_empty = fill_empty
        self.default = "cpu"
        self.room = Room()
        self.unset: set[int] = set()
        """Storages that `torch.empty` and its like made and that nothing was seen to fill since."""
        self.written: set[int] = set()
        """Storages that kernels got which were not run."""
        self.steered = ""
        """Where the program first read a whole number that a kernel would have computed."""
        self.results_missing = False
        """Set once a kernel was not run: comparisons of results then say what they would if it had been right."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer or forward one call."""
        result = self._answer(func, args, kwargs)
        if self.written and func not in ATTRIBUTES:
            self._trace(func, args, result)
        return result

    def _trace(self, func: Any, args: Any, result: Any) -> None:
        """Follow what was computed from results of kernels, and take note where the program reads it."""
        if not any(self._is_computed(t) for t in tensors_in(args)):
            return
        for tensor in tensors_in(result):
            setattr(tensor, _COMPUTED_MARK, True)
        # A kernel that did not run leaves zeros; any other number was there before.
        if not self.steered and func in WHOLE_READS and not args[0].dtype.is_floating_point and not _truth(result):
            self.steered = _place()

    def _is_computed(self, tensor: Any) -> bool:
        return _COMPUTED_MARK in tensor.__dict__ or tensor.untyped_storage()._cdata in self.written

    def _answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        special = _SPECIAL.get(func)
        if func not in ATTRIBUTES and self._lacks_room(func, args, kwargs):
            with working_out_shapes():
                if special is not None:
                    return special(self, func, args, dict(kwargs or {}))
                return self._without_values(func, args, dict(kwargs or {}))
        if special is not None:
            return special(self, func, args, dict(kwargs or {}))
        if kwargs:
            if "device" in kwargs or "pin_memory" in kwargs:
                return self._with_device(func, args, dict(kwargs))
            if kwargs.get("out") is not None:
                return func(*args, **kwargs)
        if func in FACTORIES:
            return self._with_device(func, args, dict(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        self._follow(result, args, kwargs)
        return result

    def _lacks_room(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Tell whether a call takes a tensor that holds nothing, or would make one that does not fit."""
        taken = list(tensors_of(args)) + (list(tensors_of(kwargs)) if kwargs else [])
        if self.room.used and any(holds_nothing(t) for t in taken):
            return True
        if func in VIEWS or self.fill_empty is not None:
            return False
        largest = max((t.numel() * t.element_size() for t in taken), default=0)
        return not self.room.has(largest)

    def _without_values(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        device = claimed(kwargs.pop("device", None))
        kwargs.pop("pin_memory", None)
        result = without_values(func, args, kwargs)
        if device == "cpu":
            mark_cpu(result)
        elif device is None:
            self._follow(result, args, kwargs)
        return result

    def _with_device(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        device = kwargs.pop("device", None)
        pinned = kwargs.pop("pin_memory", None)
        given = claimed(device)
        if given not in {None, "cpu", "gpu"}:
            return func(*args, device=device, **kwargs)  # meta and others stay what they are
        if func in FACTORIES:
            result = self._make(func, args, kwargs)
            if (given or self.default) != "gpu":
                mark_cpu(result)
            return _pinned(result) if pinned else result
        result = func(*args, **kwargs)
        if given == "cpu":
            mark_cpu(result)
        elif given == "gpu":
            for tensor in tensors_in(result):
                tensor.__dict__.pop(_CPU_MARK, None)
        else:
            self._follow(result, args, kwargs)
        return result

    def _make(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        size = size_of(args, kwargs)
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        if size is not None and func in SIZED:
            count = 1
            for n in size:
                count *= n
            n_bytes = count * dtype.itemsize
            lazily = func in ZEROABLE and n_bytes > _LAZY_BYTES and not (self.fill_empty and func is torch.empty)
            if lazily and n_bytes <= _MAPPED_LIMIT:
                result = lazy_zeros(size, dtype, n_bytes)
                if kwargs.get("requires_grad"):
                    result.requires_grad_()
                if func is torch.empty:
                    self.unset.add(result.untyped_storage()._cdata)
                return result
            if not self.room.has(n_bytes):
                if self.fill_empty is not None:
                    raise TooLarge(
                        f"A tensor of {tuple(size)} {dtype} ({n_bytes / 2**30:.1f} GiB) does not fit the memory that "
                        "there is: use smaller sizes."
                    )
                self.room.used = True
                with working_out_shapes():
                    return func(*args, **{k: v for k, v in kwargs.items() if k != "generator"}, device="meta")
            if func in DRAWN and count > DRAWN_ELEMENTS and self.fill_empty is None and not kwargs.get("out"):
                return drawn(func, size, count, kwargs)
        result = func(*args, **kwargs)
        if func in EMPTY:
            return self.emptied(result)
        if isinstance(result, torch.Tensor) and self.unset:
            self.unset.discard(result.untyped_storage()._cdata)
        return result

    def emptied(self, result: Any) -> Any:
        """Fill what an `empty` function returned."""
        if self.fill_empty is not None:
            self.fill_empty(result.detach())
        else:
            result.detach().zero_()
            self.unset.add(result.untyped_storage()._cdata)
        return result

    def _follow(self, result: Any, args: Any, kwargs: Any) -> None:
        """Mark results as the CPU's when every tensor they were computed from is."""
        made = list(tensors_in(result))
        if not made:
            return
        sources = list(tensors_in(args))
        if kwargs:
            sources += [t for v in kwargs.values() for t in tensors_in(v)]
        if sources and all(is_cpus(t) for t in sources):
            for tensor in made:
                setattr(tensor, _CPU_MARK, True)


def _truth(value: Any) -> bool:
    return any(_truth(item) for item in value) if isinstance(value, list) else bool(value)


def _place() -> str:
    """Say where the innermost frame stands that is neither ours nor a library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if "/torch/" not in name and "/tritonforge/" not in name and not name.startswith("<"):
            return f"{os.path.basename(name)}:{frame.f_lineno}"  # noqa: PTH119 - a name, no path
        frame = frame.f_back
    return "somewhere"


def claimed(device: Any) -> str | None:
    """Return `gpu`, `cpu`, None for no device, or the name of another kind, for anything torch takes as a device."""
    if device is None:
        return None
    if isinstance(device, int):
        return "gpu"
    kind = device.type if isinstance(device, torch.device) else str(device).partition(":")[0]
    return "gpu" if kind in _GPU_TYPES else kind


def move(tensor: Any, to: str) -> Any:
    """Return the tensor on the claimed device `cpu` or `gpu`: itself when it is there, else a copy that says so."""
    if (to == "cpu") == is_cpus(tensor):
        return tensor
    result = tensor.clone()
    if to == "cpu":
        setattr(result, _CPU_MARK, True)
    return result


def _pinned(tensor: Any) -> Any:
    setattr(tensor, _PINNED_MARK, True)
    return tensor


def _to(_mode: FakeCudaMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, rest = args[0], list(args[1:])
    goal = claimed(kwargs.pop("device", None))
    other = kwargs.pop("other", None)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    if other is not None:
        goal = "cpu" if is_cpus(other) else "gpu"
        kwargs.setdefault("dtype", other.dtype)
    elif rest and (
        isinstance(rest[0], (str, torch.device)) or (isinstance(rest[0], int) and not isinstance(rest[0], bool))
    ):
        goal = claimed(rest.pop(0))
    elif rest and rest[0] is None:
        rest.pop(0)
    if goal == "meta":
        return func(tensor, "meta", *rest, **kwargs)
    # What is left is dtype, non_blocking, copy in their order; the dtype may be missing.
    if rest and not (rest[0] is None or isinstance(rest[0], torch.dtype)):
        rest.insert(0, None)
    for name, value in zip(("dtype", "non_blocking", "copy"), rest, strict=False):
        kwargs.setdefault(name, value)
    if kwargs.get("dtype", tensor) is None:
        kwargs.pop("dtype")
    was_cpu = is_cpus(tensor)
    result = func(tensor, **kwargs) if kwargs else tensor
    on_cpu = was_cpu if goal is None else goal == "cpu"
    if result is tensor:
        return move(tensor, "cpu" if on_cpu else "gpu")
    if on_cpu:
        setattr(result, _CPU_MARK, True)
    return result


def _type(mode: FakeCudaMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if wanted is None:
        name = func(args[0])
        return name if is_cpus(args[0]) else name.replace("torch.", "torch.cuda.", 1)
    if isinstance(wanted, str) and wanted.startswith("torch.cuda."):
        return move(func(args[0], wanted.replace("torch.cuda.", "torch.", 1)), "gpu")
    if getattr(wanted, "__module__", "") == "torch.cuda":
        return move(func(args[0], wanted.dtype), "gpu")
    result = func(args[0], wanted)
    mode._follow(result, args, None)
    return result


def _empty_like(mode: FakeCudaMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    source: Any = args[0] if args else kwargs.get("input")
    kwargs.pop("pin_memory", None)
    goal = claimed(kwargs.pop("device", None))
    if goal == "meta":
        return func(*args, device="meta", **kwargs)
    n_bytes = source.numel() * source.element_size() if isinstance(source, torch.Tensor) else 0
    plain = func is torch.empty_like and mode.fill_empty is None and n_bytes > _LAZY_BYTES and source.is_contiguous()
    if plain and not holds_nothing(source):
        dtype = kwargs.get("dtype") or source.dtype
        result = mode._make(torch.empty, (tuple(source.shape),), {"dtype": dtype})
        if kwargs.get("requires_grad"):
            result.requires_grad_()
    else:
        result = func(*args, **kwargs)
        mode.emptied(result)
    if goal == "cpu" or (goal is None and is_cpus(source)):
        mark_cpu(result)
    return result


def _as_tensor(mode: FakeCudaMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    goal = claimed(kwargs.pop("device", None))
    result = func(*args, **kwargs)
    source = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    if isinstance(source, torch.Tensor):
        here = "cpu" if is_cpus(source) else "gpu"
        if result is not source and here == "cpu":
            mark_cpu(result)
        return move(result, goal or here)
    if (goal or mode.default) != "gpu":
        mark_cpu(result)
    return result


def _compare(mode: FakeCudaMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return True if mode.results_missing else func(*args, **kwargs)


def _zeros_like(mode: FakeCudaMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    source: Any = args[0] if args else kwargs.get("input")
    n_bytes = source.numel() * source.element_size()
    known = set(kwargs) <= {"dtype", "device", "requires_grad"}
    if not known or n_bytes <= _LAZY_BYTES or not source.is_contiguous() or holds_nothing(source):
        return mode._with_device(func, args, kwargs)
    goal = claimed(kwargs.pop("device", None)) or ("cpu" if is_cpus(source) else "gpu")
    result = mode._make(torch.zeros, (tuple(source.shape),), {"dtype": source.dtype, **kwargs})
    if goal == "cpu":
        mark_cpu(result)
    return result


_SPECIAL: dict[Any, Callable[[FakeCudaMode, Any, Any, dict[str, Any]], Any]] = {
    torch.Tensor.to: _to,
    torch.Tensor.type: _type,
    torch.Tensor.cuda: lambda _m, _f, args, _k: move(args[0], "gpu"),
    torch.Tensor.cpu: lambda _m, _f, args, _k: move(args[0], "cpu"),
    torch.Tensor.pin_memory: lambda _m, _f, args, _k: _pinned(args[0]),
    torch.Tensor.is_pinned: lambda _m, _f, args, _k: _PINNED_MARK in args[0].__dict__,
    torch.Tensor.record_stream: lambda _m, _f, _a, _k: None,
    **dict.fromkeys(functions("as_tensor", "asarray"), _as_tensor),
    **dict.fromkeys(EMPTY_LIKE, _empty_like),
    torch.zeros_like: _zeros_like,
    **dict.fromkeys((torch.allclose, torch.equal, torch.Tensor.allclose, torch.Tensor.equal), _compare),
}
