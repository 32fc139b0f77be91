"""RMS normalisation of rows: y = x / sqrt(mean(x^2) + eps) * weight; the reciprocal root is kept for the backward."""

import torch
import triton
import triton.language as tl


@triton.jit
def _rms_norm_fwd(Y, Y_stride, X, X_stride, W, RSTD, n_cols, eps, offset, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(X + row * X_stride + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask, other=0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / n_cols
    rstd = tl.rsqrt(mean_square + eps)
    tl.store(RSTD + row, rstd)
    y = x * rstd * (offset + w)
    tl.store(Y + row * Y_stride + cols, y.to(Y.dtype.element_ty), mask=mask)


def rms_norm_forward(X, W, eps=1e-6, offset=0.0):
    shape = X.shape
    dim = shape[-1]
    X = X.reshape(-1, dim)
    if X.stride(-1) != 1:
        X = X.contiguous()
    n_rows, n_cols = X.shape
    BLOCK = triton.next_power_of_2(n_cols)
    Y = torch.empty((n_rows, n_cols), dtype=X.dtype, device=X.device)
    RSTD = torch.empty(n_rows, dtype=torch.float32, device=X.device)
    assert X.shape[1] == W.shape[0], "Incompatible hidden size"
    _rms_norm_fwd[(n_rows,)](
        Y, Y.stride(0), X, X.stride(0), W, RSTD, n_cols, eps, offset,
        BLOCK=BLOCK, num_warps=min(max(BLOCK // 256, 1), 8),
    )  # fmt: skip
    return Y.view(*shape), RSTD


if __name__ == "__main__":
    hidden = torch.randn(4, 512, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    rms_norm_forward(hidden, weight)
    query = torch.randn(2048, 128, device="cuda")
    rms_norm_forward(query, torch.ones(128, device="cuda"), 1e-5)
