"""Group normalisation: Welford's mean and variance of each group, combined over blocks, then scale and shift."""

import torch
import triton
import triton.language as tl


@triton.jit
def merge(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    """Chan's rule for the moments of two samples together; either may be empty."""
    count = count_a + count_b
    share = tl.where(count > 0.0, count_b / tl.maximum(count, 1.0), 0.0)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def group_norm_kernel(
    y_ptr,
    mean_ptr,
    rstd_ptr,
    x_ptr,
    weight_ptr,
    bias_ptr,
    groups,
    group_channels,
    pixels,
    stride_sample,
    stride_channel,
    eps,
    BLOCK: tl.constexpr,
):
    """One group of one sample a program; its group_channels · pixels elements are walked in pieces of BLOCK."""
    sample = tl.program_id(0)
    group = tl.program_id(1)
    first_channel = group * group_channels
    x_group = x_ptr + sample * stride_sample + first_channel * stride_channel
    y_group = y_ptr + sample * stride_sample + first_channel * stride_channel
    size = group_channels * pixels

    lane_mean = tl.zeros((BLOCK,), tl.float32)
    lane_m2 = tl.zeros((BLOCK,), tl.float32)
    lane_count = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < size
        x = tl.load(x_group + (at // pixels) * stride_channel + at % pixels, mask=inside, other=0.0).to(tl.float32)
        new_count = lane_count + inside.to(tl.float32)
        delta = x - lane_mean
        new_mean = lane_mean + delta / tl.maximum(new_count, 1.0)
        lane_m2 = tl.where(inside, lane_m2 + delta * (x - new_mean), lane_m2)
        lane_mean = tl.where(inside, new_mean, lane_mean)
        lane_count = new_count
    mean, m2, count = tl.reduce((lane_mean, lane_m2, lane_count), 0, merge)
    rstd = 1.0 / tl.sqrt(m2 / count + eps)
    tl.store(mean_ptr + sample * groups + group, mean)
    tl.store(rstd_ptr + sample * groups + group, rstd)

    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < size
        channel = at // pixels
        pixel = at % pixels
        x = tl.load(x_group + channel * stride_channel + pixel, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + first_channel + channel, mask=inside, other=1.0).to(tl.float32)
        bias = tl.load(bias_ptr + first_channel + channel, mask=inside, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * weight + bias
        tl.store(y_group + channel * stride_channel + pixel, y.to(y_ptr.dtype.element_ty), mask=inside)


def group_norm(x, groups, weight, bias, eps=1e-5):
    """Normalise each group of channels.

    Args:
        x: (samples, channels, height, width), contiguous.
        groups: divides channels.
        weight: (channels,).
        bias: (channels,).
        eps: added to the variance.

    Returns:
        The result shaped as `x`, and means and reciprocal deviations (samples, groups), float32.
    """
    samples, channels, height, width = x.shape
    x = x.contiguous()
    y = torch.empty_like(x)
    mean = torch.empty((samples, groups), dtype=torch.float32, device=x.device)
    rstd = torch.empty((samples, groups), dtype=torch.float32, device=x.device)
    pixels = height * width
    size = channels // groups * pixels
    BLOCK = max(16, min(256, triton.next_power_of_2(size)))
    group_norm_kernel[(samples, groups)](
        y,
        mean,
        rstd,
        x,
        weight,
        bias,
        groups,
        channels // groups,
        pixels,
        x.stride(0),
        x.stride(1),
        eps,
        BLOCK=BLOCK,
        num_warps=4,
    )
    return y, mean, rstd


if __name__ == "__main__":
    weight, bias = torch.randn(64, device="cuda"), torch.randn(64, device="cuda")
    group_norm(torch.randn((8, 64, 32, 32), device="cuda"), 8, weight, bias)
    group_norm(torch.randn((8, 64, 28, 28), device="cuda", dtype=torch.float16), 4, weight.half(), bias.half())
