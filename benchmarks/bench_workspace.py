"""How long it takes to find what runs a kernel in a large workspace: `python benchmarks/bench_workspace.py`.

Makes a project of 2,000 Python files (30 to 400 lines; 15 % mention Triton; packages with re-exports, tests, unrelated
code, one wrapper used by hundreds of files) and asks what can be run to see kernels launched: in a fresh process with
nothing remembered (cold), in a fresh process that finds an earlier one's index (warm), once more in the same process,
and after one file was saved. Prints seconds; with --json one object.
"""

import argparse
import json
import multiprocessing
import random
import shutil
import tempfile
import time
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.store import open_store
from tritonforge.workload.index import WorkspaceIndex

KERNEL = """
@triton.jit
def {name}_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def {name}(x):
    out = torch.empty_like(x)
    {name}_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out
"""


def filler(rng, lines):
    """Ordinary code: functions of a few lines, a class now and then."""
    parts = []
    while sum(part.count("\n") for part in parts) < lines:
        n = rng.randrange(1 << 30)
        parts.append(
            f"\n\ndef step_{n}(values, scale=1.0, *, mode='mean'):\n"
            f'    """Combine `values` as `mode` says."""\n'
            f"    total = sum(value * scale for value in values if value is not None)\n"
            f"    if mode == 'mean' and values:\n        return total / len(values)\n"
            f"    return {{'total': total, 'count': len(values), 'tag': '{n}'}}\n"
            if n % 4
            else f"\n\nclass Layer{n}:\n    def __init__(self, width):\n        self.width = width\n\n"
            f"    def forward(self, x):\n        return [v + self.width for v in x]\n"
        )
    return "".join(parts)


def make(root, files, seed=0):
    """Write the project; returns the files with kernels."""
    rng = random.Random(seed)
    kernels = []
    for group in range(files // 20):
        package = root / "lib" / f"group{group}"
        package.mkdir(parents=True)
        (root / "tests").mkdir(exist_ok=True)
        names = [f"op{group}_{i}" for i in range(3)]
        head = "import torch\nimport triton\nimport triton.language as tl\n"
        for name in names[:2]:
            (package / f"{name}.py").write_text(head + filler(rng, rng.randrange(30, 300)) + KERNEL.format(name=name))
            kernels.append(f"lib/group{group}/{name}.py")
        (package / "__init__.py").write_text("".join(f"from .{name} import {name}\n" for name in names[:2]))
        (root / "tests" / f"test_group{group}.py").write_text(
            f"import torch\nfrom lib.group{group} import {names[0]}\nimport lib.group{group}.{names[1]} as second\n"
            + filler(rng, rng.randrange(30, 200))
            + f"\n\ndef test_first():\n    {names[0]}(torch.ones(99, device='cuda'))\n"
            f"\n\ndef test_second():\n    second.{names[1]}(torch.ones(99, device='cuda'))\n"
        )
        for i in range(16):
            uses = "from lib.group0 import op0_0\n" if i % 4 == 0 else ""
            text = (
                f"import math\nimport os.path as osp\n{uses}from lib.group{group} import {names[0]}\n"
                if i < 6
                else "import math\n"
            )
            text += "# beside what triton compiles\n" if i == 7 else ""
            call = f"\n\ndef run_{i}(x):\n    return {names[0]}(x)\n" if i < 6 else ""
            (package / f"module{i}.py").write_text(text + filler(rng, rng.randrange(30, 400)) + call)
    (root / "lib" / "__init__.py").write_text("")
    (root / "pyproject.toml").write_text("[project]\nname = 'lib'\n")
    return kernels


def ask(root, file, again=0):
    """Answer for the kernel of one file in this process; returns seconds for each time it was asked."""
    root = Path(root)
    store = open_store(root)
    index = WorkspaceIndex(root, store)
    text = (root / file).read_text()
    (kernel,) = analyze(text, file).kernels
    seconds = []
    ways = ()
    for _ in range(again + 1):
        start = time.perf_counter()
        ways = index.ways(kernel, text)
        seconds.append(time.perf_counter() - start)
    store.close()
    return seconds, [f"{way.file}::{way.entry.name}" for way in ways[:3]], index.files.scanned


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="workspace"))
    spawn = multiprocessing.get_context("spawn")
    results = {}
    try:
        kernels = make(folder, options.files)
        texts = [path.read_text() for path in folder.rglob("*.py")]
        results["files"] = len(texts)
        results["lines"] = sum(text.count("\n") for text in texts)
        results["mention triton"] = round(sum("triton" in text for text in texts) / len(texts), 3)
        with spawn.Pool(1, maxtasksperchild=1) as pool:
            (cold,), found, read = pool.apply(ask, (folder, kernels[-1]))
            assert found[0].startswith("tests/"), found
            results["cold s"], results["files read cold"] = round(cold, 3), read
            (warm, again), _, read = pool.apply(ask, (folder, kernels[-1], 1))
            results["warm s"], results["files read warm"] = round(warm, 3), read
            results["again s"] = round(again, 3)
            (popular,), _, _ = pool.apply(ask, (folder, kernels[0]))
            results["warm, a wrapper that hundreds of files use s"] = round(popular, 3)
            module = folder / "lib" / "group1" / "module1.py"
            module.write_text(module.read_text() + "\n\nextra = 1\n")
            (saved,), _, read = pool.apply(ask, (folder, kernels[-1]))
            results["after one save s"], results["files read after one save"] = round(saved, 3), read
    finally:
        shutil.rmtree(folder)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        for name, value in results.items():
            print(f"{name:>45}  {value}")


if __name__ == "__main__":
    main()
