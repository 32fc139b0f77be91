"""Depthwise causal convolution over time with a carried-in state: taps reach into the halo before the block."""

import torch
import triton
import triton.language as tl


@triton.jit
def causal_conv1d_kernel(
    y_ptr,
    x_ptr,
    w_ptr,
    bias_ptr,
    state_ptr,
    channels,
    time,
    stride_xb,
    stride_xc,
    stride_xt,
    stride_yb,
    stride_yc,
    TAPS: tl.constexpr,
    SILU: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """BLOCK time steps of one channel of one sequence a program; the state holds the TAPS − 1 inputs before time 0."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.program_id(1)
    batch = tl.program_id(2)
    x = x_ptr + batch * stride_xb + channel * stride_xc
    state = state_ptr + (batch * channels + channel) * (TAPS - 1)
    acc = tl.zeros((BLOCK,), tl.float32) + tl.load(bias_ptr + channel).to(tl.float32)
    for tap in tl.static_range(TAPS):
        source = t + tap - (TAPS - 1)
        w = tl.load(w_ptr + channel * TAPS + tap).to(tl.float32)
        now = tl.load(x + source * stride_xt, mask=(source >= 0) & (source < time), other=0.0).to(tl.float32)
        before = tl.load(state + source + TAPS - 1, mask=source < 0, other=0.0).to(tl.float32)
        acc += w * tl.where(source < 0, before, now)
    if SILU:
        acc = acc * tl.sigmoid(acc)
    y = y_ptr + batch * stride_yb + channel * stride_yc
    tl.store(y + t, acc.to(y_ptr.dtype.element_ty), mask=t < time)


def causal_conv1d(x, weight, bias, state, silu=True):
    """Convolve each channel with its taps, causally.

    Args:
        x: (batch, channels, time), any strides.
        weight: (channels, taps), contiguous; the last tap meets the present.
        bias: (channels,).
        state: (batch, channels, taps − 1), contiguous: the inputs before time 0, oldest first.
        silu: whether to activate.

    Returns:
        (batch, channels, time), contiguous, in the type of `x`.
    """
    batch, channels, time = x.shape
    y = torch.empty((batch, channels, time), dtype=x.dtype, device=x.device)
    BLOCK = 128
    grid = (triton.cdiv(time, BLOCK), channels, batch)
    causal_conv1d_kernel[grid](
        y,
        x,
        weight,
        bias,
        state,
        channels,
        time,
        x.stride(0),
        x.stride(1),
        x.stride(2),
        y.stride(0),
        y.stride(1),
        TAPS=weight.shape[1],
        SILU=silu,
        BLOCK=BLOCK,
        num_warps=2,
    )
    return y


if __name__ == "__main__":
    weight, bias = torch.randn((256, 4), device="cuda"), torch.randn(256, device="cuda")
    state = torch.randn((4, 256, 3), device="cuda")
    causal_conv1d(torch.randn((4, 256, 2048), device="cuda"), weight, bias, state)
    channel_last = torch.randn((4, 2048, 256), device="cuda", dtype=torch.float16).transpose(1, 2)
    causal_conv1d(channel_last, weight.half(), bias.half(), state.half(), silu=False)
