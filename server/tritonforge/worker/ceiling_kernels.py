"""Kernels that do one thing only, so that its ceiling can be measured."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def read_l2(data, sums, blocks, rounds, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
    """Read `rounds` of the `blocks` blocks of `data` past L1, a different one each time, and store their sum."""
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(rounds):
        block = (program * 7 + i * 61) % blocks
        total += tl.load(data + block * BLOCK + lanes, cache_modifier=".cg")
    tl.store(sums + program, tl.sum(total, 0))


@triton.jit
def touch(data):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Store one number."""
    tl.store(data, 1.0)
