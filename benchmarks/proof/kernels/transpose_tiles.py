"""out[b, n, m] = x[b, m, n] for any strides and dtypes, tile by tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(
    x_ptr, out_ptr, M, N,
    x_batch, x_m, x_n,
    out_batch, out_n, out_m,
    TILE: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    cols = tl.program_id(1) * TILE + tl.arange(0, TILE)
    x_tile = x_ptr + batch * x_batch + rows[:, None] * x_m + cols[None, :] * x_n
    tile = tl.load(x_tile, mask=(rows[:, None] < M) & (cols[None, :] < N))
    out_tile = out_ptr + batch * out_batch + cols[:, None] * out_n + rows[None, :] * out_m
    tl.store(out_tile, tl.trans(tile), mask=(cols[:, None] < N) & (rows[None, :] < M))


def transpose(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    batched = x if x.dim() == 3 else x[None]
    B, M, N = batched.shape
    if out is None:
        out = torch.empty((*x.shape[:-2], N, M), device=x.device, dtype=x.dtype)
    target = out if out.dim() == 3 else out[None]
    transpose_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32), B)](
        batched, target, M, N, *batched.stride(), *target.stride(), TILE=32, num_warps=4
    )
    return out


if __name__ == "__main__":
    transpose(torch.randn(16, 1000, 768, device="cuda", dtype=torch.float16))
    transpose(torch.arange(3000 * 500, device="cuda", dtype=torch.int32).reshape(3000, 500))
