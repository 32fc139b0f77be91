"""The results as a Markdown table."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from corpus import Mutant, Subject, Variant

Results = Mapping[str, Mapping[str, Any]]
JUDGES: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool | None]] = {
    "gate": lambda gate, _: gate.get("accepted"),
    "allclose(1e-2)": lambda _, baseline: baseline.get("allclose"),
    "assert_close": lambda _, baseline: baseline.get("assert_close"),
}
"""How each judge's acceptance is read off the results of the gate and of the baselines; None where it was not asked."""


def render(subjects: Sequence[Subject], gate: Results, baselines: Results) -> Iterator[str]:
    """Yield the lines: false acceptances by kind, false refusals by kind, and times."""
    mutants = [(f"{s.name}/{m.id}", m) for s in subjects for m in s.mutants if not m.equivalent]
    variants = [(f"{s.name}/{v.id}", v) for s in subjects for v in s.variants]
    equivalent = sum(bool(m.equivalent) for s in subjects for m in s.mutants)
    proven = f"{len(mutants)} mutants ({equivalent} more proven equivalent)"
    yield f"{len(subjects)} kernels, {proven}, {len(variants)} variants"
    yield ""
    yield from _counted("mutants accepted", mutants, gate, baselines, wrong=True)
    yield ""
    yield from _counted("variants refused", variants, gate, baselines, wrong=False)
    yield ""
    yield from _times(mutants, variants, gate)
    wrong = [(item, one) for item, one in (*mutants, *variants) if _is_wrong(item, one, gate)]
    if wrong:
        yield ""
        yield "| the gate is wrong on | kind | it says |"
        yield "| --- | --- | --- |"
        for item, one in wrong:
            yield f"| {item} | {one.kind} | {_cell(str(gate[item].get('reason', '')))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:200]


def _is_wrong(item: str, one: Variant, gate: Results) -> bool:
    return item in gate and gate[item].get("accepted") is isinstance(one, Mutant)


def _counted(
    title: str, every: Sequence[tuple[str, Variant]], gate: Results, baselines: Results, *, wrong: bool
) -> Iterator[str]:
    rows: dict[str, list[str]] = defaultdict(list)
    for item, one in every:
        rows[one.kind].append(item)
    yield f"| {title} | of | " + " | ".join(JUDGES) + " |"
    yield "| --- |" + " ---: |" * (len(JUDGES) + 1)
    for kind in (*sorted(rows), "all"):
        items = rows[kind] if kind != "all" else [item for item, _ in every]
        cells = []
        for accepted in JUDGES.values():
            said = [accepted(gate.get(item, {}), baselines.get(item, {})) for item in items]
            asked = sum(one is not None for one in said)
            off = sum(one is wrong for one in said)
            cells.append(str(off) if asked == len(items) else f"{off} of {asked}" if asked else "–")
        yield f"| {kind} | {len(items)} | " + " | ".join(cells) + " |"


def _times(
    mutants: Sequence[tuple[str, Variant]], variants: Sequence[tuple[str, Variant]], gate: Results
) -> Iterator[str]:
    yield "| seconds a candidate | median | 90 % | most |"
    yield "| --- | ---: | ---: | ---: |"
    for name, every in (("mutants", mutants), ("variants", variants)):
        times = sorted(gate[item]["seconds"] for item, _ in every if "seconds" in gate.get(item, {}))
        if times:
            at = times[min(len(times) - 1, int(0.9 * len(times)))]
            yield f"| {name} | {statistics.median(times):.2f} | {at:.2f} | {times[-1]:.2f} |"
