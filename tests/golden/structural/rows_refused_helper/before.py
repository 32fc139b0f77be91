import torch
import triton
import triton.language as tl


@triton.jit
def half(x):
    return x * 0.5


@triton.jit
def loss_kernel(
    logits,
    labels,
    out,
    n_rows,
    n_cols,
    stride,
    BLOCK: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    label = tl.load(labels + pid)
    peak = float("-inf")
    total = 0.0
    smallest = tl.full((BLOCK,), float("inf"), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits + pid * stride + cols, mask=cols < n_cols, other=float("-inf")).to(tl.float32)
        new = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp(peak - new) + tl.sum(tl.exp(x - new), axis=0)
        peak = new
        smallest = tl.minimum(smallest, x)
    wanted = tl.load(logits + pid * stride + label).to(tl.float32)
    loss = peak + tl.log(total) - wanted
    loss = tl.where(label == -100, 0.0, loss)
    tl.store(out + pid, half(loss))


def loss(logits, labels):
    out = torch.empty(logits.shape[0], device=logits.device)
    loss_kernel[lambda meta: (logits.shape[0],)](
        logits,
        labels,
        out,
        logits.shape[0],
        logits.shape[1],
        logits.stride(0),
        BLOCK=64,
    )
    return out


def run():
    return loss(torch.randn(33, 150), torch.randint(0, 150, (33,)))
