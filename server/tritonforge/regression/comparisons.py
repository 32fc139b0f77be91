"""Comparisons: built the same way wherever they are decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tritonforge.domain.baseline import Baseline, BaselineEntry, Comparison, Status
from tritonforge.domain.kernel import Kernel
from tritonforge.regression.compiled import Compiled
from tritonforge.regression.merging import changes
from tritonforge.regression.noise import Ratio
from tritonforge.regression.subjects import Checked


def gone(baseline: Baseline, scopes: set[tuple[str, str]], files: set[str], gpu: str | None) -> list[Comparison]:
    """Return the kernels of `files` that the baseline has and the source has no longer."""
    entries = [
        one
        for one in baseline.entries
        if one.file in files and (one.file, one.kernel) not in scopes and (gpu is None or one.gpu == gpu)
    ]
    return [comparison_of(None, one, "missing", reasons=("the kernel is gone",)) for one in one_each(entries)]


def one_each(entries: Sequence[BaselineEntry]) -> list[BaselineEntry]:
    """Return one entry for each problem and architecture, of those of several GPUs the first."""
    found: dict[tuple[str, str, str, str], BaselineEntry] = {}
    for one in entries:
        found.setdefault((one.file, one.kernel, one.problem, one.arch), one)
    return list(found.values())


def compiled_comparison(kernel: Kernel, entry: BaselineEntry, now: BaselineEntry, judged: Compiled) -> Comparison:
    """Return the comparison of what the compiler made of a launch."""
    status: Status = "regressed" if judged.reasons else "ok"
    one = comparison_of(kernel, entry, status, now=now, reasons=judged.reasons, notes=judged.notes)
    before, after = (facts.get("predicted_us") for facts in (entry.compiled, now.compiled))
    return dataclasses.replace(
        one,
        gpu=None,
        provenance="predicted",
        ratio=judged.ratio,
        before_us=float(before) if isinstance(before, int | float) else None,
        after_us=float(after) if isinstance(after, int | float) else None,
    )


def comparison_of(
    kernel: Kernel | None,
    entry: BaselineEntry,
    status: Status,
    *,
    now: BaselineEntry | None = None,
    ratio: Ratio | None = None,
    reasons: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    doubtful: bool = False,
) -> Comparison:
    """Return a comparison of `entry` with what there is `now`; without a kernel, of one that is gone."""
    fresh = status == "new"
    return Comparison(
        file=entry.file,
        kernel=entry.kernel,
        line=kernel.name_range.start.line if kernel else 1,
        end_line=kernel.range.end.line if kernel else 1,
        code_hash=kernel.code_hash if kernel else entry.code_hash,
        problem=entry.problem,
        describes=entry.describes,
        status=status,
        arch=entry.arch,
        gpu=entry.gpu,
        ratio=ratio.value if ratio else None,
        ratio_ci95=ratio.ci95 if ratio else None,
        smallest=ratio.smallest if ratio else None,
        before_us=entry.time.median if entry.time and not fresh else None,
        after_us=now.time.median if now and now.time else None,
        changes=changes(entry, now) if now is not None and not fresh else {},
        reasons=reasons,
        notes=notes,
        doubtful=doubtful,
    )


def unmeasured(one: Checked, arch: str, gpu: str | None, error: str) -> Comparison:
    """Return the comparison of a kernel that is in no baseline and could not be measured."""
    kernel = one.kernel
    return Comparison(
        one.scope[0], kernel.name, kernel.name_range.start.line, kernel.range.end.line, kernel.code_hash,
        "", "", "error", arch, gpu, reasons=(error,),
    )  # fmt: skip


def noted(one: Comparison, sentence: str) -> Comparison:
    """Return a comparison with one more note."""
    return dataclasses.replace(one, notes=(*one.notes, sentence)) if sentence else one


def factor(ratio: float) -> str:
    """Return a ratio in words."""
    return f"{ratio:.3f}x"


def changed_versions(before: BaselineEntry, after: BaselineEntry) -> str:
    """Name the versions that are others than the baseline's."""
    changed = [
        f"{name} {after.versions[name]} (was {before.versions[name]})"
        for name in sorted(before.versions.keys() & after.versions.keys())
        if before.versions[name] != after.versions[name]
    ]
    return ", ".join(changed)
