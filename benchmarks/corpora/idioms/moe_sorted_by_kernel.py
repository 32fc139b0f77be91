# kernels: 3
import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(expert_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(count_ptr + tl.load(expert_ptr + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def place_kernel(expert_ptr, start_ptr, token_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.load(expert_ptr + i, mask=i < n, other=0)
    at = tl.atomic_add(start_ptr + e, 1, mask=i < n)
    tl.store(token_ptr + at, i, mask=i < n)


@triton.jit
def tile_kernel(token_ptr, x_ptr, y_ptr, n, width, TILE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = tl.load(token_ptr + i, mask=i < n, other=0)
    j = tl.arange(0, BLOCK)
    mask = (i[:, None] < n) & (j[None, :] < width)
    tl.store(y_ptr + i[:, None] * width + j[None, :], tl.load(x_ptr + row[:, None] * width + j[None, :], mask=mask), mask=mask)


def route(x, expert, experts):
    n = expert.numel()
    counts = torch.zeros(experts, dtype=torch.int32, device=x.device)
    count_kernel[(triton.cdiv(n, 32),)](expert, counts, n, BLOCK=32)
    busiest = counts.max().item()
    start = torch.cumsum(counts, 0).to(torch.int32) - counts
    token = torch.empty(n, dtype=torch.int32, device=x.device)
    place_kernel[(triton.cdiv(n, 32),)](expert, start, token, n, BLOCK=32)
    y = torch.empty_like(x)
    if busiest > 0:
        tile_kernel[(triton.cdiv(busiest * experts, 16),)](token, x, y, n, x.shape[1], TILE=16, BLOCK=32)
    return y


if __name__ == "__main__":
    route(torch.randn(50, 32, device="cuda"), torch.randint(0, 4, (50,), device="cuda"), 4)
