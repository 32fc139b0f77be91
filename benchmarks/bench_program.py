"""A real training run ranked by `tritonforge profile -- COMMAND` and by torch.profiler: the same order, at which cost?

    python benchmarks/bench_program.py [RESULT.json] [--steps N]

Needs a GPU, torch, triton and liger-kernel in the interpreter that runs it; takes about 90 s. The program is
`programs/train.py`. It is run plain (which fills Triton's cache), ranked, plain again, and under torch.profiler. Exits
with 1 when two Triton kernels whose times differ by more than 5 % are ranked in another order, when a count differs, or
when the share that is not Triton's differs by more than 2 points.
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
from itertools import combinations
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SERVER = HERE.parent / "server"
MEMORY = ("Memcpy", "Memset")
APART = 1.05
SETTLED = 20
"""Steps before the clock, the allocator and the sampling of launches have settled."""


def run(folder: Path, name: str, steps: int, *extra: str, profiled: bool = False) -> tuple[float, list[float], str]:
    """Run the program; return its wall time with Python's start, the seconds of its steps, and its stderr."""
    report = folder / f"{name}.json"
    command = [
        sys.executable,
        str(HERE / "programs" / "train.py"),
        "--steps",
        str(steps),
        "--report",
        str(report),
        *extra,
    ]
    if profiled:
        ours = [sys.executable, "-m", "tritonforge", "profile", "-o", str(folder / "ranking.json"), "--"]
        command = [*ours, *command]
    began = time.perf_counter()
    path = os.pathsep.join(filter(None, (str(SERVER), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command, cwd=HERE.parent, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    wall = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return wall, json.loads(report.read_text()), done.stderr


def step_ms(seconds: list[float]) -> float:
    """Return the median step in ms once it has settled."""
    return statistics.median(seconds[SETTLED:] or seconds) * 1e3


def compare(ranking: dict[str, Any], torch_rows: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return what disagrees, and both views of each Triton kernel."""
    kernels = [row for row in torch_rows if not row["name"].startswith(MEMORY)]
    total = sum(row["time_us"] for row in kernels)
    theirs = {row["name"]: row for row in kernels}
    rows, wrong = [], []
    for rank, ours in enumerate(ranking["kernels"], 1):
        name = ours["name"].rpartition(".")[2]
        other = theirs.get(name)
        if other is None:
            wrong.append(f"{name} is not in torch.profiler's table")
            continue
        rows.append(
            {
                "rank": rank, "name": name, "share": ours["share"], "torch_share": other["time_us"] / total,
                "count": ours["count"], "torch_count": other["count"], "time_us": ours["time_us"],
                "torch_time_us": other["time_us"], "class": (ours["bottleneck"] or {}).get("class"),
                "headroom": ours["headroom"], "program_gain": ours["program_gain"],
            }
        )  # fmt: skip
        if ours["count"] != other["count"]:
            wrong.append(f"{name} ran {ours['count']} times, by torch.profiler {other['count']}")
    for above, below in combinations(rows, 2):
        if below["torch_time_us"] > APART * above["torch_time_us"]:
            wrong.append(f"{above['name']} stands above {below['name']}, by torch.profiler below it")
    triton = sum(row["torch_share"] for row in rows)
    if ranking["other_share"] is None or abs(ranking["other_share"] - (1 - triton)) > 0.02:
        wrong.append(f"not Triton: {ranking['other_share']}, by torch.profiler {1 - triton:.3f}")
    return wrong, rows


def main() -> int:
    """Run all four, print the tables, write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder, "first", given.steps)
        ranked_wall, ranked, screen = run(folder, "ranked", given.steps, profiled=True)
        plain_wall, plain, _ = run(folder, "plain", given.steps)
        rows_file = folder / "torch_rows.json"
        torch_wall, under_torch, _ = run(folder, "torch", given.steps, "--torch-profiler", str(rows_file))
        report = json.loads((folder / "ranking.json").read_text())
        if given.result is not None:
            given.result.write_text(json.dumps({"steps": given.steps, "report": report}, indent=1) + "\n")
        torch_rows = json.loads(rows_file.read_text())
    print(screen)
    wrong, rows = compare(report["program"], torch_rows)
    print(f"{'kernel':36} {'share':>7} {'torch':>7} {'runs':>7} {'torch':>7}  class, headroom")
    for row in rows:
        print(
            f"{row['name']:36} {row['share']:7.2%} {row['torch_share']:7.2%} {row['count']:7} {row['torch_count']:7}  "
            f"{row['class']} {row['headroom'] and round(row['headroom'], 2)}"
        )
    figures = {
        "step_ms_plain": step_ms(plain), "step_ms_ranked": step_ms(ranked),
        "step_ms_torch_profiler": step_ms(under_torch),
        "step_overhead": step_ms(ranked) / step_ms(plain) - 1, "wall_s_plain": plain_wall,
        "wall_s_program_ranked": report["program"]["wall_s"], "wall_s_ranked_and_judged": ranked_wall,
        "wall_s_torch_profiler": torch_wall,
    }  # fmt: skip
    for label, value in figures.items():
        print(f"{label:26} {value:10.4f}")
    print("\n".join(f"WRONG: {one}" for one in wrong) or "the order, the counts and the shares agree")
    if given.result is not None:
        result = {"steps": given.steps, "agrees": not wrong, "disagreements": wrong, **figures, "kernels": rows}
        given.result.write_text(json.dumps({**result, "report": report}, indent=1) + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
