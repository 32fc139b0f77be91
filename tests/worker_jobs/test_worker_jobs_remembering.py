"""Remembered operations: the same bits and types as the language's own, for operands of every type and form."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.triton

PROGRAM = """
import itertools

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from tritonforge.worker.interpreter import remembering, shims

shims.install()
if not hasattr(tl.where, "remembered"):
    print("same")  # of a Triton whose operations are as they were
    raise SystemExit

KINDS = [tl.int1, tl.int8, tl.uint8, tl.int16, tl.int32, tl.uint32, tl.int64, tl.float16, tl.bfloat16, tl.float32]
drawn = np.random.default_rng(0)
semantic = interpreter.interpreter_semantic


def block(kind, *shape):
    held = interpreter._get_np_dtype(kind)
    data = drawn.integers(0, 2 if kind is tl.int1 else 100, shape or (1,)).astype(held)
    if kind is not tl.int1 and held.kind == "f":
        data = (drawn.standard_normal(shape or (1,)) * 3).astype(held)
    elif kind is tl.bfloat16:
        data = ((drawn.standard_normal(shape or (1,)) * 3).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    handle = interpreter.TensorHandle(data, kind)
    return tl.tensor(handle, tl.block_type(kind, list(shape)) if shape else kind)


def outcome(function, *args, **kwargs):
    try:
        with np.errstate(all="ignore"):
            found = function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    if not isinstance(found, tl.tensor):
        return repr(found)
    handle = found.handle
    form = [str(found.type), str(found.dtype), [int(n.value) for n in found.shape], int(found.numel.value)]
    return form + ([] if handle is None else [str(handle.dtype), handle.data.dtype.str, handle.data.tobytes()])


def own(function):
    # As the language has it: nothing in it is remembered either.
    def called(*args, **kwargs):
        return remembering._as_it_is(function.remembered, args, kwargs)

    return called


compared = 0


def same(function, *args, **kwargs):
    global compared
    want = outcome(own(function), *args, **kwargs)
    recorded, repeated = outcome(function, *args, **kwargs), outcome(function, *args, **kwargs)
    assert want == recorded == repeated, (function, [getattr(a, "type", a) for a in args], want, recorded, repeated)
    compared += not isinstance(want, str)


two = ["add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift", "lt", "ge", "eq", "ne"]
for name, (a, b) in itertools.product(two, itertools.product(KINDS, KINDS)):
    operator = getattr(tl.tensor, f"__{name}__")
    same(operator, block(a, 4), block(b, 4))
    same(operator, block(a), block(b, 2, 4))
    same(operator, block(a, 2, 1), block(b, 1, 4))
for kind, constant in itertools.product(KINDS, [0, 1, True, -3, 2.5, 0.0, -0.0, float("inf"), 1 << 40, tl.constexpr(2)]):
    for name in ("add", "rsub", "mul", "truediv", "rtruediv", "lt", "rand", "mod"):
        same(getattr(tl.tensor, f"__{name}__"), block(kind, 4), constant)
    same(tl.where, block(tl.int1, 4), block(kind, 4), constant)
    same(tl.maximum, block(kind, 4), constant)
    same(tl.full, (4, 2), constant, kind)
for a, b in itertools.product(KINDS, KINDS):
    same(tl.tensor.to, block(a, 4), b)
    same(tl.cast, block(a), b)
    same(tl.where, block(tl.int1, 2, 4), block(a, 4), block(b, 2, 1))
for kind in KINDS:
    one = block(kind, 4)
    assert one.to(kind) is one
    for name in ("exp", "exp2", "log", "sqrt", "rsqrt", "sin", "floor", "abs", "erf"):
        same(getattr(tl, name), block(kind, 2, 4))
    same(tl.tensor.__neg__, block(kind, 4))
    same(tl.tensor.__invert__, block(kind, 4))
    same(tl.tensor.__getitem__, block(kind, 4), (slice(None), None))
    same(tl.tensor.__getitem__, block(kind, 4), (None, slice(None)))
    same(tl.trans, block(kind, 2, 4))
    same(tl.reshape, block(kind, 2, 4), (4, 2))
    same(tl.broadcast_to, block(kind, 1, 4), (2, 4))
    same(tl.dot, block(kind, 16, 16), block(kind, 16, 16))
    same(tl.dot, block(kind, 16, 16), block(kind, 16, 16), block(tl.float32, 16, 16), input_precision="ieee")
    same(tl.clamp, block(kind, 4), block(kind, 4), block(kind, 4))
    same(tl.fma, block(kind, 4), block(kind), block(kind, 4))

# Other numbers of programs and other memory, through what was recorded before.
builder = interpreter.interpreter_builder
builder.set_grid_dim(7, 1, 1)
for at in (2, 5):
    builder.set_grid_idx(at, 0, 0)
    assert int(tl.program_id(0)) == at
for size in (8, 8):
    memory = torch.arange(float(size))
    pointers = interpreter._implicit_cvt(memory) + tl.arange(0, 8)
    mask = tl.arange(0, 8) < 5
    loaded = tl.load(pointers, mask=mask, other=-1.0)
    assert loaded.handle.data.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]
    tl.store(pointers, loaded * 2, mask=mask)
    assert memory.tolist() == [0, 2, 4, 6, 8, 5, 6, 7]

# An operation costs the same whether it was remembered or not, and is made by the builder as it is now.
x, before = block(tl.float32, 32), remembering.performed()
tl.exp(x), tl.exp(x), x + 1.5, x + 1.5
assert remembering.performed() - before == 4
add = interpreter.InterpreterBuilder.create_fadd
interpreter.InterpreterBuilder.create_fadd = lambda self, lhs, rhs: add(self, lhs, lhs)
assert ((x + 1.5).handle.data == x.handle.data * 2).all()
assert compared > 2500, compared
print("same")
"""


def test_remembered_operations_do_what_the_language_does(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "same", done.stderr
