"""Cross entropy of every row of logits; also returns the log-sum-exp for the backward pass."""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, loss_ptr, lse_ptr, vocab, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride
    highest = -float("inf")
    for start in range(0, vocab, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + cols, mask=cols < vocab, other=-float("inf")).to(tl.float32)
        highest = tl.maximum(highest, tl.max(x, axis=0))
    total = 0.0
    for start in range(0, vocab, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + cols, mask=cols < vocab, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(x - highest), axis=0)
    lse = highest + tl.log(total)
    target = tl.load(target_ptr + row)
    picked = tl.load(logits_ptr + target).to(tl.float32)
    tl.store(loss_ptr + row, lse - picked)
    tl.store(lse_ptr + row, lse)


def cross_entropy(logits, target):
    rows, vocab = logits.shape
    loss = torch.empty(rows, device=logits.device, dtype=torch.float32)
    lse = torch.empty(rows, device=logits.device, dtype=torch.float32)
    BLOCK = 1024
    cross_entropy_kernel[(rows,)](logits, target, loss, lse, vocab, logits.stride(0), BLOCK)
    return loss, lse


if __name__ == "__main__":
    logits = torch.randn(8192, 32000, device="cuda", dtype=torch.bfloat16)
    target = torch.randint(0, 32000, (8192,), device="cuda")
    cross_entropy(logits, target)
