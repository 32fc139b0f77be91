"""What is replaced in Triton while CUDA is pretended."""

from __future__ import annotations

from typing import Any

from tritonforge.worker.fakecuda.driver import bench_once
from tritonforge.worker.fakecuda.patches import Patches


def patch_triton(patches: Patches, driver: Any) -> None:
    """Make `driver` the active one, and benchmarks call their function once."""
    import triton.testing
    from triton.runtime.driver import driver as config

    if hasattr(config, "_active"):
        patches.set(config, "_active", driver)
    if hasattr(config, "_default"):
        patches.set(config, "_default", driver)
    if hasattr(config, "default") and "default" in vars(config):
        patches.set(config, "default", driver)
    if "active" in vars(config):
        patches.set(config, "active", driver)
    patches.set(type(config), "set_active", lambda _self, _driver: None)
    patches.set(triton.testing, "do_bench", bench_once)
    for name in ("do_bench_cudagraph", "do_bench_proton"):
        if hasattr(triton.testing, name):
            patches.set(triton.testing, name, bench_once)
    patches.set(triton.testing.Mark, "run", _run_benchmark)
    import triton

    patches.set(triton.testing, "get_dram_gbps", lambda *_a, **_k: 3350.0)
    compiler = getattr(triton, "compiler", None)
    inner = getattr(compiler, "compiler", None)
    if inner is not None and hasattr(inner, "max_shared_mem"):
        properties = driver.utils.get_device_properties()
        patches.set(inner, "max_shared_mem", lambda _device: properties["max_shared_mem"])


def _run_benchmark(self: Any, *_args: Any, **_kwargs: Any) -> None:
    """Run a `perf_report` at its first and last size, without the plotting libraries that it would import."""
    benchmarks = self.benchmarks if isinstance(self.benchmarks, (list, tuple)) else [self.benchmarks]
    for bench in benchmarks:
        values = list(bench.x_vals)
        for x in values[:1] + values[1:][-1:]:
            xs = list(x) if isinstance(x, (list, tuple)) else [x] * len(bench.x_names)
            for line in bench.line_vals:
                self.fn(**dict(zip(bench.x_names, xs, strict=True)), **{bench.line_arg: line}, **bench.args)
