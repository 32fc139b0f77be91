"""Print the rows of the benchmark suite as Markdown, with its targets counted.

    python benchmarks/suite/table.py ROWS.jsonl …

Every row is printed, failures included. Where a kernel has several rows the last one counts.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tritonforge.profiling.statistics import ratio_interval

OURS, PLAIN, OFFLINE, MAX_AUTOTUNE = "TritonForge", "plain", "TritonForge, offline", "torch.compile, max-autotune"
NEAR = 0.90
"""The share of a reference's speed, or of the roofline, that a kernel has to reach."""
SUCCESS = 1.05
AS_FAR_OFF = 1.5
"""How many times as far off as the plain version a version may be that is off by more than the tolerance: then how the
plain version rounds within decides, which is no matter of the rewrite."""
Row = dict[str, Any]


def read(paths: Iterable[Path]) -> tuple[list[Row], list[Row]]:
    """Return the environments and the rows of some files; a line that was cut off is left out."""
    environments, rows = [], {}
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                one = json.loads(line)
            except ValueError:
                continue
            if "environment" in one:
                environments.append(one)
            elif "name" in one:
                rows[one["target"], one["name"]] = one
    return environments, list(rows.values())


def time_of(row: Row, name: str) -> float | None:
    """Return what a version or a reference took over all calls in µs; None where one of them has no time of it."""
    calls = row.get("measured", {}).get("calls", [])
    times = [call["times_us"][name]["median"] for call in calls if name in call["times_us"]]
    return sum(times) if calls and len(times) == len(row.get("work", ())) else None


def ours_of(row: Row) -> float | None:
    """Return the time of what a user has in the end: the suggestion, or the plain version where there is none."""
    return time_of(row, OURS if improved(row) else PLAIN)


def improved(row: Row) -> bool:
    """Tell whether a suggestion was made."""
    return any(one.get("best") for one in row["searches"])


def best_reference(row: Row) -> tuple[str, float] | None:
    """Return the fastest reference with its time; `max-autotune` is beside them and no reference."""
    calls = row.get("measured", {}).get("calls", [])
    names = dict.fromkeys(name for call in calls for name in call["times_us"])
    found = [(name, time_of(row, name)) for name in names if name not in {OURS, PLAIN, OFFLINE, MAX_AUTOTUNE}]
    timed = [(name, value) for name, value in found if value is not None]
    return min(timed, key=lambda one: one[1]) if timed else None


def roofline_of(row: Row) -> float | None:
    """Return the least time of all calls that the measured ceilings allow, in µs."""
    values = [one["roofline_us"] for one in row.get("work", ())]
    return sum(values) if values and all(value is not None for value in values) else None


def speedup_of(row: Row) -> tuple[float, tuple[float, float]] | None:
    """Return what was measured apart from TritonForge's own word: plain over suggestion, with its 95 % interval.

    None where nothing was suggested or its time is not known.
    """
    if "again" in row:
        again = row["again"]
        return (again["speedup"], tuple(again["speedup_ci95"])) if "speedup" in again else None
    calls = row.get("measured", {}).get("calls", [])
    if not calls or any(OURS not in call["samples_us"] for call in calls):
        return None
    before, after = (
        [sum(parts) for parts in zip(*(call["samples_us"][name] for call in calls), strict=False)]
        for name in (PLAIN, OURS)
    )
    return ratio_interval(before, after)


def near(row: Row, version_us: float | None) -> bool | None:
    """Tell whether a time is ≥ 90 % of the best reference's speed or of the roofline; None where nothing is known."""
    best, roof = best_reference(row), roofline_of(row)
    if version_us is None or (best is None and roof is None):
        return None
    bounds = [value for value in (best[1] if best else None, roof) if value is not None]
    return any(bound / version_us >= NEAR for bound in bounds)


def problem_of(row: Row, name: str = OURS) -> str:
    """Return what is wrong with the results of a version, an empty text where nothing is known to be."""
    if row["part"] == "b":
        return row.get("correct", {}).get("problem", "") if name == OURS else ""
    small = row.get("checked_small", {})
    correct = row.get("measured", {}).get("correct", {})
    measured = correct.get(name, {}).get("problem", "")
    if measured and name != PLAIN and _rounds_as_plain(correct, name):
        measured = ""
    return measured or (small.get("said", "wrong") if name == OURS and small and not small["right"] else "")


