import torch
import triton
import triton.language as tl


@triton.jit
def loss_kernel(
    logits,
    labels,
    out,
    n_rows,
    n_cols,
    stride,
    BLOCK: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
):
    row = tl.program_id(axis=0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    row_mask = row < n_rows
    label = tl.load(labels + row, mask=row_mask)
    peak = tl.full((BLOCK_ROWS, 1), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_ROWS, 1), tl.float32)
    smallest = tl.full((BLOCK_ROWS, BLOCK), float("inf"), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * stride + cols, mask=(cols < n_cols) & row_mask, other=float("-inf")).to(tl.float32)
        new = tl.maximum(peak, tl.max(x, axis=1, keep_dims=True))
        total = total * tl.exp(peak - new) + tl.sum(tl.exp(x - new), axis=1, keep_dims=True)
        peak = new
        smallest = tl.minimum(smallest, x)
    wanted = tl.load(logits + row * stride + label, mask=row_mask).to(tl.float32)
    loss = peak + tl.log(total) - wanted
    loss = tl.where(label == -100, 0.0, loss)
    tl.store(out + row, loss, mask=row_mask)


def loss(logits, labels):
    out = torch.empty(logits.shape[0], device=logits.device)
    loss_kernel[lambda meta: (triton.cdiv(logits.shape[0], 32),)](
        logits,
        labels,
        out,
        logits.shape[0],
        logits.shape[1],
        logits.stride(0),
        BLOCK=64,
        BLOCK_ROWS=32,
    )
    return out


def run():
    return loss(torch.randn(33, 150), torch.randint(0, 150, (33,)))
