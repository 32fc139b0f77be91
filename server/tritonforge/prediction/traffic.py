"""How many bytes a launch must move at least."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from tritonforge.domain.launch import Launch, RecordedLaunch, Tensor, tensors_of


@dataclass(frozen=True)
class Footprint:
    """The distinct bytes that a launch is given: all together, and of each argument by name."""

    total: int
    arguments: Mapping[str, int] = field(default_factory=dict)


def footprint_of(launch: Launch | RecordedLaunch) -> Footprint:
    """Return the distinct bytes of a launch's tensors (see `unique_bytes`), of each argument too."""
    arguments = launch.arguments if isinstance(launch, RecordedLaunch) else launch.problem.arguments
    held = {name: tuple(tensors_of(value)) for name, value in arguments}
    sizes = {name: sum(_buffer_bytes([one]) for one in tensors) for name, tensors in held.items() if tensors}
    return Footprint(unique_bytes(launch), sizes)


def unique_bytes(launch: Launch | RecordedLaunch) -> int:
    """Return the distinct bytes of all tensors that a launch is given.

    Elements that several indices reach (a stride of 0, overlapping windows) count once, and so do tensors that alias.
    An upper bound of what the launch must move: a kernel may read only a part of a tensor.
    """
    arguments = launch.arguments if isinstance(launch, RecordedLaunch) else launch.problem.arguments
    buffers: dict[object, list[Tensor]] = {}
    for index, tensor in enumerate(t for _, value in arguments for t in tensors_of(value)):
        buffers.setdefault(tensor.buffer if tensor.buffer >= 0 else ("alone", index), []).append(tensor)
    return sum(_buffer_bytes(tensors) for tensors in buffers.values())


def element_bytes(dtype: str) -> int:
    """Return the bytes of one element of a PyTorch dtype by name; 4 when the name says nothing."""
    if dtype == "bool":
        return 1
    if dtype.startswith("complex"):
        return int(dtype[7:]) // 8
    if dtype.startswith("float8"):
        return 1
    bits = re.search(r"(\d+)", dtype)
    return max(1, int(bits[1]) // 8) if bits else 4


def _buffer_bytes(tensors: list[Tensor]) -> int:
    """Distinct bytes of tensors on one storage: their sum, but no more than the stretch that they cover together."""
    sizes = [_distinct(t) * element_bytes(t.dtype) for t in tensors]
    spans = [
        (t.offset * element_bytes(t.dtype), (t.offset + t.span) * element_bytes(t.dtype)) for t in tensors if t.elements
    ]
    if not spans:
        return 0
    covered, reach = 0, None
    for start, end in sorted(spans):
        begin = start if reach is None else max(start, reach)
        covered += max(0, end - begin)
        reach = end if reach is None else max(reach, end)
    # Equal views of one storage (in-place kernels) are one; views that interleave are bounded by what they cover.
    distinct = {(t.offset, t.shape, t.strides, t.dtype): size for t, size in zip(tensors, sizes, strict=True)}
    return min(covered, sum(distinct.values()))


def _distinct(tensor: Tensor) -> int:
    return min(tensor.span, prod(n for n, s in zip(tensor.shape, tensor.strides, strict=False) if s != 0))
