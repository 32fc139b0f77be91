"""The function mode: strips CUDA devices from calls, fills `torch.empty`, and follows which tensors are the CPU's."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_CPU_MARK = "_tritonforge_cpu"
_LAZY_BYTES = 32 << 20
RESIDENT_LIMIT = 4 << 30
"""The most bytes one tensor that is really filled may take; larger ones end the run with a clear message."""

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


class TooLarge(MemoryError):
    """A tensor does not fit the memory that recording may use."""


class FakeCudaMode(TorchFunctionMode):  # type: ignore[misc]
    """Sees every overridable torch function while code runs as if there were a GPU."""

    def __init__(self, fill_empty: Callable[[Any], None] | None) -> None:
        super().__init__()
        self.fill_empty = fill_empty
        self.default = "cpu"
        self.unset: set[int] = set()
        """Storages that `torch.empty` and its like made and that nothing was seen to fill since."""
        self.results_missing = False
        """Set once a kernel was not run: comparisons of results then say what they would if it had been right."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer or forward one call."""
        special = _SPECIAL.get(func)
        if special is not None:
            return special(self, func, args, dict(kwargs or {}))
        if kwargs:
            if "device" in kwargs or "pin_memory" in kwargs:
                return self._with_device(func, args, dict(kwargs))
            if kwargs.get("out") is not None:
                return func(*args, **kwargs)
        if func in _FACTORIES:
            return self._with_device(func, args, dict(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        self._follow(result, args, kwargs)
        return result

    def _with_device(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        device = kwargs.pop("device", None)
        kwargs.pop("pin_memory", None)
        given = claimed(device)
        if given not in {None, "cpu", "gpu"}:
            return func(*args, device=device, **kwargs)  # meta and others stay what they are
        if func in _FACTORIES:
            result = self._make(func, args, kwargs)
            if (given or self.default) != "gpu":
                mark_cpu(result)
            return result
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
        size = _size_of(args, kwargs)
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        if size is not None and func in _SIZED:
            count = 1
            for n in size:
                count *= n
            n_bytes = count * dtype.itemsize
            if func in _ZEROABLE and n_bytes > _LAZY_BYTES and not (self.fill_empty and func is torch.empty):
                result = _lazy_zeros(size, dtype, n_bytes)
                if kwargs.get("requires_grad"):
                    result.requires_grad_()
                if func is torch.empty:
                    self.unset.add(result.untyped_storage()._cdata)
                return result
            if n_bytes > RESIDENT_LIMIT:
                raise TooLarge(
                    f"A tensor of {tuple(size)} {dtype} ({n_bytes / 2**30:.1f} GiB) does not fit the memory that "
                    "recording may use: record with smaller sizes."
                )
        result = func(*args, **kwargs)
        if func in _EMPTY:
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


def claimed(device: Any) -> str | None:
    """Return `gpu`, `cpu`, None for no device, or the name of another kind, for anything torch takes as a device."""
    if device is None:
        return None
    if isinstance(device, int):
        return "gpu"
    kind = device.type if isinstance(device, torch.device) else str(device).partition(":")[0]
    return "gpu" if kind in _GPU_TYPES else kind


def _size_of(args: Any, kwargs: dict[str, Any]) -> list[int] | None:
    size = kwargs.get("size", args)
    if (len(size) == 1 and isinstance(size[0], (tuple, list))) or (size and isinstance(size[0], (tuple, list))):
        size = size[0]
    try:
        return [int(n) for n in size]
    except (TypeError, ValueError):
        return None


def _lazy_zeros(size: list[int], dtype: Any, n_bytes: int) -> Any:
    """Return zeros whose pages exist only once they are written: large outputs of kernels never are here."""
    memory = mmap.mmap(-1, -(-n_bytes // mmap.PAGESIZE) * mmap.PAGESIZE)
    return torch.frombuffer(memory, dtype=torch.uint8, count=n_bytes).view(dtype).view(size)


def move(tensor: Any, to: str) -> Any:
    """Return the tensor on the claimed device `cpu` or `gpu`: itself when it is there, else a copy that says so."""
    if (to == "cpu") == is_cpus(tensor):
        return tensor
    result = tensor.clone()
    if to == "cpu":
        setattr(result, _CPU_MARK, True)
    return result


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
    result = func(args[0], wanted)
    mode._follow(result, args, None)
    return result


def _empty_like(mode: FakeCudaMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    source = args[0] if args else kwargs.get("input")
    kwargs.pop("pin_memory", None)
    goal = claimed(kwargs.pop("device", None))
    if goal == "meta":
        return func(*args, device="meta", **kwargs)
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


def _functions(*names: str) -> set[Any]:
    return {getattr(torch, name) for name in names if hasattr(torch, name)}


_ZEROABLE = _functions("empty", "zeros")
_SIZED = _functions("empty", "zeros", "ones", "rand", "randn", "full")
_EMPTY = _functions("empty", "empty_strided", "empty_permuted")
_EMPTY_LIKE: set[Any] = {torch.empty_like, torch.Tensor.new_empty}
if hasattr(torch.Tensor, "new_empty_strided"):
    _EMPTY_LIKE.add(torch.Tensor.new_empty_strided)
_FACTORIES = _functions(
    "empty", "empty_strided", "empty_permuted", "zeros", "ones", "full", "rand", "randn", "randint", "randperm",
    "arange", "range", "linspace", "logspace", "eye", "tensor", "scalar_tensor", "from_numpy", "frombuffer",
    "from_file",
    "tril_indices", "triu_indices",
    "hann_window", "hamming_window", "blackman_window", "bartlett_window",
    "kaiser_window",
    "sparse_coo_tensor", "sparse_csr_tensor",
)  # fmt: skip
_SPECIAL: dict[Any, Callable[[FakeCudaMode, Any, Any, dict[str, Any]], Any]] = {
    torch.Tensor.to: _to,
    torch.Tensor.type: _type,
    torch.Tensor.cuda: lambda _m, _f, args, _k: move(args[0], "gpu"),
    torch.Tensor.cpu: lambda _m, _f, args, _k: move(args[0], "cpu"),
    torch.Tensor.pin_memory: lambda _m, _f, args, _k: args[0],
    torch.Tensor.is_pinned: lambda _m, _f, _a, _k: False,
    torch.Tensor.record_stream: lambda _m, _f, _a, _k: None,
    **dict.fromkeys(_functions("as_tensor", "asarray"), _as_tensor),
    **dict.fromkeys(_EMPTY_LIKE, _empty_like),
    **dict.fromkeys((torch.allclose, torch.equal, torch.Tensor.allclose, torch.Tensor.equal), _compare),
}
