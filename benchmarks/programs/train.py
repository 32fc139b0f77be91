"""A small but real training run: a transformer of Liger kernels, PyTorch's matmuls and attention, and fused AdamW.

    python benchmarks/programs/train.py [--steps N] [--torch-profiler FILE] [--report FILE]

`--report` gets the seconds of each step, `--torch-profiler` the device time of each kernel as torch.profiler has it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.rope import LigerRopeFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils import get_total_norm

BATCH, LENGTH, HIDDEN, HEADS, LAYERS, VOCABULARY = 8, 1024, 1024, 16, 4, 16384
if os.environ.get("TRAIN_SMALL"):  # for a look without a GPU
    BATCH, LENGTH, HIDDEN, HEADS, LAYERS, VOCABULARY = 1, 64, 128, 2, 1, 256
HEAD = HIDDEN // HEADS


@triton.jit
def clip_gradient(gradient, scale, n, BLOCK: tl.constexpr):
    """Multiply a gradient by a factor that stands in memory: small programs, as people first write them."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(gradient + at, mask=inside)
    tl.store(gradient + at, value * tl.load(scale), mask=inside)


def clip(parameters: list[nn.Parameter], most: float) -> None:
    """Scale all gradients down to a norm of `most`, on the device alone."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    scale = (most / (get_total_norm(gradients).float() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        clip_gradient[(triton.cdiv(gradient.numel(), 256),)](gradient, scale, gradient.numel(), BLOCK=256)


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the last dimension."""
        return LigerRMSNormFunction.apply(x, self.weight, 1e-6, 0.0, "llama", False)


class Block(nn.Module):
    """Attention with rotary embedding, then a gated feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return [batch, length, hidden]."""
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, HEADS, HEAD).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, dim=-1))
        q, k = LigerRopeFunction.apply(q, k, cos, sin)
        attended = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, n, HIDDEN))
        y = self.between(x)
        return x + self.down(LigerSiLUMulFunction.apply(self.gate(y), self.up(y)))


class Model(nn.Module):
    """Embedding, blocks, head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = Norm()
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        angle = torch.outer(torch.arange(LENGTH), 10_000 ** (-torch.arange(0, HEAD, 2) / HEAD))
        angle = torch.cat((angle, angle), dim=-1)[None]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(self.last(x)).view(-1, VOCABULARY)
        return LigerCrossEntropyFunction.apply(logits, targets.view(-1), None)[0]


def train(steps: int) -> list[float]:
    """Train on random tokens; return the seconds of each step."""
    torch.manual_seed(0)
    model = Model().to("cuda", torch.bfloat16)
    parameters = list(model.parameters())
    optimiser = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    seconds: list[float] = []
    for _ in range(steps):
        began = time.perf_counter()
        tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), device="cuda")
        loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        clip(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    print(f"loss {loss.item():.3f} after {steps} steps")
    return seconds


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--torch-profiler", type=Path)
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    if given.torch_profiler is None:
        seconds = train(given.steps)
    else:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            seconds = train(given.steps)
        rows = [
            {"name": row.key, "count": row.count, "time_us": row.self_device_time_total}
            for row in profiler.key_averages()
            if row.self_device_time_total
        ]
        given.torch_profiler.write_text(json.dumps(sorted(rows, key=lambda row: -row["time_us"]), indent=1))
    if given.report is not None:
        given.report.write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
