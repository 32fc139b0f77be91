import torch
import triton
import triton.language as tl


@triton.jit
def gradient_kernel(dy_ptr, x_ptr, dx_ptr, dw_ptr, loss_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * N
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + cols, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0)
    x_ptr += 1
    tl.store(dx_ptr + cols, dy * 2.0, mask=mask)
    # the weight's gradient is that of all rows
    tl.atomic_add(dw_ptr + cols, dy * x, mask=mask)
    tl.atomic_add(loss_ptr, tl.sum(tl.where(mask, dy, 0.0), axis=0))


def gradient(dy, x):
    M, N = x.shape
    dx = torch.empty_like(x)
    dw = torch.zeros(N, device=x.device, dtype=torch.float32)
    loss = torch.zeros((), device=x.device, dtype=torch.float32)
    gradient_kernel[(M,)](dy, x, dx, dw, loss, N, BLOCK=triton.next_power_of_2(N))
    return dx, dw, loss


def run():
    return gradient(torch.randn(50, 40), torch.randn(50, 40))
