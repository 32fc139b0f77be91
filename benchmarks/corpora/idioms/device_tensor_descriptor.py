# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    y.store(at, x.load(at) * 2)


def double(x):
    def alloc(size, alignment, stream):
        return torch.empty(size, device="cuda", dtype=torch.int8)

    triton.set_allocator(alloc)
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 64))](x, y, *x.shape, BM=16, BN=64)
    return y


if __name__ == "__main__":
    double(torch.randn(50, 128, device="cuda"))
