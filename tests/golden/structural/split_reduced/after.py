import torch
import triton
import triton.language as tl


@triton.jit
def gradients_kernel(
    dy_ptr,
    x_ptr,
    dw_ptr,
    db_ptr,
    most_ptr,
    M,
    N,
    dw_parts_ptr,
    db_parts_ptr,
    most_parts_ptr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLIT: tl.constexpr,
    IN_PARTS: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    most = tl.full((BLOCK_M, BLOCK_N), float("-inf"), dtype=tl.float32)
    tile = tl.program_id(0)
    if IN_PARTS:
        part = tl.program_id(1)
        rounds = tl.cdiv(M, BLOCK_M * SPLIT)
        first = part * rounds * BLOCK_M
        for start in range(first, tl.minimum(first + rounds * BLOCK_M, M), BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)
            mask = (rows[:, None] < M) & (cols[None, :] < N)
            at = rows[:, None] * N + cols[None, :]
            dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
            dw += dy * tl.load(x_ptr + at, mask=mask, other=0.0)
            db += dy
            most = tl.maximum(most, tl.abs(dy))
        slot = (tile * SPLIT + part).to(tl.int64)
        tl.store(dw_parts_ptr + slot * BLOCK_N + tl.arange(0, BLOCK_N), tl.sum(dw, axis=0))
        tl.store(db_parts_ptr + slot * BLOCK_N + tl.arange(0, BLOCK_N), tl.sum(db, 0))
        tl.store(most_parts_ptr + slot * BLOCK_N + tl.arange(0, BLOCK_N), tl.max(most, axis=0))
    else:
        # Rows go first.
        # of all rows
        dw = tl.zeros((BLOCK_N,), dtype=tl.float32)
        bias = tl.zeros((BLOCK_N,), dtype=tl.float32)
        most = tl.full((BLOCK_N,), float("-inf"), dtype=tl.float32)
        for part in tl.static_range(SPLIT):
            slot = (tile * SPLIT + part).to(tl.int64)
            dw += tl.load(dw_parts_ptr + slot * BLOCK_N + tl.arange(0, BLOCK_N))
            bias += tl.load(db_parts_ptr + slot * BLOCK_N + tl.arange(0, BLOCK_N))
            most = tl.maximum(most, tl.load(most_parts_ptr + slot * BLOCK_N + tl.arange(0, BLOCK_N)))
        tl.store(dw_ptr + cols, dw.to(dw_ptr.dtype.element_ty), mask=cols < N)
        tl.store(db_ptr + cols, bias, mask=cols < N)
        tl.store(most_ptr + cols, most, mask=cols < N)


def gradients(dy, x):
    M, N = x.shape
    dw = torch.empty(N, device=x.device)
    db = torch.empty(N, device=x.device)
    most = torch.empty(N, device=x.device)
    BLOCK_N = 64
    tiles = triton.cdiv(N, 64)
    SPLIT = 4
    dw_parts = torch.empty((tiles * SPLIT, BLOCK_N), device=dy.device, dtype=torch.float32)
    db_parts = torch.empty((tiles * SPLIT, BLOCK_N), device=dy.device, dtype=torch.float32)
    most_parts = torch.empty((tiles * SPLIT, BLOCK_N), device=dy.device, dtype=torch.float32)
    for in_parts in (True, False):  # every part, then what the parts come to
        gradients_kernel[(tiles, SPLIT if in_parts else 1)](
            dy,
            x,
            dw,
            db,
            most,
            M,
            N,
            BLOCK_M=4,
            BLOCK_N=BLOCK_N,
            dw_parts_ptr=dw_parts,
            db_parts_ptr=db_parts,
            most_parts_ptr=most_parts,
            SPLIT=SPLIT,
            IN_PARTS=in_parts,
        )
    return dw, db, most


def run():
    return gradients(torch.randn(70, 100), torch.randn(70, 100))
