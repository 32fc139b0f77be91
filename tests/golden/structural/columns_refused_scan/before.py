import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(X, Y, W, stride, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    X += row * stride
    Y += row * stride
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    # The row, once.
    x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    x = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    x = tl.cumsum(x, axis=0)
    w = tl.load(W + cols, mask=mask)
    tl.store(Y + cols, x * rstd * w, mask=mask)


def layer_norm(x, w):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    num_warps = min(max(BLOCK_SIZE // 256, 1), 16)
    layer_norm_kernel[(n_rows,)](x, y, w, x.stride(0), n_cols, 1e-5, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    return y


def run():
    return layer_norm(torch.randn(3, 9000), torch.randn(9000))
