"""Run `tritonforge optimize` on every example and keep what it found, with the environment, as one JSON file.

    python benchmarks/optimize_examples.py [--target NAME] [--budget SECONDS] OUTPUT.json [PATH::KERNEL …]

Beside our own result the file holds the time of what a user would use instead, where there is one: PyTorch's own
operator on the same arguments, timed with `triton.testing.do_bench`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environment import environment

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = (
    "examples/matmul.py::matmul_kernel",
    "examples/scale_shift.py::scale_shift_kernel",
    "examples/row_softmax.py::row_softmax_kernel",
    "liger_kernel/ops/rms_norm.py::_rms_norm_forward_kernel",
    "liger_kernel/ops/layer_norm.py::_layer_norm_forward_kernel",
)
LIGER_LAUNCHES = """
[[launch]]
file = "rms_norm.py"
function = "rms_norm_forward"
X = "fp16[8192, 4096]"
W = "fp16[4096]"
eps = 1e-6
offset = 0.0
casting_mode = "'llama'"
row_mode = "None"

[[launch]]
file = "layer_norm.py"
function = "layer_norm_forward"
X = "fp16[8192, 4096]"
W = "fp16[4096]"
B = "fp16[4096]"
eps = 1e-6
"""
"""At realistic sizes; the package itself comes with no launch in its files."""
REFERENCES = """
import json, torch, triton
def bench(f): return triton.testing.do_bench(f, warmup=50, rep=300, return_mode="median") * 1e3
a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16); b = torch.randn_like(a)
x = torch.randn(16777259, device="cuda"); y = torch.randn_like(x)
s = torch.randn(8192, 4096, device="cuda")
h = s.half(); w = h[0].clone(); norms = torch.nn.functional
scale_shift = torch.compile(lambda x, y: x * 0.5 + y)
def row(what, f): return {"what": what, "time_us": bench(f)}
print(json.dumps({
    "examples/matmul.py::matmul_kernel": row("torch.matmul (cuBLAS)", lambda: a @ b),
    "examples/scale_shift.py::scale_shift_kernel": row("torch.compile of x * scale + y", lambda: scale_shift(x, y)),
    "examples/row_softmax.py::row_softmax_kernel": row("torch.softmax", lambda: torch.softmax(s, 1)),
    "liger_kernel/ops/rms_norm.py::_rms_norm_forward_kernel": row(
        "torch.nn.functional.rms_norm", lambda: norms.rms_norm(h, (4096,), w, 1e-6)
    ),
    "liger_kernel/ops/layer_norm.py::_layer_norm_forward_kernel": row(
        "torch.nn.functional.layer_norm", lambda: norms.layer_norm(h, (4096,), w, w, 1e-6)
    ),
}))
"""


def liger_workspace() -> Path:
    """Copy the operators of the installed liger-kernel into a workspace of their own, with launches for them."""
    import liger_kernel

    folder = Path(tempfile.mkdtemp(prefix="tritonforge-liger-"))
    for name in ("rms_norm.py", "layer_norm.py"):
        shutil.copy(Path(liger_kernel.__file__).parent / "ops" / name, folder)
    (folder / "tritonforge.toml").write_text(LIGER_LAUNCHES)
    return folder


def optimize(kernel: str, target: str, budget: float) -> dict[str, object]:
    """Run the command as a user would, and keep its JSON and its wall time."""
    where = ROOT
    if kernel.startswith("liger_kernel/"):
        where = liger_workspace()
        kernel = kernel.rpartition("/")[2]
    started = time.perf_counter()
    command = [sys.executable, "-m", "tritonforge", "optimize", kernel, "--target", target, "--budget", str(budget)]
    done = subprocess.run([*command, "--format", "json"], check=False, cwd=where, capture_output=True, text=True)
    wall = time.perf_counter() - started
    result = json.loads(done.stdout)["results"] if done.returncode == 0 and done.stdout else None
    return {
        "exit": done.returncode,
        "wall_s": round(wall, 2),
        "stderr": done.stderr[-2000:],
        "results": result,
    }


def main() -> None:
    """Run all and print a short table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("kernels", nargs="*", default=EXAMPLES)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--budget", type=float, default=120.0)
    options = parser.parse_args()
    where = environment()
    references = {}
    if where["gpu"]:
        done = subprocess.run([sys.executable, "-c", REFERENCES], check=True, capture_output=True, text=True)
        references = json.loads(done.stdout)
    rows = []
    for kernel in options.kernels:
        row = {"kernel": kernel, **optimize(kernel, options.target, options.budget)}
        row["reference"] = references.get(kernel)
        rows.append(row)
        best = row["results"][0]["best"] if row["results"] else None
        found = (
            f"{best['speedup']:.2f}x {best['speedup_ci95']} {best['provenance']}: {best['title']}" if best else "none"
        )
        print(f"{kernel:48} exit {row['exit']} {row['wall_s']:7.1f} s  {found}", flush=True)
        if row["exit"]:
            print(row["stderr"])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"environment": where, "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
