"""Which torch operations a host function computes with, and whether its results come from its kernels.

A candidate may do in torch what its original does there, and what splitting a kernel needs: allocate, fill, view, copy,
and reduce what its own kernels wrote. Whatever else it computes in torch would be a library's work in a kernel's name.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tritonforge.worker.fakecuda.patches import Patches

_EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
_PLAIN = _EMPTY | {
    "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "new_zeros", "new_ones", "new_full", "zero",
    "fill", "zero_", "fill_", "scalar_tensor", "arange", "eye", "lift_fresh", "lift_fresh_copy", "lift", "clone",
    "copy_", "copy", "_to_copy", "detach", "detach_", "resize_", "set_", "_local_scalar_dense", "is_same_size",
    "record_stream", "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal_",
    "uniform_", "random_", "bernoulli_", "exponential_", "_reshape_alias", "_unsafe_view", "_pin_memory", "is_pinned",
    "requires_grad_", "_efficientzerotensor", "_conj_copy", "contiguous", "sym_size", "sym_stride", "sym_numel",
}  # fmt: skip
"""Operations that make, fill, move or convert, and compute nothing (aten's names)."""
_COMBINING = {"sum", "amax", "amin"}
"""Reductions that put together what the programs of a split kernel left."""
_READING = ("numpy", "tolist", "__array__", "__dlpack__")
"""Ways in which a tensor's values leave torch."""


@dataclass
class HostWork:
    """What a host function did beside launching: `operations` counts computing ones by aten's name."""

    operations: Counter[str] = field(default_factory=Counter)
    sources: dict[int, set[str]] = field(default_factory=dict)
    """For each storage, where its values are from: `argument`, `kernel`, `host` (an argument, by torch alone)."""

    def sources_of(self, tensor: Any) -> frozenset[str]:
        """Return where the values of a tensor's storage are from."""
        return frozenset(self.sources.get(_key(tensor), ()))


def beyond(work: Mapping[str, int], allowed: Mapping[str, int]) -> str:
    """Return the first operation that was called more often than is allowed; empty when there is none."""
    return next((name for name, count in sorted(work.items()) if count > allowed.get(name, 0)), "")


@contextlib.contextmanager
def watching_host(
    arguments: Mapping[str, Any],
    launches: list[tuple[str, dict[str, Any]]],
    *,
    is_launching: Callable[[], bool] = lambda: False,
    wrote: Callable[[Any], bool] = lambda _tensor: True,
    fill_empty: Callable[[Any], None] | None = None,
) -> Iterator[HostWork]:
    """Watch torch operations of a host function.

    Args:
        arguments: the call's tensors, by path.
        launches: what was launched so far, as (kernel, arguments); grows while the function runs.
        is_launching: whether a launch is under way, whose own operations do not count.
        wrote: whether a launch wrote to the memory of a tensor that it was given; any may have where that is not known.
        fill_empty: fills every tensor that is made without values, whichever way.
    """
    work = HostWork()
    for tensor in arguments.values():
        work.sources.setdefault(_key(tensor), set()).add("argument")
    mode = _Watch(work, launches, is_launching, wrote, fill_empty)
    patches = Patches()
    for name in _READING:
        if hasattr(torch.Tensor, name):
            patches.set(torch.Tensor, name, _counted(getattr(torch.Tensor, name), name, work, is_launching))
    try:
        with mode:
            yield work
        mode.note_launches()
    finally:
        patches.restore()


def _counted(original: Any, name: str, work: HostWork, is_launching: Callable[[], bool]) -> Any:
    def read(*args: Any, **kwargs: Any) -> Any:
        if not is_launching():
            work.operations[f"Tensor.{name}"] += 1
        return original(*args, **kwargs)

    return read


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    """Sees what every call comes down to, whether it was torch's function, an operator, compiled code or a backward."""

    def __init__(
        self,
        work: HostWork,
        launches: list[tuple[str, dict[str, Any]]],
        is_launching: Callable[[], bool],
        wrote: Callable[[Any], bool],
        fill_empty: Callable[[Any], None] | None,
    ) -> None:
        super().__init__()
        self._work, self._launches, self._seen = work, launches, len(launches)
        self._is_launching, self._wrote, self._fill_empty = is_launching, wrote, fill_empty

    def note_launches(self) -> None:
        """Take note of what launches since the last operation have written."""
        for _, bound in self._launches[self._seen :]:
            for tensor in _tensors(list(bound.values())):
                if self._wrote(tensor):
                    self._work.sources.setdefault(_key(tensor), set()).add("kernel")
        self._seen = len(self._launches)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation and take note of it."""
        result = func(*args, **(kwargs or {}))
        if self._is_launching():
            return result
        name = func._schema.name.rpartition("::")[2]
        self.note_launches()
        if name in _EMPTY and self._fill_empty is not None:
            for tensor in _tensors(result):
                if not tensor.is_meta:
                    self._fill_empty(tensor.detach())
        self._note(func, name, args, kwargs or {}, result)
        return result

    def _note(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        schema = func._schema
        if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
            return  # a view
        written: list[Any] = []
        read: list[Any] = []
        for i, argument in enumerate(schema.arguments):
            given = args[i] if i < len(args) else kwargs.get(argument.name)
            found = list(_tensors(given))
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            (written if is_written else read).extend(found)
        if not written:
            written = list(_tensors(result))
            for tensor in written:
                self._work.sources[_key(tensor)] = set()  # memory that was freed may have come back
        elif name not in {"zero_", "fill_", "copy_"}:
            read += written
        sources = [self._work.sources.get(_key(t), set()) for t in read]
        if not self._is_plain(name, read, sources):
            self._work.operations[name.lstrip("_")] += 1
        gained = set()
        for source in sources:
            if "kernel" in source:
                gained.add("kernel")
            elif source:
                gained.add("host")
        for tensor in written:
            self._work.sources.setdefault(_key(tensor), set()).update(gained)

    @staticmethod
    def _is_plain(name: str, read: list[Any], sources: list[set[str]]) -> bool:
        if name in _PLAIN or not read:
            return True
        if name not in _COMBINING or any("argument" in source for source in sources):
            return False
        # Of an empty input no kernel writes anything: there are no values that could be computed with.
        return all("kernel" in source for source in sources) or not any(t.numel() for t in read)


def _alone_without_dynamo(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Return what torch made of a mode's `__torch_dispatch__`, which keeps torch.compile out of it, at less cost.

    Torch imports torch._dynamo for that with the first operation: over 800 modules, in every lane. Where nothing has
    imported it, nothing compiles.
    """
    plain = getattr(wrapped, "__wrapped__", wrapped)  # older versions wrap nothing

    @functools.wraps(plain)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        return (wrapped if "torch._dynamo" in sys.modules else plain)(*args, **kwargs)

    return dispatch


_Watch.__torch_dispatch__ = _alone_without_dynamo(_Watch.__torch_dispatch__)  # type: ignore[method-assign]


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    else:
        base = getattr(value, "base", None)  # of a tensor descriptor
        if isinstance(base, torch.Tensor):
            yield base


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)
