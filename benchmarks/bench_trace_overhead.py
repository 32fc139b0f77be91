"""How much `tritonforge trace` slows a training step and an inference step, on a GPU.

Two loops, each in fresh processes that alternate between traced and alone:

- training: a transformer block of liger operators (RMSNorm, SwiGLU, cross entropy) with AdamW, forward and backward;
- inference: 48 layers of small launches, as decoding with batch 1 makes them, where host time is what counts.

    python benchmarks/bench_trace_overhead.py [--loops training inference] [--pairs 7] [--steps 200] [--quick]
        [-o benchmarks/results/trace_overhead.json]

prints each pair when it is measured and writes what there is so far to the file, so that a run that is cut off has told
what it knew. At the end it prints the median ratio (traced / alone) with a bootstrap 95 % interval, and exits with 1
when one is above 5 %.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIMIT = 1.05
QUICK_STEPS = 100
WARM_UP = 30
"""Steps of each process before its steps are timed."""

Pair = tuple[float, float]
"""The median step in ms of a process alone, and of one that is traced."""


def training(torch: Any, steps: int) -> float:
    """Return the median step in ms of training a small transformer of liger operators."""
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

    def norm(x: Any, weight: Any) -> Any:
        return LigerRMSNormFunction.apply(x, weight, 1e-6)

    def step() -> None:
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


def inference(torch: Any, steps: int) -> float:
    """Return the median step in ms of decoding with batch 1."""
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
    def step() -> Any:
        x = x0
        for _ in range(layers):
            y = LigerRMSNormFunction.apply(x, weight, 1e-6)
            x = x + LigerSiLUMulFunction.apply(y @ gate, y @ up) @ down
        return x

    return timed(torch, step, steps)


def timed(torch: Any, step: Callable[[], object], steps: int) -> float:
    """Return the median step in ms, after warm-up: each step is timed to its end on the GPU."""
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    taken = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


LOOPS: dict[str, Callable[[Any, int], float]] = {"training": training, "inference": inference}


def one(name: str, steps: int, report: Path | None = None) -> float:
    """Run a loop in a process of its own, traced when there is a `report` to write; return its median step in ms."""
    command = [sys.executable, str(Path(__file__).resolve()), "--loop", name, "--steps", str(steps)]
    if report is not None:
        command = [sys.executable, "-m", "tritonforge", "trace", "-o", str(report), "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
    return float(done.stdout.strip().splitlines()[-1])


def measured(name: str, pairs: int, steps: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Measure a loop; yields what is known of it after each pair."""
    one(name, 5)  # compiles
    report = folder / f"{name}.json"
    found: list[Pair] = []
    for i in range(pairs):
        times = {traced: one(name, steps, report if traced else None) for traced in (i % 2 == 1, i % 2 == 0)}
        found.append((times[False], times[True]))
        yield summary(found, json.loads(report.read_text()), steps)


def summary(pairs: list[Pair], report: dict[str, Any], steps: int) -> dict[str, Any]:
    """Return the ratios of `pairs`, and what the last traced process recorded."""
    ratios = [traced / alone for alone, traced in pairs]
    launches = report["launches"]
    return {
        "pairs_ms": pairs,
        "ratio": statistics.median(ratios),
        "ratio_ci95": interval(ratios),
        "distinct_launches": len(launches),
        "launches_a_step": sum(one["count"] for one in launches) / (steps + WARM_UP),
        "host_calls": len(report["calls"]),
        "timed": sum(one["time_us"] is not None for one in launches),
        "failures": report["failures"],
    }


def interval(ratios: list[float]) -> Pair:
    """Return a bootstrap 95 % interval of the median."""
    source = random.Random(0)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(4000))
    return medians[100], medians[3899]


def main() -> int:
    """Measure the loops that were asked for, printing and writing as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=list(LOOPS))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--quick", action="store_true", help=f"time {QUICK_STEPS} steps of each process")
    parser.add_argument("--loop", choices=LOOPS, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    options.steps = options.steps or (QUICK_STEPS if options.quick else 200)
    import torch

    if options.loop:
        print(LOOPS[options.loop](torch, options.steps))
        return 0
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "python": sys.version.split()[0]}
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.loops:
            for result in measured(name, options.pairs, options.steps, Path(folder)):
                results[name] = result
                alone, traced = result["pairs_ms"][-1]
                cost = (traced - alone) * 1e3 / result["launches_a_step"]
                print(
                    f"{name}: alone {alone:.3f} ms, traced {traced:.3f} ms, ratio {traced / alone:.4f}, "
                    f"{cost:.2f} us a launch",
                    flush=True,
                )
                if options.output:
                    written = {**about, "pairs": options.pairs, "steps": options.steps, "loops": results}
                    options.output.write_text(json.dumps(written, indent=2) + "\n")
    print_table(results)
    return int(any(result["ratio"] > LIMIT for result in results.values()))


def print_table(results: dict[str, dict[str, Any]]) -> None:
    """Print medians and ratios as Markdown."""
    print("| loop | launches a step | alone, ms | traced, ms | us a launch | ratio | 95 % |")
    print("|" + " --- |" * 7)
    for name, result in results.items():
        alone, traced = (statistics.median(pair[i] for pair in result["pairs_ms"]) for i in (0, 1))
        cost = statistics.median((pair[1] - pair[0]) * 1e3 for pair in result["pairs_ms"]) / result["launches_a_step"]
        low, high = result["ratio_ci95"]
        print(
            f"| {name} | {result['launches_a_step']:.0f} | {alone:.3f} | {traced:.3f} | {cost:.2f} "
            f"| {result['ratio']:.4f} | {low:.4f} to {high:.4f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
