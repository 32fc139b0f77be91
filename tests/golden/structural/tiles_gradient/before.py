import torch
import triton
import triton.language as tl


@triton.jit
def weight_gradient_kernel(x_ptr, dy_ptr, scale_ptr, dw_ptr, most_ptr, M, N, weight, BLOCK_N: tl.constexpr):
    """Gradient of a norm's weight, and the largest gradient of each column."""
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    # One sum for each column.
    dw = tl.zeros([BLOCK_N], tl.float32)
    most = tl.full([BLOCK_N], float("-inf"), tl.float32)
    for row in tl.range(0, M, num_stages=2):  # every row
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + row)
        # By the length of the row.
        length = tl.sqrt(tl.sum(x * x, axis=0) + 1e-6)
        dw += dy * x * scale / length
        most = tl.maximum(most, tl.abs(dy))
    tl.store(dw_ptr + cols, dw * weight, mask=mask)
    tl.store(most_ptr + cols, most, mask=mask)


def weight_gradient(x, dy, scale):
    M, N = x.shape
    dw = torch.empty(N, device=x.device)
    most = torch.empty(N, device=x.device)
    block = triton.next_power_of_2(N)
    weight_gradient_kernel[(1,)](x, dy, scale, dw, most, M, N, 2.0, BLOCK_N=block)
    return dw, most


def run():
    return weight_gradient(torch.randn(37, 200), torch.randn(37, 200), torch.rand(37))
