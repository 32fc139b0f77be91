"""Nouns as the words of a prompt: launches, what the compiler made, what was measured, findings, what was tried."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.candidate import Trial
from tritonforge.domain.finding import Finding
from tritonforge.domain.launch import Launch, Scalar, Tensor
from tritonforge.domain.results import Assessment
from tritonforge.prediction import GpuSpec
from tritonforge.report import wording
from tritonforge.rewrite.llm.privacy import Hiding
from tritonforge.rewrite.protocol import Task

MOST_TRIALS = 12
MOST_FINDINGS = 8
_EVIDENCE = 8
_REASON = 600


def launch_words(launch: Launch, hiding: Hiding) -> str:
    """Return one launch: arguments, constexprs, options, grid, and its time where known."""
    lines = []
    for name, value in (*launch.problem.arguments, *launch.problem.constexprs):
        shown = wording.argument(value)
        if isinstance(value, Tensor):
            shown += f", {value.alignment}-byte aligned" if value.alignment < 16 else ""
        elif isinstance(value, Scalar) and isinstance(value.value, str):
            shown = hiding.words(shown)
        lines.append(f"- {name}: {shown}")
    lines.append(f"- config: {wording.config(launch.config) or 'none'}; grid {wording.grid(launch)}")
    if launch.count > 1:
        lines.append(f"- seen {launch.count} times")
    return "\n".join(lines)


def target_words(spec: GpuSpec | None, arch: str) -> str:
    """Return what the kernel runs on."""
    if spec is None:
        return f"Architecture {arch}."
    rates = ", ".join(f"{dtype} {rate:g}" for dtype, rate in spec.tflops.items())
    return (
        f"{spec.name} ({arch}): {spec.sms} multiprocessors, {spec.dram_gbps:,.0f} GB/s of memory, "
        f"{wording.size(spec.l2_bytes)} of L2, dense matrix rates in TFLOP/s: {rates}."
    )


def profile_words(task: Task) -> str:
    """Return how long each launch takes, where it stands under its roofline, and what holds it back."""
    lines = []
    kind = "measured" if task.measured else "predicted"
    for number, launch in enumerate(task.launches):
        parts = []
        if launch.time_us is not None:
            parts.append(f"{wording.time_us(launch.time_us)} {kind}")
        roof = task.rooflines.get(launch.id)
        if roof is not None and roof.fraction is not None:
            parts.append(f"{wording.percent(roof.fraction)} of its {roof.bound} roofline")
        bottleneck = task.bottlenecks.get(launch.id)
        if bottleneck is not None:
            parts.append(f"bottleneck {bottleneck.kind}: {bottleneck.reason}")
        if parts:
            lines.append(f"- launch {number + 1}: {'; '.join(parts)}")
    return "\n".join(lines)


def compilation_words(task: Task) -> str:
    """Return what the compiler made of the first launch."""
    found = _assessment(task)
    if found is None or found.compilation.resources is None:
        return ""
    used = found.compilation.resources
    spilled = f"{used.spill_bytes} bytes spilled a thread"
    lines = [f"- {used.registers} registers a thread, {spilled}, {used.shared_bytes} bytes of shared memory a program"]
    occupancy = found.compilation.occupancy
    if occupancy is not None:
        lines.append(f"- occupancy {wording.percent(occupancy.fraction)}, limited by {occupancy.limiter}")
    if found.waves is not None:
        lines.append(
            f"- {found.waves.waves:.2f} waves of programs, efficiency {wording.percent(found.waves.efficiency)}"
        )
    return "\n".join(lines)


def hot_lines(task: Task, lines: Sequence[str]) -> str:
    """Return the lines that take most of the time, by their text."""
    found = _assessment(task)
    if found is None:
        return ""
    hot = sorted(((heat.share, line) for line, heat in found.heat.items() if heat.share >= 0.05), reverse=True)[:6]
    return "\n".join(
        f"- {wording.percent(share)}: `{lines[line - 1].strip()}`" for share, line in hot if 0 < line <= len(lines)
    )


def _assessment(task: Task) -> Assessment | None:
    wanted = task.launches[0].id if task.launches else ""
    return next((one for one in task.assessments if one.compilation.launch == wanted), None)


def finding_words(findings: Sequence[Finding], lines: Sequence[str], hiding: Hiding) -> str:
    """Return findings, each with the text of its line."""
    out = []
    for one in findings[:MOST_FINDINGS]:
        at = lines[one.range.start.line - 1].strip() if 0 < one.range.start.line <= len(lines) else ""
        gain = f" Likely gain: {wording.factor(one.estimated_gain)}." if one.estimated_gain else ""
        out.append(f"- {one.name} at `{hiding.code(at, part=True)}`: {hiding.words(one.message)}{gain}")
    return "\n".join(out)


def evidence_words(findings: Sequence[Finding], hiding: Hiding) -> str:
    """Return the numbers behind findings."""
    out = []
    for one in findings[:MOST_FINDINGS]:
        facts = [
            f"{name.replace('_', ' ')} {wording.evidence(fact)} ({fact.provenance})"
            for name, fact in list(one.evidence.items())[:_EVIDENCE]
        ]
        if facts:
            out.append(f"- {one.name}: {hiding.words(', '.join(facts))}")
    return "\n".join(out)


def outcome_words(trial: Trial, task: Task) -> str:
    """Return in a sentence what became of a trial."""
    gain = speedup(trial, task)
    measured = task.measured
    speed = f"{gain:.2f}x the original's speed, {'measured' if measured else 'predicted'}" if gain is not None else ""
    if trial.verdict is not None and not trial.verdict.accepted:
        worst = trial.verdict.worst_error
        error = f" (worst error {wording.error(worst)})" if worst is not None and worst > 0 else ""
        return f"wrong: the correctness gate refused it: {_short(trial.verdict.reason)}{error}"
    if trial.verdict is not None:
        said = f"verified, {speed or 'time not known'}"
        return f"{said}; {trial.reason}" if trial.reason else said
    return f"{_short(trial.reason)}{f' ({speed})' if speed else ''}"


def speedup(trial: Trial, task: Task) -> float | None:
    """Return the original's time ÷ the trial's over all launches, each as often as it is made; None where unknown."""
    before = task.original or task.launches
    times = trial.time_us or {}
    if not before or any(launch.id not in times or launch.time_us is None for launch in before):
        return None
    after = sum(times[launch.id] * launch.count for launch in before)
    return sum((launch.time_us or 0.0) * launch.count for launch in before) / after if after > 0 else None


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _REASON else plain[:_REASON] + "…"
