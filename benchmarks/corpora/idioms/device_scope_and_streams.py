# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def first_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 3, mask=i < n)


@triton.jit
def second_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.sqrt(tl.abs(tl.load(x_ptr + i, mask=i < n))), mask=i < n)


def pipeline(x):
    side = torch.cuda.Stream()
    y, z = torch.empty_like(x), torch.empty_like(x)
    done = torch.cuda.Event(enable_timing=True)
    with torch.cuda.device(x.device.index), torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        first_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        done.record(side)
        y.record_stream(side)
    torch.cuda.current_stream().wait_event(done)
    with torch.cuda.device_of(x):
        second_kernel[(triton.cdiv(x.numel(), 128),)](y, z, x.numel(), BLOCK=128)
    torch.cuda.synchronize()
    return z


if __name__ == "__main__":
    pipeline(torch.randn(250, device=torch.device("cuda", 0)))
