"""Cases about sequences: attention, recurrences, convolution along time."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from suite.case import Case, Draw, Sizes, plain_call

BF16, FP16 = torch.bfloat16, torch.float16
SDPA = "torch.nn.functional.scaled_dot_product_attention"


def _scores(q: torch.Tensor, k: torch.Tensor, *, causal: bool) -> torch.Tensor:
    s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    if causal:
        s = s.masked_fill(~torch.ones_like(s[0, 0], dtype=torch.bool).tril(), -float("inf"))
    return s


def _causal_exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    s = _scores(q, k, causal=True)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


def _backward_inputs(s: Sizes, new: Draw) -> tuple[Any, ...]:
    q, k, v, do = (new.normal(s["B"], s["H"], s["T"], s["D"], dtype=BF16) for _ in range(4))
    scores = _scores(q.float(), k.float(), causal=bool(s["CAUSAL"]))
    o = (torch.softmax(scores, -1) @ v.float()).to(BF16)
    return q, k, v, o, torch.logsumexp(scores, -1), do, bool(s["CAUSAL"])


def _backward_exact(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor,
    causal: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    scale = q.shape[-1] ** -0.5
    p = torch.exp(_scores(q, k, causal=causal) - lse[..., None])
    dv = p.transpose(-1, -2) @ do
    ds = p * (do @ v.transpose(-1, -2) - (o * do).sum(-1, keepdim=True)) * scale
    return ds @ k, ds.transpose(-1, -2) @ q, dv


def _sdpa_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _o: torch.Tensor, _lse: torch.Tensor, do: torch.Tensor,
    causal: bool,
) -> Any:  # fmt: skip
    leaves = [one.detach().requires_grad_() for one in (q, k, v)]
    out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
    return lambda: torch.autograd.grad(out, leaves, do, retain_graph=True)


def _decode(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> torch.Tensor:
    k, v = k_cache.transpose(1, 2), v_cache.transpose(1, 2)
    return F.scaled_dot_product_attention(q[:, :, None, :], k, v, enable_gqa=True)[:, :, 0, :]


def _decode_products(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> torch.Tensor:
    batch, heads, width = q.shape
    groups = k_cache.shape[2]
    q = q.view(batch, groups, heads // groups, width)
    k, v = k_cache.transpose(1, 2), v_cache.transpose(1, 2)
    return (torch.softmax((q @ k.transpose(-1, -2)) * width**-0.5, -1) @ v).reshape(batch, heads, width)


def _recurrence(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    h, out, decay = torch.zeros_like(x[:, 0]), torch.empty_like(x), g.exp()
    for t in range(x.shape[1]):
        h = torch.addcmul(x[:, t], decay[:, t], h)
        out[:, t] = h
    return out


def _chunk_hgrn(x: torch.Tensor, g: torch.Tensor) -> Any:
    from fla.ops.hgrn import chunk_hgrn

    return lambda: chunk_hgrn(x, g)


def _fused_recurrent_hgrn(x: torch.Tensor, g: torch.Tensor) -> Any:
    from fla.ops.hgrn import fused_recurrent_hgrn

    return lambda: fused_recurrent_hgrn(x, g)


def _ssm_inputs(s: Sizes, new: Draw) -> tuple[Any, ...]:
    u = new.normal(s["B"], s["T"], s["D"], dtype=BF16)
    delta = new.uniform(s["B"], s["T"], s["D"], low=0.001, high=0.1, dtype=BF16)
    a = -new.uniform(s["D"], s["N"], low=0.5, high=4.5)
    return u, delta, a, new.normal(s["B"], s["T"], s["N"], dtype=BF16), new.normal(s["B"], s["T"], s["N"], dtype=BF16)


def _ssm(u: torch.Tensor, delta: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    h = torch.zeros(u.shape[0], *a.shape, device=u.device)
    out = torch.empty_like(u)
    for t in range(u.shape[1]):
        step = delta[:, t].float()[..., None]
        h = torch.exp(step * a) * h + step * u[:, t].float()[..., None] * b[:, t].float()[:, None, :]
        out[:, t] = (h * c[:, t].float()[:, None, :]).sum(-1)
    return out


def _conv1d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    width = weight.shape[1]
    padded = F.pad(x, (0, 0, width - 1, 0))
    y = sum(padded[:, i : i + x.shape[1]] * weight[:, i] for i in range(width)) + bias
    return F.silu(y)


def _torch_conv1d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    width = weight.shape[1]
    y = F.conv1d(x.transpose(1, 2), weight[:, None, :], bias, padding=width - 1, groups=weight.shape[0])
    return F.silu(y[..., : x.shape[1]]).transpose(1, 2)


def _qkv(dtype: torch.dtype) -> Any:
    def make(s: Sizes, new: Draw) -> tuple[torch.Tensor, ...]:
        return tuple(new.normal(s["B"], s["H"], s["T"], s["D"], dtype=dtype) for _ in range(3))

    return make


CASES = (
    Case(
        "attention", "attention", ("attention_kernel",), "attention",
        ({"B": 8, "H": 16, "T": 2048, "D": 128},), ({"B": 1, "H": 2, "T": 100, "D": 16},),
        _qkv(FP16), F.scaled_dot_product_attention, label=SDPA, peak="fp16",
        oracle=lambda q, k, v: torch.softmax(_scores(q, k, causal=False), -1) @ v,
        moved="4 * 2 * B * H * T * D", flops="4 * B * H * T * T * D",
    ),
    Case(
        "attention_causal", "causal_attention", ("causal_attention_kernel",), "attention",
        ({"B": 4, "H": 32, "T": 2048, "D": 64},), ({"B": 1, "H": 2, "T": 100, "D": 16},),
        _qkv(BF16), lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), label=SDPA, peak="bf16",
        oracle=_causal_exact,
        moved="4 * 2 * B * H * T * D + 4 * B * H * T", flops="2 * B * H * T * T * D",
    ),
    Case(
        "attention_backward", "attention_backward", ("attention_dkdv_kernel", "attention_dq_kernel"), "attention",
        ({"B": 4, "H": 16, "T": 2048, "D": 64, "CAUSAL": 1}, {"B": 4, "H": 16, "T": 2048, "D": 64, "CAUSAL": 0}),
        ({"B": 1, "H": 2, "T": 100, "D": 16, "CAUSAL": 1}, {"B": 1, "H": 1, "T": 70, "D": 16, "CAUSAL": 0}),
        _backward_inputs, _backward_exact, timed=False, compiled=False, peak="bf16", tolerance=3e-2,
        others={f"{SDPA}, backward": _sdpa_backward},
        moved="8 * 2 * B * H * T * D + 4 * B * H * T", flops="10 * B * H * T * T * D / (2 if CAUSAL else 1)",
    ),
    Case(
        "decode_attention", "decode_attention", ("decode_attention_kernel",), "decode attention",
        ({"B": 8, "H": 32, "G": 8, "S": 8192, "D": 128},), ({"B": 2, "H": 4, "G": 2, "S": 150, "D": 16},),
        lambda s, new: (
            new.normal(s["B"], s["H"], s["D"], dtype=BF16), new.normal(s["B"], s["S"], s["G"], s["D"], dtype=BF16),
            new.normal(s["B"], s["S"], s["G"], s["D"], dtype=BF16),
        ),
        _decode, label=SDPA, peak="bf16", others={"cuBLAS products and softmax": plain_call(_decode_products)},
        moved="2 * 2 * B * S * G * D + 4 * B * H * D", flops="4 * B * H * S * D",
    ),
    Case(
        "recurrence", "recurrence", ("recurrence_kernel",), "recurrence",
        ({"B": 8, "T": 2048, "D": 2048},), ({"B": 2, "T": 20, "D": 200},),
        lambda s, new: (
            new.normal(s["B"], s["T"], s["D"]), F.logsigmoid(new.normal(s["B"], s["T"], s["D"])),
        ),
        _recurrence, compiled=False, label="PyTorch eager, step by step", samples=15,
        others={"fla-core chunk_hgrn": _chunk_hgrn, "fla-core fused_recurrent_hgrn": _fused_recurrent_hgrn},
        moved="3 * 4 * B * T * D", flops="3 * B * T * D",
    ),
    Case(
        "ssm_scan", "ssm_scan", ("ssm_scan_kernel",), "state-space scan",
        ({"B": 4, "T": 1024, "D": 4096, "N": 16},), ({"B": 2, "T": 10, "D": 70, "N": 16},),
        _ssm_inputs, _ssm, compiled=False, label="PyTorch eager, step by step", samples=15,
        moved="3 * 2 * B * T * D + 4 * B * T * N + 4 * D * N", flops="7 * B * T * D * N",
    ),
    Case(
        "causal_conv1d", "causal_conv1d", ("causal_conv1d_kernel",), "convolution",
        ({"B": 4, "T": 4096, "D": 4096, "W": 4},), ({"B": 2, "T": 9, "D": 300, "W": 4},),
        lambda s, new: (
            new.normal(s["B"], s["T"], s["D"], dtype=BF16), new.normal(s["D"], s["W"], dtype=BF16),
            new.normal(s["D"], dtype=BF16),
        ),
        _conv1d, others={"torch.nn.functional.conv1d": plain_call(_torch_conv1d)},
        moved="2 * 2 * B * T * D + 2 * D * (W + 1)", flops="(2 * W + 4) * B * T * D",
    ),
)  # fmt: skip
