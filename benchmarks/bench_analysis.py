"""How long static analysis takes on the largest Triton files that are installed: `python benchmarks/bench_analysis.py`.

Prints, for each file, its lines, kernels, and the best of several runs in milliseconds of processor time, beside what
Python's own parser alone needs.
"""

import argparse
import ast
import importlib.util
import time
from pathlib import Path

from tritonforge.analysis import analyze


def best_ms(work, runs):
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=["liger_kernel", "fla"])
    parser.add_argument("--files", type=int, default=10, help="how many of the longest files to time")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    files = []
    for package in options.packages:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            print(f"{package} is not installed: left out")
            continue
        root = Path(spec.submodule_search_locations[0])
        files += [(root.parent, path) for path in root.rglob("*.py") if b"triton.jit" in path.read_bytes()]
    sources = sorted(
        ((path.read_bytes(), path.relative_to(root)) for root, path in files), key=lambda s: -s[0].count(b"\n")
    )
    print(f"{'lines':>6} {'kernels':>7} {'analyze ms':>10} {'parse ms':>8}  file")
    for source, name in sources[: options.files]:
        took = best_ms(lambda s=source, n=name: analyze(s, str(n)), options.runs)
        parse = best_ms(lambda s=source: ast.parse(s), options.runs)
        kernels = len(analyze(source, str(name)).kernels)
        print(f"{source.count(bytes([10])):>6} {kernels:>7} {took:>10.1f} {parse:>8.1f}  {name}")


if __name__ == "__main__":
    main()
