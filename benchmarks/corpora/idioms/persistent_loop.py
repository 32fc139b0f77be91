# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def persistent_add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    blocks = tl.cdiv(n, BLOCK)
    for tile in range(tl.program_id(0), blocks, tl.num_programs(0)):
        i = tile.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        tl.store(c_ptr + i, tl.load(a_ptr + i, mask=i < n) + tl.load(b_ptr + i, mask=i < n), mask=i < n)


def persistent_add(a, b):
    c = torch.empty_like(a)
    sms = torch.cuda.get_device_properties(a.device).multi_processor_count
    persistent_add_kernel[(min(sms, triton.cdiv(a.numel(), 64)),)](a, b, c, a.numel(), BLOCK=64)
    return c


if __name__ == "__main__":
    persistent_add(torch.randn(20000, device="cuda"), torch.randn(20000, device="cuda"))