def _rounds_as_plain(correct: Row, name: str) -> bool:
    """Tell whether plain is off by more than the tolerance, too, and by as much."""
    plain, one = correct.get(PLAIN, {}), correct.get(name, {})
    both = plain.get("problem", "") and all("is off by" in each["problem"] for each in (plain, one))
    return bool(both) and one["worst_error"] <= AS_FAR_OFF * plain["worst_error"] < 1.0


def checked(row: Row) -> bool:
    """Tell whether the results of a suggestion were compared with what is right."""
    if row["part"] == "b":
        return bool(row.get("correct", {}).get("inputs"))
    return bool(row.get("measured", {}).get("correct", {}).get(OURS, {}).get("inputs") or row.get("checked_small"))


def successful(row: Row) -> bool:
    """Tell whether a suggestion is verified, right and at least 1.05x, with an interval that excludes 1."""
    found = speedup_of(row)
    best = [one["best"] for one in row["searches"] if one.get("best")]
    verified = bool(best) and all(one["verified"] for one in best)
    right = checked(row) and not problem_of(row)
    return found is not None and found[0] >= SUCCESS and found[1][0] > 1.0 and verified and right


def targets(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one sentence for each target, counted as the suite words it."""
    plain = [row for row in rows if row["part"] == "a" and row["target"] != "offline"]
    shipped = [row for row in rows if row["part"] == "b" and row["target"] != "offline"]
    if plain:
        judged = [near(row, ours_of(row)) for row in plain]
        count = sum(one is True for one in judged)
        yield _said(
            f"(a) ≥ 90 % of the best reference or of the roofline: {count} of {len(plain)}", count / len(plain), 0.8
        )
        room = [row for row in plain if near(row, time_of(row, PLAIN)) is False]
        done = sum(successful(row) for row in room)
        if room:
            yield _said(f"(a) ≥ 1.05x, verified, of those with headroom: {done} of {len(room)}", done / len(room), 0.9)
        unknown = sum(one is None for one in judged)
        if unknown:
            yield f"(a) {unknown} kernels have no time to judge and count as missed."
    if shipped:
        gains = [found[0] if (found := speedup_of(row)) else 1.0 for row in shipped]
        mean = math.exp(statistics.fmean(math.log(gain) for gain in gains))
        slower = sum(1 for row in shipped if (found := speedup_of(row)) and found[1][1] < 1.0)
        yield f"(b) geometric mean of {len(shipped)}: {mean:.3f}x (target ≥ 1.10x: {_met(mean >= 1.1)})."
        yield f"(b) slower than as shipped: {slower} (target 0: {_met(slower == 0)})."
        untimed = sum(1 for row in shipped if improved(row) and speedup_of(row) is None)
        if untimed:
            yield f"(b) {untimed} suggestions have no independent time and count as 1."
    suggested = [row for row in rows if improved(row)]
    wrong = [row["name"] for row in suggested if problem_of(row)]
    unchecked = sum(not checked(row) for row in suggested)
    more = f"; {unchecked} of {len(suggested)} suggestions could not be compared" if unchecked else ""
    yield f"Wrong results: {len(wrong)} (target 0: {_met(not wrong)}){': ' + ', '.join(wrong) if wrong else ''}{more}."
    seconds = sorted(one["seconds"] for row in rows for one in row["searches"] if "seconds" in one)
    if seconds and any(row["target"] != "offline" for row in rows):
        middle, late = statistics.median(seconds), percentile(seconds, 0.95)
        yield f"Seconds a kernel: median {middle:.1f} (target ≤ 25: {_met(middle <= 25)})."
        yield f"Seconds a kernel: 95th percentile {late:.1f} (target ≤ 90: {_met(late <= 90)})."
    broken = [one["kernel"] for row in rows for one in row["searches"] if "failed" in one]
    yield f"Searches that failed: {len(broken)}{': ' + ', '.join(broken) if broken else ''}."


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile of sorted values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _met(good: bool) -> str:
    return "met" if good else "missed"


def _said(text: str, share: float, wanted: float) -> str:
    return f"{text} = {share:.0%} (target ≥ {wanted:.0%}: {_met(share >= wanted)})."


def comparisons(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what each comparator reached beside TritonForge, over the kernels for which both have a time."""
    plain = [row for row in rows if row["part"] == "a" and "measured" in row]
    names = dict.fromkeys(name for row in plain for name in row["measured"].get("comparators", {}))
    for name in names:
        both = [
            one for row in plain if (one := row["measured"].get("comparators", {}).get(name)) and one.get("final_us")
        ]  # fmt: skip
        if not both:
            continue
        ratio = math.exp(statistics.fmean(math.log(one["final_us"] / one["ours_us"]) for one in both))
        reached = sum(one["same_speed_after_s"] is not None for one in both)
        took = statistics.median(one["seconds"] for one in both)
        yield (
            f"{name}: {len(both)} kernels; its final version takes {ratio:.2f}x the time of TritonForge's (geometric "
            f"mean); as fast within 2 % for {reached}; median {took:.0f} s in all."
        )
    for name, what in ((MAX_AUTOTUNE, "its code"), (OFFLINE, "what was suggested without a GPU")):
        pairs = [(time_of(row, name), ours_of(row)) for row in plain]
        ratios = [math.log(a / b) for a, b in pairs if a and b]
        if ratios:
            mean = math.exp(statistics.fmean(ratios))
            yield f"{name}: {len(ratios)} kernels; {what} takes {mean:.2f}x the time of TritonForge's."
    gains = [
        (time_of(row, PLAIN), time_of(row, OFFLINE if row["offline_suggested"] else PLAIN), ours_of(row))
        for row in plain
        if "offline_suggested" in row
    ]
    logs = [(math.log(p / o), math.log(p / m)) for p, o, m in gains if p and o and m]
    if logs and sum(m for _, m in logs) > 0:
        share = sum(o for o, _ in logs) / sum(m for _, m in logs)
        yield (
            f"Offline: of the measured gain on {len(logs)} kernels (in logarithms) its suggestions reach {share:.0%} "
            "once they are measured; no suggestion counts as no gain."
        )


def plain_table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of part (a)."""
    yield "| kernel | plain µs | TritonForge µs | speedup (95 %) | best reference | roofline µs | of reference | of roofline | what changed | seconds | stopped because | results |"  # noqa: E501
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        best, roof, ours = best_reference(row), roofline_of(row), ours_of(row)
        cells = [
            f"`{row['name']}`",
            _number(time_of(row, PLAIN)),
            _number(ours),
            _gain(row),
            f"{best[0]}: {_number(best[1])}" if best else "not measured",
            _number(roof),
            f"{best[1] / ours:.0%}" if best and ours else "–",
            f"{roof / ours:.0%}" if roof and ours else "–",
            *_search_cells(row),
            _results(row),
        ]
        yield "| " + " | ".join(cells) + " |"


def shipped_table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of part (b)."""
    yield "| kernel | family | speedup (95 %) | what changed | seconds | stopped because | results |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        cells = [f"`{row['name']}`", row["family"], _gain(row), *_search_cells(row), _results(row)]
        yield "| " + " | ".join(cells) + " |"


def comparator_table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of what else tuned the same kernels; nothing without any."""
    compared = [row for row in rows if row.get("measured", {}).get("comparators") or row.get("grid")]
    if not compared:
        return
    yield "| kernel | grid | search | plain µs | TritonForge µs | its final µs | same speed after s | seconds | tried | stopped |"  # noqa: E501
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in compared:
        found = row.get("measured", {}).get("comparators", {})
        if not found:
            yield f"| `{row['name']}` | {row.get('grid', '')} | none | – | – | – | – | – | – | – |"
        for name, one in found.items():
            same = one["same_speed_after_s"]
            yield (
                f"| `{row['name']}` | {row.get('grid', '')} | {name} | {_number(one['plain_us'])} | "
                f"{_number(one['ours_us'])} | {_number(one['final_us'])} | {'never' if same is None else f'{same:.1f}'}"
                f" | {one['seconds']:.0f} | {one['tried']} of {one['grid']} | {one['stopped']} |"
            )


def reference_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield, for each plain kernel, every other version that was timed, with its time or the reason why it has none."""
    for row in rows:
        calls = row.get("measured", {}).get("calls", [])
        names = dict.fromkeys(name for call in calls for name in (*call["times_us"], *call["unavailable"]))
        parts = []
        for name in names:
            if name in {OURS, PLAIN}:
                continue
            value = time_of(row, name)
            reason = next((call["unavailable"][name] for call in calls if name in call["unavailable"]), "")
            parts.append(f"{name} {_number(value)} µs" if value is not None else f"{name}: {reason}")
        if parts:
            yield f"- `{row['name']}`: {'; '.join(parts)}"
        for error in row.get("measured", {}).get("errors", ()):
            yield f"- `{row['name']}`: measuring failed: {error}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _gain(row: Row) -> str:
    found = speedup_of(row)
    if found:
        return f"**{found[0]:.2f}x** ({found[1][0]:.2f}–{found[1][1]:.2f})"
    own = [one["best"] for one in row["searches"] if one.get("best")]
    if own:
        return ", ".join(
            f"{one['speedup']:.2f}x ({one['speedup_ci95'][0]:.2f}–{one['speedup_ci95'][1]:.2f}) {one['provenance']}"
            for one in own
        )
    return "–"


def _search_cells(row: Row) -> list[str]:
    changed = [f"`{one['best']['title']}`" for one in row["searches"] if one.get("best")]
    why = [
        f"{one['failed']}: {one['reason']}" if "failed" in one else one["stopped_because"] for one in row["searches"]
    ]
    seconds = " + ".join(f"{one['seconds']:.0f}" for one in row["searches"] if "seconds" in one)
    return [_cell("; ".join(changed) or "none"), seconds or "–", _cell("; ".join(dict.fromkeys(why)))]


def _results(row: Row) -> str:
    if problem_of(row):
        return _cell(f"**{problem_of(row)}**")
    if problem_of(row, PLAIN):
        return _cell(f"{'as far off as plain' if improved(row) else 'plain'}: {problem_of(row, PLAIN)}")
    if not improved(row):
        return "–"
    return ("right, small sizes" if row.get("checked_small") else "right") if checked(row) else "not compared"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:200]


