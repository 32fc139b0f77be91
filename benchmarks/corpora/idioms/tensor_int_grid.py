# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def segment_sum_kernel(x_ptr, offsets_ptr, y_ptr, BLOCK: tl.constexpr):
    s = tl.program_id(0)
    start, end = tl.load(offsets_ptr + s), tl.load(offsets_ptr + s + 1)
    total = 0.0
    for at in range(start, end, BLOCK):
        i = at + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + i, mask=i < end, other=0.0), 0)
    tl.store(y_ptr + s, total)


@triton.jit
def pad_kernel(x_ptr, offsets_ptr, y_ptr, width, BLOCK: tl.constexpr):
    s, b = tl.program_id(0), tl.program_id(1)
    start, end = tl.load(offsets_ptr + s), tl.load(offsets_ptr + s + 1)
    i = b * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + i, mask=start + i < end, other=0.0)
    tl.store(y_ptr + s * width + i, x, mask=i < width)


def segment_sum(x, offsets):
    y = torch.empty(offsets.numel() - 1, device=x.device)
    segment_sum_kernel[(offsets.numel() - 1,)](x, offsets, y, BLOCK=32)
    return y


def pad(x, offsets):
    lengths = offsets[1:] - offsets[:-1]
    width = lengths.max()
    y = x.new_empty(lengths.numel(), int(width))
    pad_kernel[(lengths.numel(), triton.cdiv(width.item(), 16))](x, offsets, y, int(width), BLOCK=16)
    return y


if __name__ == "__main__":
    lengths = torch.tensor([5, 40, 0, 17], device="cuda")
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    x = torch.randn(int(offsets[-1]), device="cuda")
    segment_sum(x, offsets)
    pad(x, offsets)
