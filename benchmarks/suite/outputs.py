"""Compare what a driver returns with an original package and with an edited one, on inputs that nothing has seen.

    python -m suite.outputs ORIGINAL EDITED DRIVER      prints {"inputs", "worst_error", "problem"} as JSON

Each run is a process of its own with the workspace in front of its path. Where two runs of the original differ (it may
add with atomics), that much is allowed besides.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from suite.case import difference, outputs_of

SEEDS = (101, 102)


def run(root: Path, driver: str, seed: int, out: Path) -> None:
    """Run a driver of a workspace and keep what it returns."""
    sys.path.insert(0, str(root))
    module = __import__(driver)
    torch.manual_seed(seed)
    found = [one.detach() for one in outputs_of(module.run()) if isinstance(one, torch.Tensor)]
    torch.cuda.synchronize()
    torch.save(found, out)


def compare(original: Path, edited: Path, driver: str) -> dict[str, object]:
    """Compare the two workspaces on every seed."""
    worst, problem = 0.0, ""
    with tempfile.TemporaryDirectory(prefix="tritonforge-suite-") as scratch:
        for seed in SEEDS:
            saved = []
            for number, root in enumerate((original, original, edited)):
                out = Path(scratch) / f"{number}.pt"
                command = [sys.executable, "-m", "suite.outputs", "--save", str(root), driver, str(seed), str(out)]
                done = subprocess.run(command, check=False, capture_output=True, text=True, env=dict(os.environ))
                if done.returncode:
                    return {"inputs": 0, "worst_error": None, "problem": f"the driver fails: {done.stderr[-300:]}"}
                saved.append(torch.load(out))
            for i, (first, again, other) in enumerate(zip(*saved, strict=True)):
                noise, _ = difference(again, first)
                error, good = difference(other, first)
                worst = max(worst, error)
                if not good and error > 2 * noise:
                    problem = problem or f"output {i} is off by {error:.3g} (two runs of the original: {noise:.3g})"
    return {"inputs": len(SEEDS), "worst_error": worst, "problem": problem}


def main() -> None:
    """Compare, or run one driver."""
    if sys.argv[1] == "--save":
        run(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
    else:
        print(json.dumps(compare(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))


if __name__ == "__main__":
    main()
