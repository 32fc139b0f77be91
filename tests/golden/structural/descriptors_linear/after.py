"""Activations times a weight that is stored [out, in], over tiles that programs share."""

import torch
import triton
import triton.language as tl


def allocated(size, alignment, stream):
    """Return memory for descriptors."""
    return torch.empty(size, device="cuda", dtype=torch.int8)


triton.set_allocator(allocated)


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}, num_warps=4)], key=["M", "N"])
@triton.jit
def linear_kernel(
    x_ptr, w_ptr, y_ptr, M, N, K, stride_x, stride_w, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * columns
    inner = tl.arange(0, BLOCK_K)
    if ALIGNED:
        x_desc = tl.make_tensor_descriptor(x_ptr, [M, K], [stride_x, 1], [BLOCK_M, BLOCK_K])
        w_desc = tl.make_tensor_descriptor(w_ptr, [N, K], [stride_w, 1], [BLOCK_N, BLOCK_K])
    for tile in range(tl.program_id(0), tiles, programs):
        first_m = (tile // columns).to(tl.int64) * BLOCK_M
        m = first_m + tl.arange(0, BLOCK_M)
        n = (tile % columns) * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            k = step * BLOCK_K + inner
            mask = (m[:, None] < M) & (k[None, :] < K)
            if ALIGNED:
                x = x_desc.load([first_m.to(tl.int32), step * BLOCK_K])
                w = w_desc.load([(tile % columns) * BLOCK_N, step * BLOCK_K])
            else:
                x = tl.load(x_ptr + m[:, None] * stride_x + k[None, :], mask, 0.0)
                w = tl.load(
                    w_ptr + (n * stride_w)[:, None] + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0
                )
            acc = tl.dot(x, tl.trans(w), acc)
        tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def linear(x, weight):
    """Return `x @ weight.T` of an (M, K) matrix and an (N, K) one, in float32."""
    M, K = x.shape
    N = weight.shape[0]
    y = torch.empty((M, N), device=x.device, dtype=torch.float32)
    programs = min(132, triton.cdiv(M, 16) * triton.cdiv(N, 16))
    # Tensor descriptors read rows that begin at multiples of 16 bytes, and take some memory themselves.
    aligned = (
        x.data_ptr() % 16 == 0
        and weight.data_ptr() % 16 == 0
        and x.stride(0) % 16 == 0
        and weight.stride(0) % 16 == 0
    )
    linear_kernel[(programs,)](x, weight, y, M, N, K, x.stride(0), weight.stride(0), programs, ALIGNED=aligned)
    return y


def run():
    x, weight = torch.randn(40, 48), torch.randn(35, 48)
    return linear(x, weight), linear(x[:, :39].contiguous(), weight[:, :39])
