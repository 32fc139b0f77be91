"""Top-1 gating of a mixture of experts: the best expert of each token, its probability, and how many chose each."""

import torch
import triton
import triton.language as tl


@triton.jit
def top1_gating_kernel(
    expert_ptr,
    gate_ptr,
    count_ptr,
    logits_ptr,
    n_tokens,
    n_experts,
    stride_logits,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """ROWS tokens a program; ties go to the expert of the lowest index; counts are added atomically."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    experts = tl.arange(0, BLOCK)
    live = rows < n_tokens
    logits = tl.load(
        logits_ptr + rows[:, None] * stride_logits + experts[None, :],
        mask=live[:, None] & (experts[None, :] < n_experts),
        other=float("-inf"),
    ).to(tl.float32)
    best = tl.max(logits, axis=1)
    chosen = tl.min(tl.where(logits == best[:, None], experts[None, :], BLOCK), axis=1)
    shifted = tl.where(live[:, None], logits - best[:, None], 0.0)
    gate = 1.0 / tl.sum(tl.exp(shifted), axis=1)
    tl.store(expert_ptr + rows, chosen, mask=live)
    tl.store(gate_ptr + rows, gate, mask=live)
    tl.atomic_add(count_ptr + chosen, 1, mask=live)


def top1_gating(logits):
    """Send each token to its best expert.

    Args:
        logits: (tokens, experts), finite; rows may be apart.

    Returns:
        Experts (tokens,) int32, their softmax probabilities (tokens,) float32, and counts (experts,) int32.
    """
    n_tokens, n_experts = logits.shape
    experts = torch.empty(n_tokens, dtype=torch.int32, device=logits.device)
    gates = torch.empty(n_tokens, dtype=torch.float32, device=logits.device)
    counts = torch.zeros(n_experts, dtype=torch.int32, device=logits.device)
    ROWS = 32
    top1_gating_kernel[(triton.cdiv(n_tokens, ROWS),)](
        experts,
        gates,
        counts,
        logits,
        n_tokens,
        n_experts,
        logits.stride(0),
        ROWS=ROWS,
        BLOCK=triton.next_power_of_2(n_experts),
        num_warps=4,
    )
    return experts, gates, counts


if __name__ == "__main__":
    top1_gating(torch.randn((4096, 64), device="cuda"))
    top1_gating(torch.randn((4096, 48), device="cuda", dtype=torch.bfloat16))
