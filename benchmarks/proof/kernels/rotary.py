"""Rotary position embedding, in place: the two halves of every head turn by the angle of their position."""

import torch
import triton
import triton.language as tl


@triton.jit
def rotary_kernel(
    x_ptr,
    cos_ptr,
    sin_ptr,
    position_ptr,
    heads,
    half,
    stride_token,
    stride_head,
    stride_cos,
    CONJUGATE: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One token a program, BLOCK_H heads of it at a time."""
    token = tl.program_id(0)
    position = tl.load(position_ptr + token)
    dims = tl.arange(0, BLOCK_D)
    valid = dims < half
    cos = tl.load(cos_ptr + position * stride_cos + dims, mask=valid, other=1.0).to(tl.float32)
    sin = tl.load(sin_ptr + position * stride_cos + dims, mask=valid, other=0.0).to(tl.float32)
    if CONJUGATE:
        sin = -sin
    for first in range(0, heads, BLOCK_H):
        head = first + tl.arange(0, BLOCK_H)
        at = x_ptr + token * stride_token + head[:, None] * stride_head + dims[None, :]
        mask = (head[:, None] < heads) & valid[None, :]
        left = tl.load(at, mask=mask, other=0.0).to(tl.float32)
        right = tl.load(at + half, mask=mask, other=0.0).to(tl.float32)
        new_left = left * cos[None, :] - right * sin[None, :]
        new_right = right * cos[None, :] + left * sin[None, :]
        tl.store(at, new_left.to(x_ptr.dtype.element_ty), mask=mask)
        tl.store(at + half, new_right.to(x_ptr.dtype.element_ty), mask=mask)


def rotate_(x, cos, sin, positions, conjugate=False):
    """Turn every head of every token, in place.

    Args:
        x: (tokens, heads, head_dim), changed; head_dim even and contiguous, tokens and heads may be apart.
        cos: (positions, head_dim / 2).
        sin: as `cos`, with the same strides.
        positions: (tokens,) int32, rows of `cos`.
        conjugate: turn back.

    Returns:
        `x`.
    """
    tokens, heads, head_dim = x.shape
    half = head_dim // 2
    rotary_kernel[(tokens,)](
        x,
        cos,
        sin,
        positions,
        heads,
        half,
        x.stride(0),
        x.stride(1),
        cos.stride(0),
        CONJUGATE=conjugate,
        BLOCK_H=4,
        BLOCK_D=triton.next_power_of_2(half),
        num_warps=2,
    )
    return x


if __name__ == "__main__":
    angles = torch.arange(2048, device="cuda")[:, None] / 10000 ** (torch.arange(64, device="cuda") / 64)
    positions = torch.arange(1024, device="cuda", dtype=torch.int32)
    rotate_(torch.randn((1024, 32, 128), device="cuda", dtype=torch.float16), angles.cos(), angles.sin(), positions)
    rotate_(torch.randn((1024, 6, 128), device="cuda"), angles.cos(), angles.sin(), positions, conjugate=True)
