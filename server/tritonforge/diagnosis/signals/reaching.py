"""How large a tensor is in memory, and which accesses a launch makes to it."""

from __future__ import annotations

from collections.abc import Iterator

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import tensors
from tritonforge.domain.kernel import Reach
from tritonforge.domain.launch import Tensor
from tritonforge.domain.semantics import Extreme


def span(tensor: Tensor) -> int:
    """Return how many elements lie between a tensor's first and one past its last, in memory."""
    if 0 in tensor.shape:
        return 0
    steps = zip(tensor.shape, tensor.strides, strict=False)
    return 1 + sum((extent - 1) * stride for extent, stride in steps if stride > 0)


def room(case: Case, name: str) -> int | None:
    """Return how many elements are known to lie behind the pointer `name`: of its tensor and others of its storage."""
    every = tensors(case.launch)
    tensor = every.get(name)
    if tensor is None:
        return None
    own = span(tensor)
    if tensor.buffer < 0:
        return own
    same = (t for t in every.values() if t.buffer == tensor.buffer and t.dtype == tensor.dtype)
    return max([own, *(t.offset - tensor.offset + span(t) for t in same)])


def happens(case: Case, reach: Reach) -> bool:
    """Tell whether a store or atomic surely happens: nothing but the kernel's data decides, or it was compiled in."""
    if not reach.chosen:
        return True
    work = case.compiled.work if case.compiled is not None else None
    lines = range(reach.range.start.line, reach.range.end.line + 1)
    there = [work.lines[line] for line in lines if line in work.lines] if work is not None else []
    return any(line.store_bytes or line.atomic_ops for line in there)


def extremes(case: Case) -> Iterator[tuple[Extreme, Tensor]]:
    """Yield how far each line goes into each tensor of the launch, as compiled."""
    compiled = case.compiled
    if compiled is None or compiled.semantics is None:
        return
    every = tensors(case.launch)
    for extreme in compiled.semantics.extremes:
        tensor = every.get(extreme.pointer)
        if tensor is not None:
            yield extreme, tensor
