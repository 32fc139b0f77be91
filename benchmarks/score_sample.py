"""Make a regression test of scored findings: what was measured, and what the rules see of the same launches.

    python benchmarks/score_sample.py SCORED.json.xz tests/data/findings/performance.json.xz

`score_findings.py` measured the launches on a GPU. Here the same sources are recorded and compiled once more, without
one, and of each launch that a judged finding is about everything is kept that a rule looks at. `tests/diagnosis`
diagnoses those anew: what was right must stay, what was wrong must not come back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from score_collect import ARCH, FAMILIES, GPU, ROOT, Claim, Source, collect, sources
from score_findings import Kept, Row, load

from tritonforge.diagnosis import Case, Gpu, diagnose
from tritonforge.domain.codec import decode, encode
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.prediction import footprint_of, gpu_for, predict

Key = tuple[str, str, str]
T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """One launch as rules see it: `rows` are the numbers of the findings about it; `gpu` is one of the data sheet."""

    rows: tuple[int, ...]
    kernel: Kernel
    launch: Launch
    compilation: Compilation
    gpu: str = GPU


@dataclass(frozen=True)
class Sample:
    """What was measured, and the launches behind it."""

    kept: Kept
    seen: tuple[Seen, ...]


def case_of(seen: Seen) -> Case:
    """Return what is diagnosed, its time predicted anew."""
    spec = gpu_for(ARCH, seen.gpu)
    assert spec is not None
    prediction = predict(seen.compilation, footprint_of(seen.launch), spec, spec.ceilings)
    return Case(seen.kernel, seen.launch, seen.compilation, prediction, gpu=Gpu(spec.sms, spec.ceilings))


async def compiled(kept: Kept) -> tuple[dict[Key, Case], dict[tuple[str, str, str], str]]:
    """Compile the launches of every source of `kept`; returns cases, and for findings of today their launches."""
    cases: dict[Key, Case] = {}
    launches: dict[tuple[str, str, str], str] = {}
    wanted = {(row.corpus, row.source) for row in kept.rows}

    def told(source: Source, claims: list[Claim] | str, seconds: float) -> None:
        print(
            f"{seconds:5.1f} s  {source.corpus}: {source.name}", claims if isinstance(claims, str) else "", flush=True
        )
        for claim in claims if not isinstance(claims, str) else ():
            launches[source.corpus, source.name, claim.id] = claim.launch_id

    def keep(source: Source, case: Case) -> None:
        cases[source.corpus, source.name, case.launch_id or ""] = case

    chosen = [source for source in sources() if (source.corpus, source.name) in wanted]
    await collect(chosen, seconds=1200.0, told=told, keep=keep)
    return cases, launches


def key_of(row: Row, cases: dict[Key, Case], launches: dict[tuple[str, str, str], str]) -> Key | None:
    """Find the launch of a row: by its id (which knows where a package lies), the finding, or the kernel."""
    measured = (row.corpus, row.source, row.launch_id)
    if measured in cases:
        return measured
    found = launches.get((row.corpus, row.source, row.id))
    if found is not None:
        return (row.corpus, row.source, found)
    name = re.search(r"::(.*):\d+$", row.id)
    same = [k for k, c in cases.items() if k[:2] == measured[:2] and name is not None and c.kernel.name == name[1]]
    return same[0] if len(same) == 1 else None


def without_places(noun: T) -> T:
    """Return a noun whose files are named from the repository, or from the folder of their package."""
    text = json.dumps(encode(noun)).replace(f"{ROOT}/", "")
    text = re.sub(r"\"[^\"]*/site-packages/", '"', text)
    return decode(type(noun), json.loads(text))


def main() -> None:
    """Compile, match, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scored", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    scored = load(given.scored)
    kept = replace(scored, rows=tuple(row for row in scored.rows if row.verdict()[0] is not None))
    cases, launches = asyncio.run(compiled(kept))
    rows: dict[Key, list[int]] = {}
    for number, row in enumerate(kept.rows):
        key = key_of(row, cases, launches)
        if key is None:
            print("no launch for", row.id)
        else:
            rows.setdefault(key, []).append(number)
    seen = []
    for key, numbers in rows.items():
        case = cases[key]
        assert case.launch is not None
        assert case.compilation is not None
        seen.append(without_places(Seen(tuple(numbers), case.kernel, case.launch, case.compilation)))
        before = {(f.code, f.range.start.line) for f in diagnose(case.kernel, [case], select=FAMILIES)}
        again = case_of(seen[-1])
        assert before == {(f.code, f.range.start.line) for f in diagnose(again.kernel, [again], select=FAMILIES)}, key
    data = lzma.compress(json.dumps(encode(Sample(kept, tuple(seen))), sort_keys=True).encode(), preset=9)
    given.out.write_bytes(data)
    print(f"{len(seen)} launches, {sum(len(one.rows) for one in seen)} of {len(kept.rows)} findings, {len(data)} bytes")


if __name__ == "__main__":
    main()
