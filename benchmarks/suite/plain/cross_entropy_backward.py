"""Gradient of cross entropy with respect to the logits."""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_backward_kernel(grad_ptr, logits_ptr, target_ptr, lse_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < vocab
    x = tl.load(logits_ptr + row * vocab + cols, mask=mask, other=-float("inf")).to(tl.float32)
    lse = tl.load(lse_ptr + row)
    target = tl.load(target_ptr + row)
    grad = tl.load(grad_ptr + row)
    p = tl.exp(x - lse)
    dx = tl.where(cols == target, p - 1.0, p) * grad
    tl.store(out_ptr + row * vocab + cols, dx.to(out_ptr.dtype.element_ty), mask=mask)


def cross_entropy_backward(grad, logits, target, lse):
    rows, vocab = logits.shape
    out = torch.empty_like(logits)
    BLOCK = min(512, triton.next_power_of_2(vocab))
    grid = (rows, triton.cdiv(vocab, BLOCK))
    cross_entropy_backward_kernel[grid](grad, logits, target, lse, out, vocab, BLOCK=BLOCK)
    return out


if __name__ == "__main__":
    logits = torch.randn(8192, 32000, device="cuda", dtype=torch.bfloat16)
    target = torch.randint(0, 32000, (8192,), device="cuda")
    lse = torch.logsumexp(logits.float(), dim=1)
    grad = torch.full((8192,), 1.0 / 8192, device="cuda")
    cross_entropy_backward(grad, logits, target, lse)
