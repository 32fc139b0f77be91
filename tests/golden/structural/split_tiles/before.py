import torch
import triton
import triton.language as tl


@triton.jit
def sum_columns_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr, BLOCK_ROWS: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = c < cols
    total = tl.zeros((BLOCK_ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, rows, BLOCK_ROWS):
        r = start + tl.arange(0, BLOCK_ROWS)[:, None]
        in_rows = r < rows
        total += tl.load(x_ptr + r * cols + c, mask=mask & in_rows, other=0.0).to(tl.float32)
    total = tl.sum(total, axis=0)
    tl.store(out_ptr + c, total, mask=mask)


def sum_columns(x):
    rows, cols = x.shape
    out = torch.empty(cols, device=x.device, dtype=torch.float32)

    def grid(meta):
        return (triton.cdiv(cols, meta["BLOCK"]),)

    sum_columns_kernel[grid](x, out, rows, cols, BLOCK=64, BLOCK_ROWS=64)
    return out


def run():
    return sum_columns(torch.randn(45, 150))
