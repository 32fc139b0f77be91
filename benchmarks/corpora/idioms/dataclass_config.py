# kernels: 1
import torch
import triton
import triton.language as tl

import dataclasses
import enum


class Mode(enum.Enum):
    RELU = 1
    SQUARE = 2


@dataclasses.dataclass
class Config:
    block: int = 64
    warps: int = 2
    mode: Mode = Mode.RELU


@triton.jit
def mode_kernel(x_ptr, y_ptr, n, MODE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if MODE == 1:
        x = tl.maximum(x, 0)
    elif MODE == 2:
        x = x * x
    tl.store(y_ptr + i, x, mask=i < n)


def activate(x, config):
    y = torch.empty_like(x)
    mode_kernel[(triton.cdiv(x.numel(), config.block),)](x, y, x.numel(), MODE=config.mode.value, BLOCK=config.block, num_warps=config.warps)
    return y


if __name__ == "__main__":
    activate(torch.randn(100, device="cuda"), Config())
    activate(torch.randn(100, device="cuda"), Config(mode=Mode.SQUARE))
