"""Print the output of `optimize_examples.py` as a Markdown table: `python benchmarks/optimize_table.py FILE.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Print environment and rows."""
    data = json.loads(Path(sys.argv[1]).read_text())
    where = data["environment"]
    driver = str(where["driver"]).split(",")[0]
    print(f"{where['gpu']}, driver {driver}, torch {where['torch']}, triton {where['triton']}, {where['date']}.\n")
    print("| kernel | before | after | speedup (95 %) | what changed | instead | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for run in data["runs"]:
        (result,) = run["results"]
        best, other = result["best"], run["reference"]
        before = sum(result["baseline"]["time_us"].values())
        name = run["kernel"].replace("::", "` `")
        instead = f"{other['what']}: {other['time_us']:.0f} µs" if other else ""
        if best:
            low, high = best["speedup_ci95"]
            gain = f"**{best['speedup']:.2f}x** ({low:.2f}–{high:.2f})"
            after, change = f"{sum(best['time_us'].values()):.0f} µs", f"`{best['title']}`"
        else:
            gain, after, change = "–", "–", result["stopped_because"]
        print(f"| `{name}` | {before:.0f} µs | {after} | {gain} | {change} | {instead} | {run['wall_s']:.0f} |")


if __name__ == "__main__":
    main()
