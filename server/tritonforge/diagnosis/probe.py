"""A small program that any target can load, compile and run: what it does not do, the target cannot."""

from __future__ import annotations

from pathlib import Path

from tritonforge.domain.messages import Program
from tritonforge.workload.specs import parse_spec

_SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def probe(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def double(x):
    out = torch.empty_like(x)
    probe[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out
"""

SMALL, LARGE = (parse_spec(f"x=fp32[{elements}]", file="probe.py", function="double") for elements in (1000, 1 << 22))
"""Calls of the probe: one that the interpreter runs in no time, one that a GPU is busy with for a while."""


def probe_program(folder: Path) -> Program:
    """Write the probe into `folder`, and return it as a program."""
    (folder / "probe.py").write_text(_SOURCE)
    return Program(str(folder), "probe.py", (("probe.py", _SOURCE),))
