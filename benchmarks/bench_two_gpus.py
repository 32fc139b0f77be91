"""Twenty kernels on one GPU of a machine and on two of them: two must take at most 0.55 of the time.

    python benchmarks/bench_two_gpus.py [--kernels 20] [--budget 10] [--gpus 0,1] [--json FILE]

Each run is `tritonforge optimize` on a fresh workspace with fresh caches, as a user would call it; the one GPU is the
first of those given. Besides the time it prints how far the baselines of the two runs are apart: GPUs that work side by
side must not measure other times than one that works alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environment import environment

_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
_POINTWISE = """@triton.jit
def pointwise_{n}(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * {n}.5 + y, mask=mask)


def run_{n}(x, y):
    out = torch.empty_like(x)
    pointwise_{n}[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
    return out


def test_{n}():
    x = torch.randn({size}, device="cuda")
    assert run_{n}(x, x).shape == x.shape
"""
_ROWS = """@triton.jit
def row_sum_{n}(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0.0) * {n}.25
    tl.store(out_ptr + row, tl.sum(total, axis=0))


def run_{n}(x):
    out = torch.empty(x.shape[0], device=x.device)
    row_sum_{n}[(x.shape[0],)](x, out, x.shape[1], BLOCK=64, num_warps=1)
    return out


def test_{n}():
    x = torch.randn(4096, {size}, device="cuda")
    assert run_{n}(x).shape == (4096,)
"""


def write_kernels(root: Path, count: int) -> None:
    """Write `count` files with a kernel each: half of them elementwise, half sums of rows, every one another."""
    (root / ".git").mkdir()
    for number in range(count):
        text = _POINTWISE if number % 2 == 0 else _ROWS
        size = 16_000_000 + 65_536 * number if number % 2 == 0 else 4096 + 128 * number
        (root / f"kernel_{number:02}.py").write_text(_HEAD + text.format(n=number, size=size))


def optimize(gpus: str, count: int, budget: float) -> tuple[float, dict[str, float], dict[str, float]]:
    """Return the seconds that it took, and by kernel the original's time (µs) and the best speedup found."""
    with tempfile.TemporaryDirectory(prefix="tritonforge-two-") as folder:
        root = Path(folder, "workspace")
        root.mkdir()
        write_kernels(root, count)
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": gpus,
            "TRITON_CACHE_DIR": str(Path(folder, "triton")),
            "TRITONFORGE_CACHE_DIR": str(Path(folder, "cache")),
        }
        files = [f"kernel_{number:02}.py" for number in range(count)]
        command = [sys.executable, "-m", "tritonforge", "optimize", *files, "--budget", str(budget), "--format", "json"]
        begun = time.monotonic()
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        took = time.monotonic() - begun
    if done.returncode != 0:
        sys.exit(f"optimize ended with {done.returncode}: {done.stderr[-2000:]}")
    results = json.loads(done.stdout)["results"]
    baselines = {r["kernel"]["name"]: sum(r["baseline"]["time_us"].values()) for r in results}
    speedups = {r["kernel"]["name"]: r["best"]["speedup"] if r["best"] else 1.0 for r in results}
    return took, baselines, speedups


def main() -> int:
    """Run both, print the record, and return 1 when two GPUs take more than 0.55 of the time of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=20)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds for each kernel")
    parser.add_argument("--gpus", default="0,1")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    one, before, gains_one = optimize(given.gpus.split(",")[0], given.kernels, given.budget)
    two, after, gains_two = optimize(given.gpus, given.kernels, given.budget)
    apart = [after[name] / before[name] for name in before if name in after]
    record = {
        "environment": environment(),
        "kernels": given.kernels,
        "budget_s": given.budget,
        "one_gpu_s": one,
        "two_gpus_s": two,
        "ratio": two / one,
        "baseline_ratio_median": statistics.median(apart),
        "baseline_ratio_range": [min(apart), max(apart)],
        "improved_on_one": sum(gain > 1.05 for gain in gains_one.values()),
        "improved_on_two": sum(gain > 1.05 for gain in gains_two.values()),
    }
    gpus = given.gpus.count(",") + 1
    print(f"{given.kernels} kernels: one GPU {one:.1f} s, {gpus} GPUs {two:.1f} s, ratio {two / one:.3f}")
    print(
        f"baselines, side by side over alone: median {record['baseline_ratio_median']:.3f}, "
        f"{min(apart):.3f} to {max(apart):.3f}; improved {record['improved_on_one']} and {record['improved_on_two']}"
    )
    if given.json:
        given.json.write_text(json.dumps(record, indent=2) + "\n")
    return int(two / one > 0.55)


if __name__ == "__main__":
    sys.exit(main())
