# kernels: 1
import torch
import triton
import triton.language as tl

from torch.library import triton_op, wrap_triton


@triton.jit
def cube_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * x * x, mask=i < n)


@triton_op("idioms::cube", mutates_args={})
def cube(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    n = x.numel()

    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK"]),)

    wrap_triton(cube_kernel)[grid](x, y, n, BLOCK=64)
    return y


if __name__ == "__main__":
    cube(torch.randn(90, device="cuda"))
