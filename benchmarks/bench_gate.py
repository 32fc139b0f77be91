"""Time the correctness gate on the examples, without a GPU: `python benchmarks/bench_gate.py [OUTPUT.json]`.

Each example is judged against itself with other launch parameters through `tritonforge verify`; the time is that of the
whole command, worker start included, first with and then without what the first run cached.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = {
    "matmul.py::matmul_kernel": [("32, BLOCK_K=32", "64, BLOCK_K=32"), ("triton.cdiv(N, 32)", "triton.cdiv(N, 64)")],
    "scale_shift.py::scale_shift_kernel": [("BLOCK = 64", "BLOCK = 1024")],
    "row_softmax.py::row_softmax_kernel": [("block=128", "block=1024")],
}


def main() -> None:
    """Verify each case twice, cold and warm, and print a table."""
    rows = []
    for kernel, changes in CASES.items():
        file = kernel.partition("::")[0]
        with tempfile.TemporaryDirectory(prefix="tritonforge-gate-") as folder:
            text = (ROOT / "examples" / file).read_text()
            shutil.copy(ROOT / "examples" / file, folder)
            for before, after in changes:
                if before not in text:
                    raise SystemExit(f"{file} no longer holds {before!r}")
                text = text.replace(before, after)
            (Path(folder) / "candidate.py").write_text(text)
            (Path(folder) / "tritonforge.toml").write_text("")
            times = []
            for _ in range(2):
                started = time.perf_counter()
                done = subprocess.run(
                    [sys.executable, "-m", "tritonforge", "verify", kernel, "--candidate", "candidate.py",
                     "--target", "offline", "--format", "json"],
                    cwd=folder, capture_output=True, text=True, check=False,
                )  # fmt: skip
                times.append(round(time.perf_counter() - started, 2))
            verdict = json.loads(done.stdout)["verdict"]
            rows.append(
                {"kernel": kernel, "accepted": verdict["accepted"], "inputs": len(verdict["inputs"]),
                 "first_s": times[0], "again_s": times[1]}
            )  # fmt: skip
            said = f"{len(verdict['inputs'])} inputs, {times[0]} s, again {times[1]} s"
            print(f"{kernel:40} accepted={verdict['accepted']} {said}")
    if len(sys.argv) > 1:
        where = {"python": platform.python_version(), "machine": platform.machine(), "date": time.strftime("%Y-%m-%d")}
        Path(sys.argv[1]).write_text(json.dumps({"environment": where, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
