import torch
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, out_ptr, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride  # this row
    cols = tl.arange(0, BLOCK)
    tl.store(w_ptr + cols, 1.0, mask=cols < N)
    w = tl.load(w_ptr + cols, mask=cols < N, other=0.0)
    x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / N + 1e-6) * w
    tl.store(out_ptr + row * N + cols, y.to(x_ptr.dtype.element_ty), mask=cols < N)


def norm(x, w):
    rows = x.numel() // x.shape[-1]
    N = x.shape[-1]
    out = torch.empty_like(x)
    norm_kernel[(rows,)](x, w, out, N, N, triton.next_power_of_2(N))
    return out


def run():
    class Device:
        multi_processor_count = 3

    torch.cuda.get_device_properties = lambda _: Device
    return norm(torch.randn(5, 11, 40), torch.randn(40))
