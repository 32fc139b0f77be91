# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0))


@triton.jit
def final_kernel(part_ptr, y_ptr, parts, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(part_ptr + i, mask=i < parts, other=0.0), 0))


_workspace = {}


def workspace(device, n):
    if device not in _workspace or _workspace[device].numel() < n:
        _workspace[device] = torch.empty(n, device=device)
    return _workspace[device]


def two_stage_sum(x):
    parts = triton.cdiv(x.numel(), 128)
    buffer = workspace(x.device, parts)
    y = torch.empty(1, device=x.device)
    partial_kernel[(parts,)](x, buffer, x.numel(), BLOCK=128)
    final_kernel[(1,)](buffer, y, parts, BLOCK=triton.next_power_of_2(parts))
    return y


if __name__ == "__main__":
    two_stage_sum(torch.randn(1000, device="cuda"))
    two_stage_sum(torch.randn(3000, device="cuda"))
