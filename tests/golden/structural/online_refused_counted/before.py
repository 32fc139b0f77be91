import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, cols, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    m = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=3):
        c = start + tl.arange(0, BLOCK)[None, :]
        mask = (r < rows) & (c < cols)
        scores = tl.load(x_ptr + r * cols + c, mask=mask, other=0.0) * scale
        m = tl.maximum(m, tl.max(tl.where(mask, scores, float("-inf")), axis=1))
    total = tl.zeros((ROWS,), dtype=tl.float32)
    for at in tl.range(0, cols, BLOCK, num_stages=3):
        c = at + tl.arange(0, BLOCK)[None, :]
        mask = (r < rows) & (c < cols)
        scores = tl.load(x_ptr + r * cols + c, mask=mask, other=0.0) * scale
        p = tl.exp2((tl.where(mask, scores, float("-inf")) - m[:, None]) * 1.4426950408889634)
        _ = tl.atomic_add(out_ptr, 1.0)
        total += tl.sum(p, axis=1)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)[None, :]
        mask = (r < rows) & (c < cols)
        x = tl.load(x_ptr + r * cols + c, mask=mask, other=0.0) * scale
        y = tl.exp2((x - m[:, None]) * 1.4426950408889634) / total[:, None]
        tl.store(out_ptr + r * cols + c, y, mask=mask)


def softmax(x, scale=0.7):
    rows, cols = x.shape
    out = torch.empty_like(x)
    softmax_kernel[(triton.cdiv(rows, 4),)](x, out, rows, cols, scale, ROWS=4, BLOCK=64)
    return out


def run():
    return softmax(torch.randn(7, 300) * 4)
