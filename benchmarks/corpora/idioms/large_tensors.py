# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def big_scale_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def big_scale(x):
    y = torch.empty_like(x)
    big_scale_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
    return y


if __name__ == "__main__":
    big_scale(torch.randn(256 * 1024, 512, device="cuda", dtype=torch.float16))
    if torch.cuda.mem_get_info()[0] > 0:
        big_scale(torch.zeros(50 * 1024, 1024 * 1024, device="cuda", dtype=torch.float16))
