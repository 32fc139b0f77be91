"""`--update`: what was measured now replaces its own entries; what changed is said in sentences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tritonforge.domain.baseline import Baseline, BaselineEntry, Fact
from tritonforge.report import wording

Scope = tuple[str, str]
"""File and kernel."""


def merged(
    before: Baseline,
    made: Sequence[BaselineEntry],
    checked: Collection[Scope],
    sources: Mapping[str, str],
) -> Baseline:
    """Return `before` with the entries that were `made` now.

    Entries of other GPUs and architectures stay. Of the kernels that were `checked` now, what is no longer launched
    goes where it was measured on the same GPU. `sources` are the texts behind what was made; the others stay while
    there are kernels that were not checked now, which may need them.
    """
    places = {(one.gpu, one.arch) for one in made}
    fresh = {one.key: one for one in made}
    kept = [
        one
        for one in before.entries
        if one.key not in fresh and not ((one.file, one.kernel) in checked and (one.gpu, one.arch) in places)
    ]
    entries = tuple(sorted([*kept, *fresh.values()], key=lambda one: one.key))
    others = any((one.file, one.kernel) not in checked for one in kept)
    return Baseline(entries, {**(before.sources if others else {}), **sources})


def differences(before: Baseline, after: Baseline) -> tuple[str, ...]:
    """Return what differs, one sentence for each entry that came, went or changed."""
    old, new = ({one.key: one for one in side.entries} for side in (before, after))
    said = []
    for key in sorted({*old, *new}):
        one, other = old.get(key), new.get(key)
        if one is None and other is not None:
            said.append(f"+ {_name(other)}: {_time(other)}")
        elif other is None and one is not None:
            said.append(f"- {_name(one)}: was {_time(one)}")
        elif one is not None and other is not None and (changed := _changed(one, other)):
            said.append(f"~ {_name(other)}: {', '.join(changed)}")
    return tuple(said)


def changes(before: BaselineEntry, after: BaselineEntry) -> dict[str, tuple[Fact, Fact]]:
    """Return what differs between two entries besides the time, by name: compiled facts, config, findings, code."""
    out: dict[str, tuple[Fact, Fact]] = {}
    compiled = before.compiled.keys() | after.compiled.keys()
    for name in sorted(compiled - {"predicted_us"}):
        out[name] = before.compiled.get(name), after.compiled.get(name)
    for name in sorted(before.config.keys() | after.config.keys()):
        out[f"config.{name}"] = before.config.get(name), after.config.get(name)
    out["grid"] = _grid(before), _grid(after)
    for code in sorted(before.findings.keys() | after.findings.keys()):
        out[f"finding.{code}"] = before.findings.get(code), after.findings.get(code)
    for name in ("code_hash", "site_hash"):
        one, other = getattr(before, name), getattr(after, name)
        out[name] = one[:12], other[:12]
    for name in sorted(before.versions.keys() | after.versions.keys()):
        out[f"version.{name}"] = before.versions.get(name), after.versions.get(name)
    return {name: pair for name, pair in out.items() if pair[0] != pair[1]}


def _changed(before: BaselineEntry, after: BaselineEntry) -> list[str]:
    said = []
    if before.time and after.time and before.time != after.time:
        ratio = after.time.median / before.time.median
        said.append(f"{_time(before)} → {_time(after)} ({100 * (ratio - 1):+.1f} %)")
    elif (before.time is None) != (after.time is None):
        said.append(f"{_time(before)} → {_time(after)}")
    said += [f"{name} {_shown(one)} → {_shown(other)}" for name, (one, other) in changes(before, after).items()]
    return said


def _name(entry: BaselineEntry) -> str:
    return f"{entry.file}::{entry.kernel} [{entry.describes}] on {entry.gpu or entry.arch}"


def _time(entry: BaselineEntry) -> str:
    if entry.time is not None:
        return wording.time_us(entry.time.median)
    predicted = entry.compiled.get("predicted_us")
    return f"{wording.time_us(float(predicted))} predicted" if isinstance(predicted, int | float) else "compiled"


def _grid(entry: BaselineEntry) -> str:
    return "×".join(str(one) for one in entry.grid)


def _shown(value: Fact) -> str:
    return "none" if value is None else str(value)
