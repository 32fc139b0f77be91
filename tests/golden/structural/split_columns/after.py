import torch
import triton
import triton.language as tl


@triton.jit
def sums_kernel(
    x_ptr,
    total_ptr,
    highest_ptr,
    rows,
    cols,
    total_parts_ptr,
    highest_parts_ptr,
    BLOCK: tl.constexpr,
    SPLIT: tl.constexpr,
    IN_PARTS: tl.constexpr,
):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    highest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    tile = tl.program_id(0)
    if IN_PARTS:
        part = tl.program_id(1)
        rounds = tl.cdiv(rows, SPLIT)
        first = part * rounds
        for r in range(first, tl.minimum(first + rounds, rows)):
            x = tl.load(x_ptr + r * cols + c, mask=c < cols, other=0.0)
            total += x
            highest = tl.maximum(highest, x)
        slot = (tile * SPLIT + part).to(tl.int64)
        tl.store(total_parts_ptr + slot * BLOCK + tl.arange(0, BLOCK), total)
        tl.store(highest_parts_ptr + slot * BLOCK + tl.arange(0, BLOCK), highest)
    else:
        for part in tl.static_range(SPLIT):
            slot = (tile * SPLIT + part).to(tl.int64)
            total += tl.load(total_parts_ptr + slot * BLOCK + tl.arange(0, BLOCK))
            highest = tl.maximum(highest, tl.load(highest_parts_ptr + slot * BLOCK + tl.arange(0, BLOCK)))
        tl.store(total_ptr + c, total, mask=c < cols)
        tl.store(highest_ptr + c, highest, mask=c < cols)


def sums(x):
    rows, cols = x.shape
    total = torch.empty(cols, device=x.device, dtype=torch.float32)
    highest = torch.empty(cols, device=x.device, dtype=torch.float32)
    BLOCK = 64
    tiles = triton.cdiv(cols, BLOCK)
    SPLIT = 8
    total_parts = torch.empty((tiles * SPLIT, BLOCK), device=x.device, dtype=torch.float32)
    highest_parts = torch.empty((tiles * SPLIT, BLOCK), device=x.device, dtype=torch.float32)
    for in_parts in (True, False):  # every part, then what the parts come to
        sums_kernel[(tiles, SPLIT if in_parts else 1)](
            x,
            total,
            highest,
            rows,
            cols,
            BLOCK=BLOCK,
            total_parts_ptr=total_parts,
            highest_parts_ptr=highest_parts,
            SPLIT=SPLIT,
            IN_PARTS=in_parts,
        )
    return total, highest


def run():
    return sums(torch.randn(100, 150))
