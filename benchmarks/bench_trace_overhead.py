"""How much `tritonforge trace` slows a training step and an inference step, on a GPU.

Two loops, each in fresh processes that alternate between traced and alone:

- training: a transformer block of liger operators (RMSNorm, SwiGLU, cross entropy) with AdamW, forward and backward;
- inference: 48 layers of small launches, as decoding with batch 1 makes them, where host time is what counts.

    python benchmarks/bench_trace_overhead.py [--pairs 7] [--steps 200] [-o benchmarks/results/trace_overhead.json]

prints the median ratio (traced / alone) with a bootstrap 95 % interval, and exits with 1 when one is above 5 %.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 1.05


def training(torch, steps):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    torch.manual_seed(0)
    batch, length, width, inner, words, layers = 4, 512, 1024, 2816, 32000, 4
    options = {"device": "cuda", "dtype": torch.bfloat16}
    embed = torch.nn.Embedding(words, width, **options)
    head = torch.nn.Linear(width, words, bias=False, **options)
    blocks = torch.nn.ModuleList()
    for _ in range(layers):
        block = torch.nn.Module()
        block.norm1 = torch.nn.Parameter(torch.ones(width, **options))
        block.norm2 = torch.nn.Parameter(torch.ones(width, **options))
        block.qkv = torch.nn.Linear(width, 3 * width, bias=False, **options)
        block.out = torch.nn.Linear(width, width, bias=False, **options)
        block.gate = torch.nn.Linear(width, inner, bias=False, **options)
        block.up = torch.nn.Linear(width, inner, bias=False, **options)
        block.down = torch.nn.Linear(inner, width, bias=False, **options)
        blocks.append(block)
    parameters = [*embed.parameters(), *blocks.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    tokens = torch.randint(0, words, (batch, length), device="cuda")
    targets = torch.randint(0, words, (batch * length,), device="cuda")

    def norm(x, weight):
        return LigerRMSNormFunction.apply(x, weight, 1e-6)

    def step():
        x = embed(tokens)
        for block in blocks:
            q, k, v = block.qkv(norm(x, block.norm1)).view(batch, length, 3, 16, 64).permute(2, 0, 3, 1, 4)
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block.out(mixed.transpose(1, 2).reshape(batch, length, width))
            y = norm(x, block.norm2)
            x = x + block.down(LigerSiLUMulFunction.apply(block.gate(y), block.up(y)))
        loss = LigerCrossEntropyFunction.apply(head(x).view(-1, words), targets, None)
        loss = loss[0] if isinstance(loss, tuple) else loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return timed(torch, step, steps)


def inference(torch, steps):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    torch.manual_seed(0)
    width, inner, layers = 1024, 2816, 48
    options = {"device": "cuda", "dtype": torch.bfloat16}
    weight = torch.ones(width, **options)
    gate, up, down = (
        torch.randn(shape, **options) * 0.01 for shape in ((width, inner), (width, inner), (inner, width))
    )
    x0 = torch.randn(1, 1, width, **options)

    @torch.inference_mode()
    def step():
        x = x0
        for _ in range(layers):
            y = LigerRMSNormFunction.apply(x, weight, 1e-6)
            x = x + LigerSiLUMulFunction.apply(y @ gate, y @ up) @ down
        return x

    return timed(torch, step, steps)


def timed(torch, step, steps):
    """Return the median step in ms, after warm-up: each step is timed to its end on the GPU."""
    for _ in range(30):
        step()
    torch.cuda.synchronize()
    taken = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


LOOPS = {"training": training, "inference": inference}


def one(name, steps, traced, folder):
    command = [sys.executable, str(Path(__file__).resolve()), "--loop", name, "--steps", str(steps)]
    if traced:
        command = [sys.executable, "-m", "tritonforge", "trace", "-o", f"{folder}/{name}.json", "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
    return float(done.stdout.strip().splitlines()[-1])


def interval(ratios):
    source = random.Random(0)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(4000))
    return medians[100], medians[3899]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--loop", choices=LOOPS, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.loop:
        import torch

        print(LOOPS[options.loop](torch, options.steps))
        return 0
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in LOOPS:
            one(name, 5, traced=False, folder=folder)  # compiles
            pairs = []
            for i in range(options.pairs):
                order = (False, True) if i % 2 == 0 else (True, False)
                times = {traced: one(name, options.steps, traced, folder) for traced in order}
                pairs.append((times[False], times[True]))
            report = json.loads(Path(folder, f"{name}.json").read_text())
            ratios = [traced / alone for alone, traced in pairs]
            launches = report["launches"]
            results[name] = {
                "pairs_ms": pairs,
                "ratio": statistics.median(ratios),
                "ratio_ci95": interval(ratios),
                "distinct_launches": len(launches),
                "launches_a_step": sum(one["count"] for one in launches) / (options.steps + 30),
                "host_calls": len(report["calls"]),
                "timed": sum(one["time_us"] is not None for one in launches),
                "failures": report["failures"],
            }
    print("| loop | launches a step | alone, ms | traced, ms | ratio | 95 % |\n| --- | --- | --- | --- | --- | --- |")
    for name, result in results.items():
        alone, traced = (statistics.median(pair[i] for pair in result["pairs_ms"]) for i in (0, 1))
        low, high = result["ratio_ci95"]
        print(
            f"| {name} | {result['launches_a_step']:.0f} | {alone:.3f} | {traced:.3f} "
            f"| {result['ratio']:.4f} | {low:.4f} to {high:.4f} |"
        )
    if options.output:
        import torch

        about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "python": sys.version.split()[0]}
        options.output.write_text(json.dumps({**about, "loops": results}, indent=2) + "\n")
    return int(any(result["ratio"] > LIMIT for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
