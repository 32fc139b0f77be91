import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


class Adder:
    BLOCK = 64  # elements of a program

    def __call__(self, x, y):
        out = torch.empty_like(x)
        n = out.numel()
        grid = (triton.cdiv(n, self.BLOCK),)
        add_kernel[grid](x, y, out, n, BLOCK=self.BLOCK)
        return out

    def padded(self, n):
        return triton.cdiv(n, self.BLOCK) * self.BLOCK


def add(x, y):
    return Adder()(x, y)
