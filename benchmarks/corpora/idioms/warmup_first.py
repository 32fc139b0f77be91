# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def mish_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    s = tl.log(1 + tl.exp(x))
    tl.store(y_ptr + i, x * (2 * tl.sigmoid(2 * s) - 1), mask=i < n)


def mish(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel = mish_kernel.warmup(x, y, n, BLOCK=128, grid=(1,))
    kernel._init_handles()
    n_regs, shared = kernel.n_regs, kernel.metadata.shared
    programs = max(1, min(8, 65536 // (n_regs * 128), 100000 // max(1, shared)))
    mish_kernel[(max(programs, triton.cdiv(n, 128)),)](x, y, n, BLOCK=128)
    return y


if __name__ == "__main__":
    mish(torch.randn(800, device="cuda"))
