# kernels: 2
import torch
import triton
import triton.language as tl


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["N"]), "EVEN": lambda args: args["N"] % 2 == 0})
@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + j, mask=j < N, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * N + j, e / tl.sum(e, 0), mask=j < N)


@triton.heuristics({"HAS_BIAS": lambda args: args["b_ptr"] is not None, "num_warps": lambda args: 2})
@triton.jit
def bias_kernel(x_ptr, b_ptr, y_ptr, N, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + j, mask=j < N)
    if HAS_BIAS:
        x += tl.load(b_ptr + j, mask=j < N)
    tl.store(y_ptr + row * N + j, x, mask=j < N)


def softmax(x):
    y = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1])
    return y


def add_bias(x, b=None):
    y = torch.empty_like(x)
    bias_kernel[(x.shape[0],)](x, b, y, x.shape[1], BLOCK=128)
    return y


if __name__ == "__main__":
    x = torch.randn(9, 100, device="cuda")
    softmax(x)
    add_bias(x)
    add_bias(x, torch.randn(100, device="cuda"))
