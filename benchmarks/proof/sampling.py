"""Chooses a stratified share of the corpus: every kernel, and as many kinds as there is room for."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from corpus import Mutant, Subject, Variant


def items(subjects: Sequence[Subject]) -> list[str]:
    """Return everything, as `kernel/id`."""
    return [f"{one.name}/{each}" for one in subjects for each in one.by_id]


def sample(subjects: Sequence[Subject], share: float, seed: int) -> list[str]:
    """Return about `share` of the mutants, at least one of each kernel, and half that share of variants.

    Both are spread evenly over the kinds. Variants take longest: the gate tries every input on what it accepts.
    """
    drawn = random.Random(seed)
    judged = {one.name: [m for m in one.mutants if not m.equivalent] for one in subjects}
    mutants = _spread(judged, share, drawn, least=1)
    variants = _spread({one.name: list(one.variants) for one in subjects}, share / 2, drawn, least=0)
    chosen = {*mutants, *variants}
    return [item for item in items(subjects) if item in chosen]


def _spread(
    by_kernel: dict[str, list[Mutant]] | dict[str, list[Variant]], share: float, drawn: random.Random, *, least: int
) -> list[str]:
    wanted = round(share * sum(map(len, by_kernel.values())))
    names = list(by_kernel)
    drawn.shuffle(names)
    seen: Counter[str] = Counter()
    left = {name: drawn.sample(list(by_kernel[name]), len(by_kernel[name])) for name in names}
    chosen: list[str] = []
    while any(left.values()):
        for name in names:
            if left[name] and (len(chosen) < wanted or (least and not _has(chosen, name))):
                one = min(left[name], key=lambda each: seen[each.kind])
                left[name].remove(one)
                seen[one.kind] += 1
                chosen.append(f"{name}/{one.id}")
        if len(chosen) >= wanted:
            break
    return chosen


def _has(chosen: Iterable[str], name: str) -> bool:
    return any(item.startswith(f"{name}/") for item in chosen)
