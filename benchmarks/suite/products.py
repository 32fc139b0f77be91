"""Cases whose work is a matrix product."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from suite.case import Case, Draw, Sizes, plain_call

BF16, FP16, FP8 = torch.bfloat16, torch.float16, torch.float8_e4m3fn


def _grouped_inputs(s: Sizes, new: Draw) -> tuple[Any, ...]:
    rows = [s["M"] // 8 * part // 2 for part in (3, 1, 4, 0, 2, 2, 3, 1)]
    ends = torch.tensor([0, *torch.tensor(rows).cumsum(0).tolist()], dtype=torch.int32).to(new.device)
    x = new.normal(sum(rows), s["K"], dtype=BF16)
    return x, new.normal(8, s["K"], s["N"], dtype=BF16), ends, max(rows)


def _grouped(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, _longest: int) -> torch.Tensor:
    ends = offsets.tolist()
    return torch.cat([x[a:b] @ w for a, b, w in zip(ends, ends[1:], weights, strict=False)])


def _grouped_eager(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, _longest: int) -> Any:
    ends = offsets.tolist()
    parts = [(x[a:b], w) for a, b, w in zip(ends, ends[1:], weights, strict=False)]
    return lambda: torch.cat([a @ w for a, w in parts])


def _grouped_mm(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, _longest: int) -> Any:
    ends = offsets[1:].contiguous()
    return lambda: torch._grouped_mm(x, weights, offs=ends)  # noqa: SLF001 - the public name came later


def _moe_inputs(s: Sizes, new: Draw) -> tuple[Any, ...]:
    from suite.loading import plain

    x, weights = new.normal(s["T"], s["K"], dtype=BF16), new.normal(s["E"], s["N"], s["K"], dtype=BF16)
    chosen = new.uniform(s["T"], s["E"]).topk(2, dim=1).indices
    module = plain("moe")
    return (x, weights, *module.plan(chosen, s["E"], module.BLOCK_M), 2)


def _by_expert(x: torch.Tensor, slots: torch.Tensor, owners: torch.Tensor, top_k: int) -> Any:
    """Return (expert, its slots) for every expert, and how many slots there are."""
    count = x.shape[0] * top_k
    block = slots.numel() // owners.numel()
    of_slot = owners.repeat_interleave(block)
    valid = slots < count
    experts = range(int(owners.max()) + 1)
    return [(expert, slots[valid & (of_slot == expert)].long()) for expert in experts], count


def _moe_eager(x: torch.Tensor, weights: torch.Tensor, slots: torch.Tensor, owners: torch.Tensor, top_k: int) -> Any:
    parts, count = _by_expert(x, slots, owners, top_k)
    parts = [(weights[expert].t(), mine, mine // top_k) for expert, mine in parts]

    def run() -> torch.Tensor:
        out = torch.empty(count, weights.shape[1], device=x.device, dtype=x.dtype)
        for w, mine, rows in parts:
            out[mine] = x[rows] @ w
        return out

    return run


def _moe(*arguments: Any) -> torch.Tensor:
    return _moe_eager(*arguments)()


def _moe_grouped_mm(
    x: torch.Tensor, weights: torch.Tensor, slots: torch.Tensor, owners: torch.Tensor, top_k: int
) -> Any:
    parts, _ = _by_expert(x, slots, owners, top_k)
    order = torch.cat([mine for _, mine in parts])
    ends = torch.tensor([mine.numel() for _, mine in parts], device=x.device).cumsum(0).to(torch.int32)
    rows, back, w = order // top_k, order.argsort(), weights.transpose(1, 2)
    return lambda: torch._grouped_mm(x[rows], w, offs=ends)[back]  # noqa: SLF001 - the public name came later


def _int8_inputs(s: Sizes, new: Draw) -> tuple[Any, ...]:
    def values(*shape: int) -> torch.Tensor:
        return new.integers(*shape, low=-127, high=128, dtype=torch.int8)

    scales = new.uniform(s["M"], low=0.001, high=0.01), new.uniform(s["N"], low=0.001, high=0.01)
    return values(s["M"], s["K"]), scales[0], values(s["K"], s["N"]), scales[1]


def _int8(x: torch.Tensor, x_scale: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor) -> torch.Tensor:
    product = torch._int_mm(x, weight)  # noqa: SLF001 - PyTorch's only int8 product
    return (product.float() * x_scale[:, None] * weight_scale[None, :]).half()


def _int8_exact(
    x: torch.Tensor, x_scale: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor
) -> torch.Tensor:
    return (x.double() @ weight.double()) * x_scale[:, None] * weight_scale[None, :]


def _fp8_inputs(s: Sizes, new: Draw) -> tuple[Any, ...]:
    x, weight = new.normal(s["M"], s["K"], dtype=FP8), new.normal(s["N"], s["K"], dtype=FP8)
    return x, weight, new.uniform(1, low=0.4), new.uniform(1, low=0.2, high=0.4)


def _fp8(x: torch.Tensor, weight: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor) -> torch.Tensor:
    return torch._scaled_mm(x, weight.t(), x_scale, w_scale, out_dtype=BF16)  # noqa: SLF001 - PyTorch's only fp8 product


def _conv2d(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    out = F.conv2d(x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), padding=weight.shape[1] // 2)
    return out.permute(0, 2, 3, 1)


def _matmul_cublas(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


CUBLAS = "cuBLAS (torch.matmul)"
PRODUCT = "2 * M * N * K"

CASES = (
    Case(
        "matmul_square", "matmul", ("matmul_kernel",), "matmul",
        ({"M": 4096, "N": 4096, "K": 4096},), ({"M": 70, "N": 90, "K": 50},),
        lambda s, new: (new.normal(s["M"], s["K"], dtype=FP16), new.normal(s["K"], s["N"], dtype=FP16)),
        _matmul_cublas, label=CUBLAS, peak="fp16",
        moved="2 * (M * K + K * N + M * N)", flops=PRODUCT,
    ),
    Case(
        "matmul_bf16", "linear", ("linear_kernel",), "matmul",
        ({"M": 8192, "N": 11008, "K": 4096},), ({"M": 70, "N": 90, "K": 50},),
        lambda s, new: (new.normal(s["M"], s["K"], dtype=BF16), new.normal(s["N"], s["K"], dtype=BF16)),
        F.linear, label="cuBLAS (torch.nn.functional.linear)", peak="bf16",
        moved="2 * (M * K + K * N + M * N)", flops=PRODUCT,
    ),
    Case(
        "matmul_skinny", "skinny_linear", ("skinny_kernel",), "matmul",
        ({"M": 16, "N": 8192, "K": 8192},), ({"M": 5, "N": 90, "K": 150},),
        lambda s, new: (new.normal(s["M"], s["K"], dtype=BF16), new.normal(s["N"], s["K"], dtype=BF16)),
        F.linear, label="cuBLAS (torch.nn.functional.linear)", peak="bf16",
        moved="2 * (M * K + K * N + M * N)", flops=PRODUCT,
    ),
    Case(
        "matmul_batched", "bmm", ("bmm_kernel",), "matmul",
        ({"B": 64, "M": 1024, "N": 1024, "K": 128},), ({"B": 2, "M": 40, "N": 70, "K": 50},),
        lambda s, new: (
            new.normal(s["B"], s["M"], s["K"], dtype=FP16), new.normal(s["B"], s["K"], s["N"], dtype=FP16),
        ),
        torch.bmm, label="cuBLAS (torch.bmm)", peak="fp16",
        moved="2 * B * (M * K + K * N + M * N)", flops="2 * B * M * N * K",
    ),
    Case(
        "matmul_split_k", "matmul_split_k", ("split_k_kernel",), "matmul",
        ({"M": 256, "N": 1024, "K": 16384},), ({"M": 40, "N": 70, "K": 300},),
        lambda s, new: (new.normal(s["M"], s["K"], dtype=FP16), new.normal(s["K"], s["N"], dtype=FP16)),
        _matmul_cublas, label="cuBLAS (torch.matmul, result in fp16)", peak="fp16",
        others={"cuBLAS (torch.mm, result in fp32)": plain_call(lambda a, b: torch.mm(a, b, out_dtype=torch.float32))},
        moved="2 * (M * K + K * N) + 4 * M * N", flops=PRODUCT,
    ),
    Case(
        "matmul_grouped", "grouped_matmul", ("grouped_kernel",), "matmul",
        ({"M": 8192, "N": 4096, "K": 2048},), ({"M": 64, "N": 70, "K": 40},),
        _grouped_inputs, _grouped, timed=False, compiled=False, peak="bf16",
        others={"cuBLAS, one product per group": _grouped_eager, "torch._grouped_mm": _grouped_mm},
        moved="2 * (M * K + 8 * K * N + M * N)", flops=PRODUCT,
    ),
    Case(
        "matmul_fp32", "matmul_fp32", ("matmul_fp32_kernel",), "matmul",
        ({"M": 4096, "N": 4096, "K": 2048},), ({"M": 70, "N": 90, "K": 50},),
        lambda s, new: (new.normal(s["M"], s["K"]), new.normal(s["K"], s["N"])),
        _matmul_cublas, label="cuBLAS (torch.matmul, tf32)", peak="tf32", tolerance=5e-3,
        moved="4 * (M * K + K * N + M * N)", flops=PRODUCT,
    ),
    Case(
        "matmul_int8", "matmul_int8", ("matmul_int8_kernel",), "matmul",
        ({"M": 4096, "N": 4096, "K": 4096},), ({"M": 70, "N": 90, "K": 50},),
        _int8_inputs, _int8, label="cuBLAS (torch._int_mm) and scaling", peak="int8", oracle=_int8_exact,
        moved="M * K + K * N + 2 * M * N + 4 * (M + N)", flops=PRODUCT,
    ),
    Case(
        "matmul_fp8", "matmul_fp8", ("matmul_fp8_kernel",), "matmul",
        ({"M": 4096, "N": 4096, "K": 8192},), ({"M": 40, "N": 70, "K": 100},),
        _fp8_inputs, _fp8, label="cuBLAS (torch._scaled_mm)", peak="fp8",
        oracle=lambda x, weight, x_scale, w_scale: (x @ weight.t()) * x_scale * w_scale,
        moved="M * K + K * N + 2 * M * N", flops=PRODUCT,
    ),
    Case(
        "linear_gelu", "linear_gelu", ("linear_gelu_kernel",), "fused linear",
        ({"M": 8192, "N": 5120, "K": 1280},), ({"M": 70, "N": 90, "K": 50}, {"M": 20, "N": 30, "K": 64}),
        lambda s, new: (
            new.normal(s["M"], s["K"], dtype=FP16), new.normal(s["N"], s["K"], dtype=FP16),
            new.normal(s["N"], dtype=FP16),
        ),
        lambda x, weight, bias: F.gelu(F.linear(x, weight, bias)), label="cuBLAS and GELU (PyTorch eager)", peak="fp16",
        moved="2 * (M * K + K * N + M * N + N)", flops=PRODUCT,
    ),
    Case(
        "conv2d", "conv2d", ("conv2d_kernel",), "convolution",
        ({"B": 32, "H": 56, "W": 56, "C": 128, "K": 128},), ({"B": 1, "H": 7, "W": 9, "C": 40, "K": 20},),
        lambda s, new: (
            new.normal(s["B"], s["H"], s["W"], s["C"], dtype=FP16), new.normal(s["K"], 3, 3, s["C"], dtype=FP16),
        ),
        _conv2d, label="cuDNN (torch.nn.functional.conv2d, channels last)", peak="fp16",
        moved="2 * (B * H * W * (C + K) + 9 * C * K)", flops="2 * B * H * W * K * C * 9",
    ),
    Case(
        "moe", "moe", ("moe_kernel",), "MoE",
        ({"T": 4096, "E": 16, "N": 2816, "K": 2048},), ({"T": 30, "E": 4, "N": 70, "K": 40},),
        _moe_inputs, _moe, timed=False, compiled=False, peak="bf16",
        others={"cuBLAS, one product per expert": _moe_eager, "torch._grouped_mm and gathers": _moe_grouped_mm},
        moved="2 * (T * K + E * N * K + 2 * T * N)", flops="2 * 2 * T * N * K",
    ),
)  # fmt: skip
