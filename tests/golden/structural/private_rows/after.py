import torch
import triton
import triton.language as tl


@triton.jit
def gradient_kernel(dy_ptr, x_ptr, dx_ptr, dw_ptr, loss_ptr, N, rows, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    own_dw = tl.zeros((BLOCK,), tl.float32)
    own_loss = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0)
        dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0)
        tl.store(dx_ptr + row * N + cols, dy * 2.0, mask=mask)
        own_dw += dy * x
        own_loss += tl.where(mask, dy, 0.0)
    # the weight's gradient is that of all rows
    tl.atomic_add(dw_ptr + cols, own_dw, mask=mask)
    tl.atomic_add(loss_ptr, tl.sum(own_loss, axis=0))


def gradient(dy, x):
    M, N = x.shape
    dx = torch.empty_like(x)
    dw = torch.zeros(N, device=x.device, dtype=torch.float32)
    loss = torch.zeros((), device=x.device, dtype=torch.float32)
    gradient_kernel[(triton.cdiv(M, 4),)](dy, x, dx, dw, loss, N, BLOCK=triton.next_power_of_2(N), rows=M)
    return dx, dw, loss


def run():
    return gradient(torch.randn(50, 40), torch.randn(50, 40))
