"""First projection of a mixture of experts: tokens are sorted by expert and padded to whole blocks on the host."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64


@triton.jit
def moe_kernel(
    x_ptr, w_ptr, y_ptr, token_ptr, expert_ptr, tokens, N, K, top_k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    expert = tl.load(expert_ptr + block)
    slot = tl.load(token_ptr + block * BLOCK_M + tl.arange(0, BLOCK_M))
    valid = slot < tokens * top_k
    row = slot // top_k
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    w_ptr += expert * N * K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        kk = start + k
        x = tl.load(x_ptr + row[:, None] * K + kk[None, :], mask=valid[:, None] & (kk[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + kk[:, None], mask=(n[None, :] < N) & (kk[:, None] < K), other=0.0)
        acc += tl.dot(x, w)
    mask = valid[:, None] & (n[None, :] < N)
    tl.store(y_ptr + slot[:, None] * N + n[None, :], acc.to(y_ptr.dtype.element_ty), mask=mask)


def plan(experts_of_tokens, experts, block):
    """Sort the slots of tokens by expert; every expert starts a new block, filled up with slots that do not exist."""
    flat = experts_of_tokens.reshape(-1).cpu()
    order, owners = [], []
    for expert in range(experts):
        slots = torch.nonzero(flat == expert).reshape(-1)
        blocks = (slots.numel() + block - 1) // block
        order.append(torch.cat([slots, torch.full((blocks * block - slots.numel(),), flat.numel())]))
        owners += [expert] * blocks
    device = experts_of_tokens.device
    return (
        torch.cat(order).to(device=device, dtype=torch.int32),
        torch.tensor(owners, dtype=torch.int32).to(device),
    )


def moe(x, weights, token_of_slot, expert_of_block, top_k):
    tokens, K = x.shape
    N = weights.shape[1]
    y = torch.empty((tokens * top_k, N), device=x.device, dtype=x.dtype)
    grid = (expert_of_block.numel(), triton.cdiv(N, 64))
    moe_kernel[grid](
        x, weights, y, token_of_slot, expert_of_block, tokens, N, K, top_k, BLOCK_M=BLOCK_M, BLOCK_N=64, BLOCK_K=32
    )
    return y


if __name__ == "__main__":
    x = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
    weights = torch.randn(16, 2816, 2048, device="cuda", dtype=torch.bfloat16)
    chosen = torch.stack([torch.randperm(16)[:2] for _ in range(4096)]).to("cuda")
    token_of_slot, expert_of_block = plan(chosen, 16, BLOCK_M)
    moe(x, weights, token_of_slot, expert_of_block, 2)
