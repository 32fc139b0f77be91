"""Cases that touch every element once or a few times, and reductions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from suite.case import Case, Draw, Sizes, plain_call

BF16, FP16 = torch.bfloat16, torch.float16


def _liger_gelu_mul(gate: torch.Tensor, up: torch.Tensor) -> Any:
    from liger_kernel.ops.geglu import geglu_forward

    return lambda: geglu_forward(gate, up)


def _sum_all(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


def _transpose(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


def _dropout_judged(arguments: Any, outputs: Any) -> str:
    """Say what is wrong: an element that is neither dropped nor scaled, or a share of dropped ones far from p."""
    (x, p, _), (out,) = arguments, outputs
    kept = out != 0
    scaled = (out - x / (1 - p)).abs() <= 1e-5 * (x.abs() + 1)
    if not bool((scaled | ~kept).all()):
        return "an element is neither 0 nor scaled"
    dropped = 1 - float(kept.float().mean())
    allowed = 6 * (p * (1 - p) / x.numel()) ** 0.5
    if abs(dropped - p) > allowed:
        return f"{dropped:.4f} of the elements are dropped, not {p}"
    half = x.numel() // 2
    flat = kept.reshape(-1)
    together = float((flat[:half] == flat[half : 2 * half]).float().mean())
    expected = p * p + (1 - p) * (1 - p)
    return "" if abs(together - expected) <= 2 * allowed + 0.05 * expected else "its two halves drop alike"


def _quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.float()
    scale = x.abs().amax(1).clamp(min=1e-8) / 127.0
    return (x / scale[:, None]).round().to(torch.int8), scale


def _quantize_judged(arguments: Any, outputs: Any) -> str:
    """Say what is wrong: ties may be rounded either way, so values are compared after scaling back."""
    (x,), (q, scale) = arguments, outputs
    want = x.float().abs().amax(1).clamp(min=1e-8) / 127.0
    if not torch.allclose(scale, want, rtol=1e-5):
        return "a scale is wrong"
    error = (q.float() * want[:, None] - x.float()).abs() / want[:, None]
    worst = float(error.max())
    return "" if worst <= 0.501 else f"a value is {worst:.3f} steps off"


def _dequantize(packed: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, group: int) -> torch.Tensor:
    values = torch.stack((packed & 0xF, packed >> 4), dim=-1).reshape(packed.shape[0], -1, group)
    return ((values - zero[..., None]) * scale[..., None]).reshape(packed.shape[0], -1).to(scale.dtype)


def _histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    return torch.bincount(x, minlength=bins)


def _histc(x: torch.Tensor, bins: int) -> Any:
    real = x.float()
    return lambda: torch.histc(real, bins, 0, bins - 1)


def _rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    pairs = x.float().unflatten(-1, (-1, 2))
    even, odd = pairs[..., 0], pairs[..., 1]
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)


def _rotary_complex(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    turns = torch.complex(cos, sin)[None, :, None, :]
    return lambda: torch.view_as_real(torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * turns).flatten(-2).to(x)


def _angles(sizes: Sizes, draw: Draw) -> tuple[torch.Tensor, torch.Tensor]:
    half = sizes["D"] // 2
    at = torch.arange(sizes["T"], device=draw.device)
    angles = torch.outer(at, 10000.0 ** (-torch.arange(half, device=draw.device) / half))
    return angles.cos(), angles.sin()


CASES = (
    Case(
        "gelu_mul", "gelu_mul", ("gelu_mul_kernel",), "elementwise",
        ({"M": 8192, "N": 11008},), ({"M": 3, "N": 421},),
        lambda s, new: (new.normal(s["M"], s["N"], dtype=BF16), new.normal(s["M"], s["N"], dtype=BF16)),
        lambda gate, up: F.gelu(gate, approximate="tanh") * up,
        moved="3 * 2 * M * N", flops="12 * M * N", others={"liger-kernel geglu": _liger_gelu_mul},
    ),
    Case(
        "bias_relu", "bias_relu", ("bias_relu_kernel",), "elementwise",
        ({"M": 16384, "N": 4096},), ({"M": 5, "N": 700},),
        lambda s, new: (new.normal(s["M"], s["N"]), new.normal(s["N"])),
        lambda x, bias: torch.relu(x + bias),
        moved="2 * 4 * M * N + 4 * N", flops="2 * M * N",
    ),
    Case(
        "dropout", "dropout", ("dropout_kernel",), "dropout",
        ({"M": 8192, "N": 8192},), ({"M": 33, "N": 130},),
        lambda s, new: (new.normal(s["M"], s["N"]), 0.1, 1234),
        lambda x, p, _seed: F.dropout(x, p),
        moved="2 * 4 * M * N", flops="2 * M * N", judge=_dropout_judged,
    ),
    Case(
        "rotary", "rotary", ("rotary_kernel",), "rotary",
        ({"B": 4, "T": 4096, "H": 32, "D": 128},), ({"B": 2, "T": 7, "H": 3, "D": 16},),
        lambda s, new: (new.normal(s["B"], s["T"], s["H"], s["D"], dtype=BF16), *_angles(s, new)),
        _rotary,
        moved="2 * 2 * B * T * H * D + 4 * T * D", flops="3 * B * T * H * D",
        others={"PyTorch eager, complex": _rotary_complex},
    ),
    Case(
        "transpose", "transpose", ("transpose_kernel",), "transpose",
        ({"M": 8192, "N": 12288},), ({"M": 37, "N": 50},),
        lambda s, new: (new.normal(s["M"], s["N"], dtype=FP16),),
        _transpose,
        moved="2 * 2 * M * N", flops="0",
    ),
    Case(
        "sum_rows", "sum_rows", ("sum_rows_kernel",), "reduction",
        ({"M": 8192, "N": 16384},), ({"M": 5, "N": 700},),
        lambda s, new: (new.normal(s["M"], s["N"]),),
        lambda x: x.sum(1),
        moved="4 * M * N + 4 * M", flops="M * N",
    ),
    Case(
        "sum_columns", "sum_columns", ("sum_columns_kernel",), "reduction",
        ({"M": 16384, "N": 4096},), ({"M": 70, "N": 200},),
        lambda s, new: (new.normal(s["M"], s["N"], dtype=BF16),),
        lambda x: x.sum(0, dtype=torch.float32),
        moved="2 * M * N + 4 * N", flops="M * N",
    ),
    Case(
        "sum_all", "sum_all", ("sum_all_kernel",), "reduction",
        ({"N": 1 << 27},), ({"N": 5000},),
        lambda s, new: (new.uniform(s["N"]),),
        _sum_all, oracle=lambda x: x.double().sum(),
        moved="4 * N", flops="N",
    ),
    Case(
        "histogram", "histogram", ("histogram_kernel",), "histogram",
        ({"N": 1 << 24, "BINS": 256},), ({"N": 3000, "BINS": 16},),
        lambda s, new: (new.integers(s["N"], high=s["BINS"], dtype=torch.int32), s["BINS"]),
        _histogram, compiled=False, others={"torch.histc": _histc},
        moved="4 * N + 4 * BINS", flops="N",
    ),
    Case(
        "quantize", "quantize", ("quantize_kernel",), "quantise",
        ({"M": 16384, "N": 5120},), ({"M": 7, "N": 300},),
        lambda s, new: (new.normal(s["M"], s["N"], dtype=FP16),),
        _quantize, judge=_quantize_judged,
        moved="3 * M * N + 4 * M", flops="4 * M * N",
    ),
    Case(
        "dequantize", "dequantize", ("dequantize_kernel",), "dequantise",
        ({"M": 11008, "N": 8192, "G": 128},), ({"M": 5, "N": 384, "G": 64},),
        lambda s, new: (
            new.integers(s["M"], s["N"] // 2, high=256, dtype=torch.uint8),
            new.uniform(s["M"], s["N"] // s["G"], low=0.01, high=0.1, dtype=FP16),
            new.integers(s["M"], s["N"] // s["G"], high=16).to(FP16), s["G"],
        ),
        _dequantize,
        moved="M * N // 2 + 2 * M * N + 4 * M * (N // G)", flops="2 * M * N",
    ),
    Case(
        "embedding", "embedding", ("embedding_kernel",), "embedding",
        ({"V": 128256, "D": 4096, "N": 16384},), ({"V": 50, "D": 200, "N": 33},),
        lambda s, new: (new.normal(s["V"], s["D"], dtype=BF16), new.integers(s["N"], high=s["V"])),
        lambda table, ids: F.embedding(ids, table),
        moved="2 * 2 * N * D + 8 * N", flops="0",
    ),
    Case(
        "embedding_backward", "embedding_backward", ("embedding_backward_kernel",), "gather-scatter",
        ({"V": 32000, "D": 2048, "N": 16384},), ({"V": 20, "D": 300, "N": 33},),
        lambda s, new: (new.normal(s["N"], s["D"], dtype=BF16), new.integers(s["N"], high=s["V"]), s["V"]),
        lambda grad, ids, vocab: torch.zeros(vocab, grad.shape[1], device=grad.device).index_add_(0, ids, grad.float()),
        others={"PyTorch embedding_dense_backward": plain_call(
            lambda grad, ids, vocab: torch.ops.aten.embedding_dense_backward(grad, ids, vocab, -1, False)
        )},
        moved="2 * N * D + 8 * N + 4 * V * D", flops="N * D", label="PyTorch eager (index_add_)",
    ),
    Case(
        "scatter_add", "scatter_add", ("scatter_add_kernel",), "gather-scatter",
        ({"V": 100000, "D": 128, "E": 1000000},), ({"V": 20, "D": 100, "E": 60},),
        lambda s, new: (
            new.normal(s["V"], s["D"]), new.integers(s["E"], high=s["V"]), new.integers(s["E"], high=s["V"]),
        ),
        lambda x, source, target: torch.zeros_like(x).index_add_(0, target, x.index_select(0, source)),
        moved="2 * 4 * V * D + 16 * E", flops="E * D",
    ),
)  # fmt: skip
