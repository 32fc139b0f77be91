"""Gradient of an embedding table: rows of the gradient are added where they were looked up."""

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_backward_kernel(grad_ptr, ids_ptr, out_ptr, dim, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    row = tl.load(ids_ptr + token)
    for start in range(0, dim, BLOCK):
        c = start + tl.arange(0, BLOCK)
        g = tl.load(grad_ptr + token * dim + c, mask=c < dim, other=0.0).to(tl.float32)
        tl.atomic_add(out_ptr + row * dim + c, g, mask=c < dim)


def embedding_backward(grad, ids, vocab):
    tokens, dim = grad.shape
    out = torch.zeros((vocab, dim), device=grad.device, dtype=torch.float32)
    grid = (tokens,)
    embedding_backward_kernel[grid](grad, ids, out, dim, BLOCK=256)
    return out


if __name__ == "__main__":
    grad = torch.randn(16384, 2048, device="cuda", dtype=torch.bfloat16)
    ids = torch.randint(0, 32000, (16384,), device="cuda")
    embedding_backward(grad, ids, 32000)
