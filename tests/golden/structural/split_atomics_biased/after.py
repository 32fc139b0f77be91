import torch
import triton
import triton.language as tl


@triton.jit
def products_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    K,
    partial_ptr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT: tl.constexpr,
    IN_PARTS: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    batch = tl.program_id(1)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    if IN_PARTS:
        part = tl.program_id(2)
        rounds = tl.cdiv(K, BLOCK_K * SPLIT)
        first = part * rounds * BLOCK_K
        for start in range(first, tl.minimum(first + rounds * BLOCK_K, K), BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            inside = (m[:, None] < M) & (k[None, :] < K)
            a = tl.load(a_ptr + (batch * M + m[:, None]) * K + k[None, :], mask=inside, other=0.0)
            b = tl.load(b_ptr + batch * K + k, mask=k < K, other=0.0)
            total += tl.sum(a * b[None, :], axis=1)
        slot = (tile * SPLIT + part).to(tl.int64)
        tl.store(partial_ptr + slot * BLOCK_M + tl.arange(0, BLOCK_M), total)
    else:
        for part in tl.static_range(SPLIT):
            slot = (tile * SPLIT + part).to(tl.int64)
            total += tl.load(partial_ptr + slot * BLOCK_M + tl.arange(0, BLOCK_M))
        total += 1.0  # once for each batch
        tl.atomic_add(c_ptr + m, total, mask=m < M)


def products(a, b):
    B, M, K = a.shape
    c = torch.zeros(M, device=a.device, dtype=torch.float32)
    BLOCK_M = 16
    tiles_x = triton.cdiv(M, 16)
    SPLIT = 8
    partial = torch.empty((tiles_x * B * SPLIT, BLOCK_M), device=a.device, dtype=torch.float32)
    for in_parts in (True, False):  # every part, then what the parts come to
        products_kernel[(tiles_x, B, SPLIT if in_parts else 1)](
            a, b, c, M, K, BLOCK_M=BLOCK_M, BLOCK_K=32, partial_ptr=partial, SPLIT=SPLIT, IN_PARTS=in_parts
        )
    return c


def run():
    return products(torch.randn(3, 20, 200), torch.randn(3, 200))
