"""The mutation proof: `python benchmarks/proof/run.py {witnesses,gate,baselines,table,all} [KERNEL …]`.

`all` is what `make proof` runs. It exits with 1 when a mutant is accepted, more than 2 % of the variants are refused
or a witness does not hold.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpus import Subject, load
from sampling import items, sample
from supervising import over
from tables import render

from tritonforge.store.keys import source_hash

HERE = Path(__file__).resolve().parent
WITNESSED = HERE / "witnessed.json"
_SHARES = 3
"""Sessions of a sample that each process has, so that none is left with all that takes long."""
MOST_WRONG = 0.02
"""The share of variants that may be refused, and of mutants that may end without a verdict."""


def witnesses(subjects: Sequence[Subject], options: argparse.Namespace) -> bool:
    """Check what has changed since it was last found valid (with --again: everything), and keep what was seen."""
    known: dict[str, Any] = json.loads(WITNESSED.read_text()) if WITNESSED.exists() else {}
    digests = {f"{one.name}/{each.id}": one.digest(each) for one in subjects for each in one.by_id.values()}
    wanted = [item for item in digests if options.again or known.get(item, {}).get("digest") != digests[item]]
    if options.ids:
        wanted = [item for item in wanted if item.partition("/")[2] in options.ids]
    bad: list[str] = []
    found: dict[str, Any] = {}

    def done(said: dict[str, Any]) -> None:
        if said.get("valid"):
            found[said["item"]] = {"digest": said["digest"], "observed": said["observed"]}
            _keep_witnessed(found, bad)
        else:
            bad.append(said["item"])
            print(f"{said['item']}: not valid: {said['observed']}", flush=True)

    over("witnessing.py", _by_kernel(wanted), jobs=options.jobs, seconds=1200, done=done)
    _keep_witnessed(found, bad)
    print(f"witnesses: {len(wanted)} checked, {len(bad)} not valid", flush=True)
    return not bad


def _keep_witnessed(found: dict[str, Any], bad: Sequence[str]) -> None:
    known = json.loads(WITNESSED.read_text()) if WITNESSED.exists() else {}  # another run may have added to it
    everything = set(items(load()))
    kept = {item: one for item, one in sorted({**known, **found}.items()) if item in everything and item not in bad}
    beside = WITNESSED.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(kept, indent=1) + "\n")
    beside.replace(WITNESSED)


def gate(subjects: Sequence[Subject], options: argparse.Namespace) -> bool:
    """Judge everything, or a sample, and say where the gate is wrong."""
    wanted = _chosen(subjects, options)
    told = ["--target", options.target] + (["--seed", str(options.gate_seed)] if options.gate_seed is not None else [])
    mutants = {item for item in wanted if hasattr(_named(item, subjects), "witness")}

    def tell(item: str, said: dict[str, Any]) -> None:
        if _wrong(item, said, subjects):
            print(f"{item}: {'accepted' if said.get('accepted') else 'refused'}: {said.get('reason')}", flush=True)

    results = _collect("judging.py", wanted, told, options.results / "gate.json", options, tell)
    left = [item for item in wanted if item not in results]
    judged = [item for item in wanted if item in results]
    wrong = [item for item in judged if _wrong(item, results[item], subjects)]
    accepted, refused = [one for one in wrong if one in mutants], [one for one in wrong if one not in mutants]
    silent = [item for item in judged if item in mutants and results[item].get("error")]
    mutants &= set(judged)
    variants = len(judged) - len(mutants)
    print(f"gate: {len(accepted)} of {len(mutants)} mutants accepted ({len(silent)} without a verdict),", end=" ")
    print(
        f"{len(refused)} of {variants} variants refused", end=f"; {len(left)} are left\n" if left else "\n", flush=True
    )
    if left:
        return False
    # A gate that gives no verdict at all must not pass for one that refuses.
    return not accepted and len(refused) <= MOST_WRONG * variants and len(silent) <= MOST_WRONG * len(mutants)


def baselines(subjects: Sequence[Subject], options: argparse.Namespace) -> bool:
    """Ask the two baselines about everything."""
    _collect("baselines.py", _chosen(subjects, options), [], options.results / "baselines.json", options)
    return True


def table(subjects: Sequence[Subject], options: argparse.Namespace) -> bool:
    """Print the table of what is stored."""
    found = [json.loads(file.read_text())["items"] if file.exists() else {} for file in
             (options.results / "gate.json", options.results / "baselines.json")]  # fmt: skip
    text = "\n".join(render(subjects, *found))
    (options.results / "table.md").write_text(text + "\n")
    print(text)
    return True


def _chosen(subjects: Sequence[Subject], options: argparse.Namespace) -> list[str]:
    if options.ids:
        return [item for item in items(subjects) if item.partition("/")[2] in options.ids]
    return sample(subjects, options.sample, options.seed) if options.sample else items(subjects)


def _collect(
    script: str,
    wanted: Sequence[str],
    told: Sequence[str],
    file: Path,
    options: argparse.Namespace,
    tell: Callable[[str, dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run `script` over `wanted`; each result is kept in `file` at once, so that a run that is stopped loses none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    about = {"date": time.strftime("%Y-%m-%d"), "target": options.target, "gate": _gate()}
    stored = json.loads(file.read_text()) if file.exists() and not options.fresh else {}
    before = stored.get("items", {})
    if options.resume:
        # What another gate said counts for nothing here.
        before = before if (stored.get("gate"), stored.get("target")) == (about["gate"], about["target"]) else {}
        wanted = [item for item in wanted if before.get(item, {"error": True}).get("error")]
    results: dict[str, Any] = {item: before[item] for item in before} if options.resume else {}

    def done(said: dict[str, Any]) -> None:
        item = said.pop("item")
        results[item] = said
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps({**about, "items": {**before, **results}}, indent=1) + "\n")
        beside.replace(file)
        if tell:
            tell(item, said)

    groups = _by_kernel(wanted)
    if options.sample:  # few of each kernel: starting a session for each costs more than judging
        shares = _SHARES * options.jobs
        groups = [[item for group in groups[share::shares] for item in group] for share in range(shares)]
    elif options.chunk:
        groups = _in_chunks(groups, options.chunk, before)
    over(
        script,
        [g for g in groups if g],
        options=told,
        jobs=options.jobs,
        seconds=options.seconds,
        done=done,
        within=options.within,
        pinned=options.pin,
    )
    return results


def _gate() -> str:
    """Name the gate that judges: a hash of all that decides what it says."""
    return source_hash("analysis", "compilation", "domain", "verify", "worker")[:16]


def _in_chunks(groups: Sequence[Sequence[str]], most: int, known: Mapping[str, Any]) -> list[list[str]]:
    """Cut what belongs together into equal parts of at most so many items, those that took longest first."""
    parts: list[list[str]] = []
    for group in groups:
        count = -(-len(group) // most)
        parts += [list(group[number::count]) for number in range(count)]
    return sorted(parts, key=lambda part: -sum(known.get(item, {}).get("seconds") or 0.0 for item in part))


def _by_kernel(wanted: Sequence[str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for item in wanted:
        groups.setdefault(item.partition("/")[0], []).append(item)
    return list(groups.values())


def _named(item: str, subjects: Sequence[Subject]) -> Any:
    name, _, identity = item.partition("/")
    return next(one for one in subjects if one.name == name).by_id[identity]


def _wrong(item: str, said: dict[str, Any], subjects: Sequence[Subject]) -> bool:
    one = _named(item, subjects)
    if getattr(one, "equivalent", ""):
        return False
    return bool(said.get("accepted")) is hasattr(one, "witness")


def main() -> int:
    """Run the part that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"witnesses": witnesses, "gate": gate, "baselines": baselines, "table": table}
    parser.add_argument("part", choices=[*parts, "all"])
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--ids", nargs="+", default=[], help="only these mutants and variants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--target", default="offline", help="where the gate runs: offline, local or a configured name")
    parser.add_argument("--sample", type=float, default=0.0, help="a stratified share, 0.1 for a tenth")
    parser.add_argument("--seed", type=int, default=0, help="which sample")
    parser.add_argument("--gate-seed", type=int, help="fixed inputs for the gate, to repeat a run")
    parser.add_argument("--seconds", type=float, default=300.0, help="kill a process that says nothing for this long")
    parser.add_argument("--within", type=float, default=math.inf, help="begin nothing after so many seconds, and end")
    parser.add_argument("--resume", action="store_true", help="only what this very gate has not judged yet")
    parser.add_argument("--chunk", type=int, default=0, help="items of a kernel that share a process; 0: all of them")
    parser.add_argument("--pin", action="store_true", help="give each process a core to itself")
    parser.add_argument("--again", action="store_true", help="check witnesses although nothing has changed")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where results are kept")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends with it
    subjects = load(options.kernels)
    chosen = list(parts.values()) if options.part == "all" else [parts[options.part]]
    good = [part(subjects, options) for part in chosen]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
