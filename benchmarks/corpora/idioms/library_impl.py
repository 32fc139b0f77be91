# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def shift_kernel(x_ptr, y_ptr, by, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) + by, mask=i < n)


lib = torch.library.Library("idioms_fragment", "DEF")
lib.define("shift(Tensor x, float by) -> Tensor")


def shift(x, by):
    y = torch.empty_like(x)
    with torch.cuda.device(x.device):
        shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, by, x.numel(), BLOCK=64)
    return y


lib.impl("shift", shift, "CUDA")


if __name__ == "__main__":
    torch.ops.idioms_fragment.shift(torch.randn(77, device="cuda"), 1.5)
