# kernels: 3
import torch
import triton
import triton.language as tl


class Ops:
    @staticmethod
    @triton.jit
    def _cumsum(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        j = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + j, mask=j < N, other=0.0)
        tl.store(y_ptr + row * N + j, tl.cumsum(x, 0), mask=j < N)

    @classmethod
    def cumsum(cls, x):
        y = torch.empty_like(x)
        cls._cumsum[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y


@triton.jit
def gate_kernel(x_ptr, g_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * tl.sigmoid(tl.load(g_ptr + i, mask=i < n)), mask=i < n)


@triton.jit
def lerp_kernel(a_ptr, b_ptr, y_ptr, w, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + i, mask=i < n), tl.load(b_ptr + i, mask=i < n)
    tl.store(y_ptr + i, a + (b - a) * w, mask=i < n)


class Gate(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight
        self.kernel = lerp_kernel

    def forward(self, x, g):
        y, z = torch.empty_like(x), torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 64),)
        gate_kernel[grid](x, g, y, x.numel(), BLOCK=64)
        self.kernel[grid](x, y, z, self.weight, x.numel(), BLOCK=64)
        return z


if __name__ == "__main__":
    x = torch.randn(6, 50, device="cuda")
    Ops.cumsum(x)
    Gate(0.3)(x, x)
