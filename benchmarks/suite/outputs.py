"""Compare what a driver returns with an original package and with an edited one, on inputs that nothing has seen.

    python -m suite.outputs ORIGINAL EDITED DRIVER      prints {"inputs", "worst_error", "problem"} as JSON

Each version runs in a process of its own with its workspace in front of the path. Where two runs of the original
differ (it may add with atomics), twice that much is allowed.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from suite.case import difference, outputs_of

SEEDS = (101, 102)


def run(root: Path, driver: str, out: Path) -> None:
    """Run a driver of a workspace twice on each seed and keep what it returns."""
    sys.path.insert(0, str(root))
    module = importlib.import_module(driver)
    found = []
    for seed in SEEDS:
        for _ in range(2):
            torch.manual_seed(seed)
            returned = [one.detach() for one in outputs_of(module.run()) if isinstance(one, torch.Tensor)]
            found.append([one.cpu() for one in returned])
    torch.save(found, out)


def compare(original: Path, edited: Path, driver: str) -> dict[str, object]:
    """Compare the two workspaces on every seed."""
    saved = []
    with tempfile.TemporaryDirectory(prefix="tritonforge-suite-") as scratch:
        for number, root in enumerate((original, edited)):
            out = Path(scratch) / f"{number}.pt"
            command = [sys.executable, "-m", "suite.outputs", "--save", str(root), driver, str(out)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                which = ("original", "edited version")[number]
                return {"inputs": 0, "worst_error": None, "problem": f"the {which} fails: {done.stderr[-300:]}"}
            saved.append(torch.load(out))
    worst, problem = 0.0, ""
    before, after = saved
    for place in range(0, len(before), 2):
        if len(before[place]) != len(after[place]):
            return {"inputs": 0, "worst_error": None, "problem": "another number of outputs"}
        for i, (first, again, other) in enumerate(zip(before[place], before[place + 1], after[place], strict=True)):
            noise, _ = difference(again, first)
            error, good = difference(other, first)
            worst = max(worst, error)
            if not good and not error <= 2 * noise:
                problem = problem or f"output {i} is off by {error:.3g} (two runs of the original: {noise:.3g})"
    return {"inputs": len(SEEDS), "worst_error": worst, "problem": problem}


def main() -> None:
    """Compare, or run one driver."""
    if sys.argv[1] == "--save":
        run(Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
    else:
        print(json.dumps(compare(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))


if __name__ == "__main__":
    main()
