"""Cases that normalise, choose or add along rows."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from suite.case import Case, Draw, Sizes

BF16, FP16 = torch.bfloat16, torch.float16
EPS = 1e-6


def _layer_norm_inputs(s: Sizes, new: Draw) -> tuple[Any, ...]:
    x = new.normal(s["M"], s["N"], dtype=FP16)
    weight, dy = new.normal(s["N"], dtype=FP16), new.normal(s["M"], s["N"], dtype=FP16)
    mean = x.float().mean(1)
    rstd = (x.float().var(1, correction=0) + 1e-5).rsqrt()
    return dy, x, weight, mean, rstd


def _layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> Any:
    mean, rstd = mean[:, None], rstd[:, None]
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, [x.shape[1]], mean, rstd, weight, weight, [True, True, True]
    )


def _liger_layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
    from liger_kernel.ops.layer_norm import layer_norm_forward

    return lambda: layer_norm_forward(x, weight, bias, 1e-5)


def _liger_layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> Any:
    from liger_kernel.ops.layer_norm import layer_norm_backward

    return lambda: layer_norm_backward(dy, x, weight, weight, mean, rstd)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, EPS)


def _liger_rms_norm(x: torch.Tensor, weight: torch.Tensor) -> Any:
    from liger_kernel.ops.rms_norm import rms_norm_forward

    return lambda: rms_norm_forward(x, weight, EPS, 0.0, "llama", None)


def _rms_norm_backward(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide, grad = x.float(), dy.float()
    rstd = (wide.square().mean(1, keepdim=True) + EPS).rsqrt()
    xhat, wdy = wide * rstd, grad * weight.float()
    dx = (wdy - xhat * (wdy * xhat).mean(1, keepdim=True)) * rstd
    return dx.to(x.dtype), (grad * xhat).sum(0)


def _autograd_rms_norm(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    out = _rms_norm(x, weight)
    return lambda: torch.autograd.grad(out, (x, weight), dy, retain_graph=True)


def _liger_rms_norm_backward(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
    from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward

    _, flat, rstd, block, warps, mode = rms_norm_forward(x, weight, EPS, 0.0, "llama", None)
    return lambda: rms_norm_backward(dy, flat, weight, rstd, 0.0, mode, block, warps, False, None)


def _cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    lse = torch.logsumexp(logits.float(), 1)
    return lse - logits.gather(1, target[:, None])[:, 0].float(), lse


def _torch_cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> Any:
    return lambda: F.cross_entropy(logits, target, reduction="none")


def _cross_entropy_backward(
    grad: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, lse: torch.Tensor
) -> torch.Tensor:
    p = torch.exp(logits.float() - lse[:, None])
    hit = torch.arange(logits.shape[1], device=logits.device)[None, :] == target[:, None]
    return ((p - hit.float()) * grad[:, None]).to(logits.dtype)


def _autograd_cross_entropy(grad: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, _lse: torch.Tensor) -> Any:
    logits = logits.detach().requires_grad_()
    loss = F.cross_entropy(logits, target, reduction="none")
    given = grad.to(loss.dtype)
    return lambda: torch.autograd.grad(loss, logits, given, retain_graph=True)


def _cross_entropy_inputs(s: Sizes, new: Draw) -> tuple[Any, ...]:
    logits, target = new.normal(s["M"], s["V"], dtype=BF16), new.integers(s["M"], high=s["V"])
    return new.uniform(s["M"], low=0.5), logits, target, torch.logsumexp(logits.float(), 1)


def _top_k_judged(arguments: Any, outputs: Any) -> str:
    """Say what is wrong: of equal values either may be named."""
    (x, k), (values, indices) = arguments, outputs
    if not torch.equal(values, torch.topk(x, k, dim=1).values):
        return "a value is not among the largest"
    if not torch.equal(x.gather(1, indices), values):
        return "an index names another value"
    ordered = indices.sort(1).values
    return "an index is named twice" if bool((ordered[:, 1:] == ordered[:, :-1]).any()) else ""


def _liger_softmax(x: torch.Tensor) -> Any:
    from liger_kernel.ops.softmax import _softmax_forward

    return lambda: _softmax_forward(x)


CASES = (
    Case(
        "softmax", "softmax", ("softmax_kernel",), "softmax",
        ({"M": 16384, "N": 8192},), ({"M": 5, "N": 300},),
        lambda s, new: (new.normal(s["M"], s["N"], dtype=FP16),),
        lambda x: torch.softmax(x, 1), others={"liger-kernel softmax": _liger_softmax},
        moved="2 * 2 * M * N", flops="5 * M * N",
    ),
    Case(
        "small_softmax", "small_softmax", ("small_softmax_kernel",), "softmax",
        ({"B": 64, "M": 4096, "N": 64},), ({"B": 3, "M": 5, "N": 50},),
        lambda s, new: (new.normal(s["B"], s["M"], s["N"]),),
        lambda x: torch.softmax(x, -1),
        moved="2 * 4 * B * M * N", flops="5 * B * M * N",
    ),
    Case(
        "layer_norm", "layer_norm", ("layer_norm_kernel",), "layer norm",
        ({"B": 4, "T": 4096, "N": 5120},), ({"B": 2, "T": 3, "N": 1100},),
        lambda s, new: (
            new.normal(s["B"], s["T"], s["N"], dtype=FP16), new.normal(s["N"], dtype=FP16),
            new.normal(s["N"], dtype=FP16),
        ),
        lambda x, weight, bias: F.layer_norm(x, (x.shape[-1],), weight, bias),
        others={"liger-kernel layer_norm": _liger_layer_norm},
        moved="2 * 2 * B * T * N + 4 * N + 8 * B * T", flops="8 * B * T * N",
    ),
    Case(
        "layer_norm_backward", "layer_norm_backward", ("layer_norm_dx_kernel", "layer_norm_dwdb_kernel"), "layer norm",
        ({"M": 16384, "N": 4096},), ({"M": 40, "N": 200},),
        _layer_norm_inputs, _layer_norm_backward,
        others={"liger-kernel layer_norm backward": _liger_layer_norm_backward},
        moved="3 * 2 * M * N + 6 * N + 8 * M", flops="14 * M * N",
    ),
    Case(
        "rms_norm", "rms_norm", ("rms_norm_kernel",), "RMS norm",
        ({"M": 16384, "N": 4096}, {"M": 524288, "N": 128}), ({"M": 6, "N": 300}, {"M": 9, "N": 32}),
        lambda s, new: (new.normal(s["M"], s["N"], dtype=BF16), new.normal(s["N"], dtype=BF16)),
        _rms_norm, others={"liger-kernel rms_norm": _liger_rms_norm},
        moved="2 * 2 * M * N + 2 * N", flops="4 * M * N",
    ),
    Case(
        "rms_norm_backward", "rms_norm_backward", ("rms_norm_backward_kernel",), "RMS norm",
        ({"M": 8192, "N": 4096},), ({"M": 20, "N": 300},),
        lambda s, new: (
            new.normal(s["M"], s["N"], dtype=BF16), new.normal(s["M"], s["N"], dtype=BF16),
            new.normal(s["N"], dtype=BF16),
        ),
        _rms_norm_backward,
        others={"PyTorch rms_norm autograd": _autograd_rms_norm, "liger-kernel rms_norm": _liger_rms_norm_backward},
        moved="3 * 2 * M * N + 6 * N", flops="12 * M * N",
    ),
    Case(
        "cross_entropy", "cross_entropy", ("cross_entropy_kernel",), "cross entropy",
        ({"M": 8192, "V": 32000},), ({"M": 5, "V": 2100},),
        lambda s, new: (new.normal(s["M"], s["V"], dtype=BF16), new.integers(s["M"], high=s["V"])),
        _cross_entropy, others={"torch.nn.functional.cross_entropy": _torch_cross_entropy},
        moved="2 * M * V + 16 * M", flops="4 * M * V",
    ),
    Case(
        "cross_entropy_backward", "cross_entropy_backward", ("cross_entropy_backward_kernel",), "cross entropy",
        ({"M": 8192, "V": 32000},), ({"M": 5, "V": 1100},),
        _cross_entropy_inputs, _cross_entropy_backward,
        others={"PyTorch cross_entropy autograd": _autograd_cross_entropy},
        moved="2 * 2 * M * V + 16 * M", flops="4 * M * V",
    ),
    Case(
        "top_k", "top_k", ("top_k_kernel",), "top-k",
        ({"M": 32768, "N": 256, "K": 8},), ({"M": 5, "N": 50, "K": 3},),
        lambda s, new: (new.normal(s["M"], s["N"]), s["K"]),
        lambda x, k: tuple(torch.topk(x, k, dim=1)), judge=_top_k_judged,
        moved="4 * M * N + 12 * M * K", flops="M * N * K",
    ),
    Case(
        "scan", "cumsum", ("cumsum_kernel",), "scan",
        ({"M": 4096, "N": 16384},), ({"M": 3, "N": 300},),
        lambda s, new: (new.normal(s["M"], s["N"]),),
        lambda x: torch.cumsum(x, 1), oracle=lambda x: torch.cumsum(x.double(), 1),
        moved="2 * 4 * M * N", flops="M * N",
    ),
)  # fmt: skip
