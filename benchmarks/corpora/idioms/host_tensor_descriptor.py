# kernels: 1
import torch
import triton
import triton.language as tl

from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add_one_kernel(x_desc, y_desc, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    y_desc.store([i, j], x_desc.load([i, j]) + 1)


def add_one(x):
    y = torch.empty_like(x)
    block = [32, 32]
    x_desc = TensorDescriptor(x, list(x.shape), list(x.stride()), block)
    y_desc = TensorDescriptor.from_tensor(y, block)
    add_one_kernel[(triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))](x_desc, y_desc, BM=32, BN=32)
    return y


if __name__ == "__main__":
    add_one(torch.randn(100, 64, device="cuda"))
