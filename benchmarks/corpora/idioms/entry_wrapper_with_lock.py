# kernels: 1
import torch
import triton
import triton.language as tl

import threading
from triton.runtime.jit import JITFunction, KernelInterface


class LockedEntry(KernelInterface):
    """An entry of its own that binds arguments itself and calls the jitted function's `run`."""

    def __init__(self, fn):
        self.fn = fn
        self.arg_names = fn.arg_names
        self.lock = threading.Lock()
        inner = fn
        while not isinstance(inner, JITFunction) and hasattr(inner, "fn") and hasattr(inner.fn, "arg_names"):
            inner = inner.fn
        self.jit = inner

    def run(self, *args, **kwargs):
        grid = kwargs["grid"]
        bound = dict(zip(self.arg_names, args))
        bound.update(kwargs)
        with self.lock:
            kernel = self.fn.run(*args, **kwargs)
        assert callable(grid) or len(tuple(grid)) >= 1
        return kernel


def libentry(fn):
    return LockedEntry(fn)


@libentry
@triton.jit
def where_kernel(c_ptr, a_ptr, b_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.load(c_ptr + i, mask=i < n)
    a = tl.load(a_ptr + i, mask=i < n)
    b = tl.load(b_ptr + i, mask=i < n)
    tl.store(o_ptr + i, tl.where(c, a, b), mask=i < n)


def where(c, a, b):
    o = torch.empty_like(a)
    with torch.cuda.device(a.device):
        where_kernel[(triton.cdiv(a.numel(), 128),)](c, a, b, o, a.numel(), BLOCK=128)
    return o


if __name__ == "__main__":
    a = torch.randn(200, device="cuda")
    where(a > 0, a, -a)
