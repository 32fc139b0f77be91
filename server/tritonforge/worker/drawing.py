"""Draw the values of a tensor from their distribution, seeded, on any device."""

from __future__ import annotations

import math
from typing import Any

import torch

from tritonforge.domain.launch import Distribution, Hostile
from tritonforge.worker.hostile import draw_hostile


def draw(policy: Distribution | Hostile, shape: tuple[int, ...], dtype: Any, generator: Any) -> Any:
    """Draw a dense tensor of `dtype` from a distribution, on the generator's device."""
    if isinstance(policy, Hostile):
        if dtype.is_floating_point:
            return draw_hostile(policy, shape, dtype, generator)
        policy = Distribution()
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)
    whole = not dtype.is_floating_point
    values = _regular(policy, shape, generator)
    if values is None and dtype == torch.bool:
        share = policy.mean if policy.kind == "normal" and 0 < policy.mean < 1 else 0.5
        return torch.rand(shape, generator=generator, device=generator.device) < share
    if values is None:
        values = _whole_numbers(policy, shape, dtype, generator) if whole else _numbers(policy, shape, dtype, generator)
    if policy.zero_fraction > 0.0:
        where = torch.rand(shape, generator=generator, device=generator.device) < policy.zero_fraction
        values = values.masked_fill_(where, 0)
    if policy.order != "random":
        values = values.reshape(-1).sort(descending=policy.order == "descending").values.reshape(shape)
    if not whole:
        _put_specials(policy, values, generator)
    return values if values.dtype == dtype else values.to(dtype)


def _regular(policy: Distribution, shape: tuple[int, ...], generator: Any) -> Any:
    """Return values of the kinds whose whole matters, or None for the kinds whose elements are independent."""
    device, n = generator.device, math.prod(shape)
    if policy.kind == "bernoulli":
        return (torch.rand(shape, generator=generator, device=device) < policy.mean).to(torch.float32)
    first = math.ceil(policy.low)
    if policy.kind == "arange":
        return torch.arange(first, first + n, device=device).reshape(shape)
    if policy.kind == "permutation":
        return torch.randperm(n, generator=generator, device=device).add_(first).reshape(shape)
    if policy.kind != "offsets":
        return None
    last = max(first, math.floor(policy.high))
    values = torch.randint(first, last + 1, (n,), generator=generator, device=device).sort().values
    if n:
        values[-1] = last
        values[0] = first
    return values.reshape(shape)


def _whole_numbers(policy: Distribution, shape: tuple[int, ...], dtype: Any, generator: Any) -> Any:
    low, high = _integer_range(policy, dtype)
    return torch.randint(low, high + 1, shape, generator=generator, device=generator.device, dtype=torch.int64)


def _numbers(policy: Distribution, shape: tuple[int, ...], dtype: Any, generator: Any) -> Any:
    device = generator.device
    wide_type = torch.float64 if dtype == torch.float64 else torch.float32
    if policy.kind == "zeros":
        return torch.zeros(shape, device=device, dtype=wide_type)
    if policy.kind == "constant":
        return torch.full(shape, policy.low, device=device, dtype=wide_type)
    if policy.kind == "uniform":
        values = torch.rand(shape, generator=generator, device=device, dtype=wide_type)
        return values.mul_(policy.high - policy.low).add_(policy.low)
    values = torch.randn(shape, generator=generator, device=device, dtype=wide_type)
    if policy.std != 1.0:
        values.mul_(policy.std)
    if policy.mean != 0.0:
        values.add_(policy.mean)
    if policy.low >= 0.0 and policy.mean > 0.0 and policy.high > policy.mean and policy.low != 0.0:
        values.clamp_(policy.low, policy.high)  # strictly positive data (variances, scales) stays positive
    return values


def _put_specials(policy: Distribution, values: Any, generator: Any) -> None:
    """Make the shares of NaN, +Inf and -Inf that the distribution asks for, in place."""
    shares = (
        (policy.nan_fraction, math.nan),
        (policy.inf_fraction, math.inf),
        (policy.negative_inf_fraction, -math.inf),
    )
    if not any(share > 0.0 for share, _ in shares):
        return
    coin = torch.rand(values.shape, generator=generator, device=generator.device)
    at = 0.0
    for share, value in shares:
        if share > 0.0:
            values.masked_fill_((coin >= at) & (coin < at + share), value)
        at += share


def _integer_range(policy: Distribution, dtype: Any) -> tuple[int, int]:
    info = torch.iinfo(dtype)
    if policy.kind == "normal":
        low, high = policy.mean - 3 * policy.std, policy.mean + 3 * policy.std
    elif policy.kind == "constant":
        low = high = policy.low
    else:
        low, high = policy.low, policy.high
    lowest, highest = max(info.min, -(1 << 62)), min(info.max, (1 << 62) - 1)
    first = min(max(math.ceil(low), lowest), highest)
    return first, min(max(math.floor(high), first), highest)
