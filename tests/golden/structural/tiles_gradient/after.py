import torch
import triton
import triton.language as tl


@triton.jit
def weight_gradient_kernel(
    x_ptr, dy_ptr, scale_ptr, dw_ptr, most_ptr, M, N, weight, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr
):
    """Gradient of a norm's weight, and the largest gradient of each column."""
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    # One sum for each column.
    dw = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    most = tl.full([BLOCK_M, BLOCK_N], float("-inf"), tl.float32)
    for start in tl.range(0, M, BLOCK_M, num_stages=2):  # every row
        row = start + tl.arange(0, BLOCK_M)[:, None]
        in_rows = row < M
        x = tl.load(x_ptr + row * N + cols, mask=mask & in_rows, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=mask & in_rows, other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + row, mask=in_rows, other=0)
        # By the length of the row.
        length = tl.sqrt(tl.sum(x * x, axis=1, keep_dims=True) + 1e-6)
        dw += tl.where(in_rows, dy * x * scale / length, 0.0)
        most = tl.maximum(most, tl.where(in_rows, tl.abs(dy), float("-inf")))
    dw = tl.sum(dw, axis=0)
    most = tl.max(most, axis=0)
    tl.store(dw_ptr + cols, dw * weight, mask=mask)
    tl.store(most_ptr + cols, most, mask=mask)


def weight_gradient(x, dy, scale):
    M, N = x.shape
    dw = torch.empty(N, device=x.device)
    most = torch.empty(N, device=x.device)
    block = triton.next_power_of_2(N)
    weight_gradient_kernel[(1,)](x, dy, scale, dw, most, M, N, 2.0, BLOCK_N=block, BLOCK_M=16)
    return dw, most


def run():
    return weight_gradient(torch.randn(37, 200), torch.randn(37, 200), torch.rand(37))
