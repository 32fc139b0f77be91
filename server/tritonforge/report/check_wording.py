"""What every report of `check` says in the same words: how a kernel fared, before and after, what was looked at."""

from __future__ import annotations

from tritonforge.domain.baseline import CheckResult, Comparison, Fact
from tritonforge.report import wording

ONLY_COMPILED = (
    "No GPU here: only what can be checked without one was checked (compiles, registers, spills, shared memory, "
    "occupancy, predicted time, findings, results against the recorded version). Nothing was measured."
)
_QUIET = frozenset(["code_hash", "site_hash"])


def kernel_and_problem(one: Comparison) -> str:
    """Return which kernel on what."""
    return f"{one.kernel} [{one.describes}]" if one.describes else one.kernel


def where(one: Comparison) -> str:
    """Return the GPU, or the architecture that it was compiled for."""
    return one.gpu or one.arch


def times(one: Comparison) -> str:
    """Return `110 µs → 116 µs (1.052x, 1.041–1.063)`, as far as it is known; empty when no time is."""
    if one.before_us is None and one.after_us is None:
        return ""
    shown = [wording.time_us(time) if time is not None else "–" for time in (one.before_us, one.after_us)]
    return " → ".join(shown) + (f" ({ratio(one)})" if one.ratio is not None else "")


def ratio(one: Comparison) -> str:
    """Return `1.052x, 95 %: 1.041–1.063`, and `predicted` where it is."""
    if one.ratio is None:
        return ""
    said = f"{one.ratio:.3f}x"
    if one.ratio_ci95 is not None:
        said += f", 95 %: {one.ratio_ci95[0]:.3f}–{one.ratio_ci95[1]:.3f}"
    return said + (", predicted" if one.provenance == "predicted" else "")


def changed(one: Comparison) -> list[str]:
    """Return each fact that changed as `registers 64 → 96`; hashes only where nothing else did."""
    loud = {name: pair for name, pair in one.changes.items() if name not in _QUIET}
    said = [f"{name} {fact(before)} → {fact(after)}" for name, (before, after) in loud.items()]
    if "code_hash" in one.changes:
        said.append("the kernel's code")
    if "site_hash" in one.changes:
        said.append("its host code")
    return said


def fact(value: Fact) -> str:
    """Return a compiled fact."""
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sentence(one: Comparison) -> str:
    """Return what there is to say of one kernel in a sentence or two."""
    because = "; ".join(one.reasons)
    parts = [f"{kernel_and_problem(one)} on {where(one)}: {one.status}", times(one), because]
    said = ", ".join(part for part in parts if part)
    facts = changed(one)
    return f"{said}. Changed: {', '.join(facts)}." if facts else f"{said}."


def summary(result: CheckResult) -> str:
    """Return how many kernels fared how."""
    order = ("regressed", "error", "improved", "new", "missing", "ok")
    counts = [(status, sum(one.status == status for one in result.comparisons)) for status in order]
    named = ", ".join(f"{count} {status}" for status, count in counts if count)
    checks = wording.plural(len(result.comparisons), "check")
    return f"{checks} against {result.baseline}: {named or 'nothing to compare'}."
