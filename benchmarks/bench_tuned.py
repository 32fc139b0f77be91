"""What `tuned` costs at a launch: picking alone on any machine, whole launches where there is a GPU.

    python benchmarks/bench_tuned.py OUTPUT.json [--repeats 300]

Picking is what `tuned` does before it hands over to the kernel: measured with a kernel that does nothing, as the time
of a launch with `tuned` less that of one without. Whole launches are of an empty kernel on a GPU: as `@triton.jit`
alone with the configuration written out, with `@triton.autotune` once its cache is warm, and with `tuned`. Every
number is the smallest of several repeats of many calls in one process: what is left is the code, not the machine.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any

from tritonforge.runtime import tuned
from tritonforge.runtime.devices import DeviceInfo

CALLS = 500
"""Calls of one repeat, few enough that many repeats are interrupted by nothing."""
SHAPES = [(1 << i, 4096, 4096) for i in range(12)]


def tuning(folder: Path) -> Path:
    """Write a file with a dozen entries for one kernel."""
    entries = [
        {
            "sizes": {"M": m, "N": n, "K": k},
            "dtypes": {"a_ptr": "float16", "b_ptr": "float16", "c_ptr": "float16"},
            "flags": {},
            "config": {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
        }
        for m, n, k in SHAPES
    ]
    kernel = {
        "keys": {"sizes": ["M", "N", "K"], "dtypes": ["a_ptr", "b_ptr", "c_ptr"], "flags": []},
        "tunes": ["BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"],
        "fallback": entries[0]["config"],
        "gpus": [{"gpu": "", "arch": "any", "entries": entries}],
    }
    path = folder / "bench.tuned.json"
    path.write_text(json.dumps({"schema": "tritonforge-tuned/1", "kernels": {"matmul": kernel}}))
    return path


def least_ns(call: Any, repeats: int) -> float:
    """Return the least time of one call in ns."""
    return min(timeit.repeat(call, number=CALLS, repeat=repeats)) / CALLS * 1e9


class Nothing:
    """A kernel that takes a launch and does nothing with it."""

    def __init__(self, function: Any) -> None:
        self.fn = function

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        """Do nothing."""

    def __getitem__(self, grid: Any) -> Any:
        """As `@triton.jit` does it."""
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


def picking(path: Path, repeats: int) -> dict[str, float]:
    """Measure what is done before the kernel is handed over to, on the CPU."""
    import torch

    def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sa, sb, sc, BLOCK_M, BLOCK_N, BLOCK_K):
        pass

    bare = Nothing(matmul)
    kernel = tuned(path, name="matmul", device=lambda _: DeviceInfo("some GPU", "any"))(Nothing(matmul))
    a = torch.empty((4, 4), dtype=torch.float16)
    args = (a, a, a, 512, 4096, 4096, 4, 4, 4)
    named = {"M": 512, "N": 4096, "K": 4096, "sa": 4, "sb": 4, "sc": 4}
    config = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    found = {
        "without_ns": least_ns(lambda: bare[(1,)](*args, **config), repeats),
        "with_ns": least_ns(lambda: kernel[(1,)](*args), repeats),
        "without_named_ns": least_ns(lambda: bare[(1,)](a, a, a, **named, **config), repeats),
        "with_named_ns": least_ns(lambda: kernel[(1,)](a, a, a, **named), repeats),
        "pick_ns": least_ns(lambda: kernel.pick(*args), repeats),
        "new_sizes_ns": least_ns(_new_sizes(kernel, a), repeats),
    }
    return found | {
        "picking_ns": found["with_ns"] - found["without_ns"],
        "picking_named_ns": found["with_named_ns"] - found["without_named_ns"],
    }


def _new_sizes(kernel: Any, a: Any) -> Any:
    counter = iter(range(1, 1 << 30))
    return lambda: kernel[(1,)](a, a, a, next(counter), 4096, 4096, 4, 4, 4)


def launching(path: Path, repeats: int) -> dict[str, Any] | None:
    """Measure whole launches of an empty kernel on the GPU; None without one."""
    import torch
    import triton

    if not torch.cuda.is_available():
        return None
    sys.path.insert(0, str(path.parent))
    (path.parent / "empty_kernel.py").write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\n"
        "def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sa, sb, sc,\n"
        "           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):\n    pass\n"
    )
    from empty_kernel import matmul  # type: ignore[import-not-found]

    config = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32}
    chosen = tuned(path, device=lambda _: DeviceInfo("some GPU", "any"))(matmul)
    searched = triton.autotune([triton.Config(config, num_warps=w, num_stages=3) for w in (4, 8)], key=["M", "N", "K"])(
        matmul
    )
    a = torch.empty((4, 4), dtype=torch.float16, device="cuda")
    args = (a, a, a, 512, 4096, 4096, 4, 4, 4)
    launches = {
        "jit_ns": lambda: matmul[(1,)](*args, **config, num_warps=4, num_stages=3),
        "tuned_ns": lambda: chosen[(1,)](*args),
        "autotune_ns": lambda: searched[(1,)](*args),
    }
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name()}
    for launch in launches.values():  # compile and search before anything is timed
        launch()
    for name, launch in launches.items():
        torch.cuda.synchronize()
        # Few enough that the queue of the device never fills: then the host would wait for it.
        found[name] = min(_once(launch) for _ in range(repeats))
    return found


def _once(launch: Any) -> float:
    import torch

    torch.cuda.synchronize()
    return least_ns(launch, 1)


def main() -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--repeats", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = tuning(Path(scratch))
        found = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "calls": CALLS,
            "picking": picking(path, options.repeats),
            "launching": launching(path, options.repeats),
        }
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, value in found["picking"].items():
        print(f"{name:<20} {value / 1e3:8.3f} us")
    for name, value in (found["launching"] or {}).items():
        print(f"{name:<20} {value if isinstance(value, str) else f'{value / 1e3:8.3f} us'}")
    return 0 if max(found["picking"]["picking_ns"], found["picking"]["picking_named_ns"]) < 2_000 else 1


if __name__ == "__main__":
    sys.exit(main())
