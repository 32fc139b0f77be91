"""Reductions and scans with a function of the kernel's own: the same as element by element, in order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.triton

PROGRAM = """
import numpy as np
import torch
import triton
import triton.language as tl

import tritonforge.worker.interpreter.combining as combining


@triton.jit
def affine(a, b, c, d):  # y = d·(b·x + …): associative, and not commutative
    return a * c, b * c + d


@triton.jit
def first_largest(value, index, other, at):
    take = (value > other) | ((value == other) & (index < at))
    return tl.where(take, value, other), tl.where(take, index, at)


@triton.jit
def reduces(x, i, o, k, A: tl.constexpr, KEEP: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v, n = tl.reduce((tl.load(x + at), tl.load(i + at)), A, first_largest, keep_dims=KEEP)
    if KEEP:
        v, n = tl.reshape(v, R if A == 1 else C), tl.reshape(n, R if A == 1 else C)
    out = tl.arange(0, R if A == 1 else C)
    tl.store(o + out, v)
    tl.store(k + out, n)


@triton.jit
def scans(x, y, o, A: tl.constexpr, BACK: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    _, b = tl.associative_scan((tl.load(x + at), tl.load(y + at)), A, affine, reverse=BACK)
    tl.store(o + at, b)


def run():
    torch.manual_seed(0)
    x = torch.randn(8, 16).mul(3).round()
    i = torch.arange(128, dtype=torch.int32).reshape(8, 16)
    found = []
    for axis in (0, 1):
        for keep in (False, True):
            o, k = torch.empty(16 if axis == 0 else 8), torch.empty(16 if axis == 0 else 8, dtype=torch.int32)
            reduces[(1,)](x, i, o, k, axis, keep, 8, 16)
            found += [o, k]
        for back in (False, True):
            o = torch.empty(8, 16)
            scans[(1,)](torch.rand(8, 16), torch.randn(8, 16), o, axis, back, 8, 16)
            found.append(o)
    return found


torch_seed = torch.manual_seed
one_by_one = run()
combining.install()
calls = 0
combine = combining._combine


def counted(*args):
    global calls
    calls += 1
    return combine(*args)


combining._combine = counted
for want, got in zip(one_by_one, run(), strict=True):
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
assert calls == 4 * (3 + 4), calls  # the logarithms of 8 and 16, each for two reductions and two scans
print("same")
"""


RUNNING = """
import numpy as np
import torch
import triton
import triton.language as tl

import tritonforge.worker.interpreter.combining as combining


@triton.jit
def running(x, s, p, kept, A: tl.constexpr, BACK: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + at)
    tl.store(s + at, tl.cumsum(v, A, reverse=BACK))
    tl.store(p + at, tl.cumprod(v, A, reverse=BACK))
    tl.store(kept + at, v)


def run(x, axis=1, back=False):
    s, p, kept = (torch.empty_like(x) for _ in range(3))
    running[(1,)](x, s, p, kept, axis, back, *x.shape)
    assert torch.equal(kept, x)
    return s, p


def want(x, axis, back, dtype=torch.float64):
    x = (x.flip(axis) if back else x).to(dtype)
    found = x.cumsum(axis, dtype=dtype), x.cumprod(axis, dtype=dtype)
    return [one.flip(axis) if back else one for one in found]


def error(got, right):
    return float(((got.double() - right) / right).abs().max())


combining.install()
torch.manual_seed(0)
for shape in ((8, 16), (1, 32), (32, 1), (1, 1)):
    for axis in (0, 1):
        for back in (False, True):
            for dtype, eps in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.float16, 2e-2)):
                x = (torch.rand(shape) + 0.5).to(dtype)
                for got, right in zip(run(x, axis, back), want(x, axis, back)):
                    assert got.dtype == dtype and error(got, right) < eps, (shape, axis, back, dtype)
            x = torch.randint(-(1 << 30), 1 << 30, shape, dtype=torch.int32)
            for got, right in zip(run(x, axis, back), want(x, axis, back, torch.int32)):
                assert torch.equal(got, right), (shape, axis, back)

# A tree of n terms loses log2(n) roundings of a sum; one after the other, equal terms lose in one direction.
x = torch.full((1, 4096), 0.1)
right = want(x, 1, False)[0]
lost, before = error(run(x)[0], right), error(torch.from_numpy(np.cumsum(x.numpy(), 1)), right)
assert lost < 12 * 2**-24, (lost, before)
assert before > 8 * lost, (lost, before)

# A product has a rounding for each term either way, but a tree of equal terms squares again and again.
x = torch.full((1, 4096), 1.0003)
product, squared = run(x)[1][0], x[0, 0]
for k in range(13):
    assert product[2**k - 1] == squared, k
    squared = squared * squared
print("as a tree")
"""


def said_by(program: str, tmp_path) -> str:
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_blocks_are_combined_as_their_elements_would_be_and_in_their_order(tmp_path):
    assert said_by(PROGRAM, tmp_path) == "same"


def test_running_sums_and_products_are_as_exact_as_those_of_a_tree(tmp_path):
    assert said_by(RUNNING, tmp_path) == "as a tree"
