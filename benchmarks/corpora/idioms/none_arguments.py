# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, res_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + j, mask=j < N, other=0.0).to(tl.float32)
    if res_ptr is not None:
        x += tl.load(res_ptr + row * N + j, mask=j < N, other=0.0)
    mean = tl.sum(x, 0) / N
    centred = tl.where(j < N, x - mean, 0.0)
    y = centred / tl.sqrt(tl.sum(centred * centred, 0) / N + eps)
    if w_ptr is not None:
        y *= tl.load(w_ptr + j, mask=j < N)
    if b_ptr is not None:
        y += tl.load(b_ptr + j, mask=j < N)
    tl.store(y_ptr + row * N + j, y, mask=j < N)


def norm(x, weight=None, bias=None, residual=None, eps=1e-6):
    y = torch.empty_like(x)
    norm_kernel[(x.shape[0],)](x, weight, bias, residual, y, x.shape[1], eps, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


if __name__ == "__main__":
    x = torch.randn(5, 72, device="cuda")
    norm(x)
    norm(x, torch.ones(72, device="cuda"), None, x)
