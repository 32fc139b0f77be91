"""Inputs on which a wrong causal attention shows."""

import torch
from cases import Case, Direct, Host, randn


def reference(q, k, v, scale=None):
    batch, heads, length, head_dim = q.shape
    scale = head_dim**-0.5 if scale is None else scale
    group = heads // k.shape[1]
    keys = k.double().repeat_interleave(group, dim=1)
    values = v.double().repeat_interleave(group, dim=1)
    scores = q.double() @ keys.transpose(-1, -2) * scale
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(hidden, float("-inf"))
    weights = scores.softmax(-1)
    # A weight of exactly zero behind the mask still multiplies NaN and Inf of values that are not visible.
    out = torch.stack([weights[..., i, : i + 1].unsqueeze(-2) @ values[..., : i + 1, :] for i in range(length)], dim=-2)
    return out.reshape(batch, heads, length, head_dim).to(q.dtype), scores.logsumexp(-1).float()


def qkv(batch=1, heads=2, kv_heads=1, length=70, head_dim=24, dtype=torch.float32, spread=1.0):
    q = randn(batch, heads, length, head_dim, dtype=dtype) * spread
    k = randn(batch, kv_heads, length, head_dim, dtype=dtype, seed=1) * spread
    return q, k, randn(batch, kv_heads, length, head_dim, dtype=dtype, seed=2)


def typical():
    """The file's first call, smaller."""
    return qkv(2, 4, 2, 64, 64, torch.float16)


def along_time(ramp):
    """Scores that are `ramp` of the key's position, for every query."""
    q, k, v = qkv(length=100)
    q, k = torch.zeros_like(q), torch.zeros_like(k)
    q[..., 0] = 1.0
    k[..., 0] = ramp(torch.arange(100.0))
    return q, k, v, 1.0


def gaps():
    """Rows further apart in each tensor, each by another distance."""
    q, k, v = qkv()
    wide = [torch.full((*t.shape[:-1], t.shape[-1] + pad), 9.0) for t, pad in ((q, 3), (k, 5), (v, 8))]
    views = [w[..., : t.shape[-1]] for w, t in zip(wide, (q, k, v), strict=True)]
    for view, t in zip(views, (q, k, v), strict=True):
        view.copy_(t)
    return tuple(views)


def hidden_nan():
    q, k, v = qkv()
    k[0, 0, 20, 3] = float("nan")
    return q, k, v


def nan_query():
    """What lies behind the head's dimensions belongs to the next row, and must not reach this one."""
    q, k, v = qkv()
    q[0, 0, 5, 0] = float("nan")
    return q, k, v


def elements_apart():
    q, k, v = qkv(length=40, head_dim=16)
    return q, k, v.transpose(-1, -2).contiguous().transpose(-1, -2)


def direct_lse():
    """A launch whose output has columns apart, which the host function never makes."""
    q, k, v = qkv(length=33, head_dim=16)
    out = torch.zeros(1, 2, 16, 33).transpose(-1, -2)
    lse = torch.zeros(1, 2, 33)

    def expected(q, k, v, out, lse, scale, *_):
        o, logs = reference(q, k, v, scale)
        out.copy_(o)
        lse.copy_(logs)

    numbers = (0.25, *q.stride(), *k.stride(), *v.stride(), *out.stride(), 2, 2, 33, 16)
    constants = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_D": 16}
    return Direct("causal_attention_kernel", (2, 2), (q, k, v, out, lse, *numbers), constants, expected)


INPUTS = {
    "basic": qkv,
    "one": lambda: qkv(length=1),
    "long": lambda: qkv(length=150),
    "batches": lambda: qkv(batch=3, heads=4, kv_heads=2, length=20),
    "rising": lambda: along_time(lambda t: t * 0.5),
    "falling": lambda: along_time(lambda t: -t * 0.5),
    "very_negative": lambda: along_time(lambda t: -200.0 - t * 0.01),
    "very_positive": lambda: along_time(lambda t: 200.0 + t * 0.01),
    "other_scale": lambda: (*qkv(head_dim=64, length=40), 0.4),
    "dim_40": lambda: qkv(length=40, head_dim=40),
    "gaps": gaps,
    "nan": hidden_nan,
    "nan_query": nan_query,
    "elements_apart": elements_apart,
    "columns_of_output_apart": direct_lse,
    "large_values": lambda: (qkv()[0], qkv()[1], qkv()[2] * 1e6),
    "half": lambda: qkv(dtype=torch.float16),
    "twice": lambda: Case([Host(qkv()), Host(tuple(t * 0.5 for t in qkv()))]),
}