def environment_lines(environments: Sequence[Row]) -> Iterator[str]:
    """Yield one line for every different environment."""
    seen = []
    for one in environments:
        where = one["environment"]
        ceilings = where["ceilings"] or {}
        tflops = sorted(ceilings.get("tflops", {}).items())
        rates = ", ".join(f"{name} {rate:.0f}" for name, rate in tflops)
        gpu = where["gpu"] or f"no GPU, for {where['arch']}"
        copy = f"copy {ceilings.get('copy_gbps', 0):.0f} GB/s"
        line = (
            f"{gpu}, driver {where['driver'] or '–'}, torch {where['torch']},"
            f" triton {where['triton']}, Python {where['python']}, {where['date']}, commit {where['commit'] or '–'};"
            f" {ceilings.get('provenance', 'no')} ceilings: {copy}; TFLOP/s {rates}"
        )
        if line not in seen:
            seen.append(line)
            yield line + "  "


def main() -> int:
    """Print everything."""
    paths = [Path(one) for one in sys.argv[1:]]
    missing = [path for path in paths if not path.is_file()]
    if not paths or missing:
        print(f"{missing[0]} does not exist." if missing else "Name one or more files of rows.", file=sys.stderr)
        return 2
    environments, rows = read(paths)
    print("\n".join(environment_lines(environments)))
    for target in dict.fromkeys(row["target"] for row in rows):
        mine = [row for row in rows if row["target"] == target]
        plain = [row for row in mine if row["part"] == "a"]
        shipped = [row for row in mine if row["part"] == "b"]
        predicted = ", nothing measured: every speedup is predicted" if target == "offline" else ""
        print(f"\n### Target {target}{predicted}\n")
        for line in targets(mine):
            print(f"- {line}")
        for line in comparisons(mine):
            print(f"- {line}")
        for title, table in (
            ("Plain kernels", plain_table(plain) if plain else ()),
            ("Shipped kernels", shipped_table(shipped) if shipped else ()),
            ("What else tuned the same kernels", comparator_table(plain)),
            ("Every version that was timed", reference_lines(plain)),
        ):
            lines = list(table)
            if lines:
                print(f"\n#### {title}\n")
                print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
