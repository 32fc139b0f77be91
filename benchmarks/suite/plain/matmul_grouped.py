"""Products of groups of rows with one matrix each; `offsets` says where each group ends."""

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_kernel(
    x_ptr, w_ptr, y_ptr, offsets_ptr, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(2)
    first = tl.load(offsets_ptr + group)
    last = tl.load(offsets_ptr + group + 1)
    start = first + tl.program_id(0) * BLOCK_M
    if start >= last:
        return
    m = start + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    w_ptr += group * K * N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for at in range(0, K, BLOCK_K):
        kk = at + k
        x = tl.load(x_ptr + m[:, None] * K + kk[None, :], mask=(m[:, None] < last) & (kk[None, :] < K), other=0.0)
        w = tl.load(w_ptr + kk[:, None] * N + n[None, :], mask=(kk[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(x, w)
    mask = (m[:, None] < last) & (n[None, :] < N)
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc.to(y_ptr.dtype.element_ty), mask=mask)


def grouped_matmul(x, weights, offsets, longest):
    groups, K, N = weights.shape
    y = torch.empty((x.shape[0], N), device=x.device, dtype=x.dtype)
    grid = lambda META: (triton.cdiv(longest, META["BLOCK_M"]), triton.cdiv(N, META["BLOCK_N"]), groups)
    grouped_kernel[grid](x, weights, y, offsets, N, K, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    return y


if __name__ == "__main__":
    sizes = [1536, 512, 2048, 256, 1024, 768, 1280, 768]
    offsets = torch.tensor([0] + [sum(sizes[: i + 1]) for i in range(8)], device="cuda", dtype=torch.int32)
    x = torch.randn(sum(sizes), 2048, device="cuda", dtype=torch.bfloat16)
    weights = torch.randn(8, 2048, 4096, device="cuda", dtype=torch.bfloat16)
    grouped_matmul(x, weights, offsets, max(sizes))
