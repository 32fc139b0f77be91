# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def grouped_scale_kernel(pointers, sizes, factor, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    x_ptr = tl.load(pointers + group).to(tl.pointer_type(tl.float32))
    n = tl.load(sizes + group)
    for at in range(0, n, BLOCK):
        i = at + tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * factor, mask=i < n)


def grouped_scale(tensors, factor):
    pointers = torch.tensor([t.data_ptr() for t in tensors], dtype=torch.int64, device="cuda")
    sizes = torch.tensor([t.numel() for t in tensors], dtype=torch.int32, device="cuda")
    grouped_scale_kernel[(len(tensors),)](pointers, sizes, factor, BLOCK=32)


if __name__ == "__main__":
    grouped_scale([torch.randn(n, device="cuda") for n in (5, 50, 33)], 2.0)
