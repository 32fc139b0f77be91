"""The few words that lenses, hovers and messages share."""

from __future__ import annotations

from tritonforge.backend.facts import KernelFacts, LaunchFacts
from tritonforge.domain.candidate import Suggestion
from tritonforge.domain.launch import Launch
from tritonforge.report import wording


def one_line(facts: KernelFacts, *, fresh: bool) -> str:
    """Return time, share of roofline and bottleneck of the kernel's first launch."""
    first = facts.first
    if first is None:
        return "no launch compiled"
    parts = [time(first), share(first)]
    if first.bottleneck is not None and first.bottleneck.kind != "unknown":
        parts.append(first.bottleneck.kind)
    if first.compilation is not None and first.compilation.error:
        parts = ["does not compile"]
    if not fresh:
        parts.append("stale")
    return " · ".join(part for part in parts if part)


def time(launch: LaunchFacts) -> str:
    """Return the time of a launch with its provenance; empty when it is not known."""
    return "" if launch.time_us is None else f"{wording.time_us(launch.time_us)} {launch.provenance}"


def share(launch: LaunchFacts) -> str:
    """Return its share of the roofline; empty when it is not known."""
    return "" if launch.fraction is None else f"{wording.percent(launch.fraction)} of roofline"


def problem(launch: Launch) -> str:
    """Return what a launch computes, for a menu: on one line, with ordinary blanks."""
    return wording.problem(launch).replace("\xa0", " ")


def gain(suggestion: Suggestion) -> str:
    """Return `4.26x (predicted)`."""
    return f"{wording.factor(suggestion.speedup)} ({suggestion.provenance})"


def applied(suggestion: Suggestion, before: KernelFacts) -> str:
    """Return what a suggestion was found to take, for code that it was applied to and that nobody measured since.

    `before` are the facts of the original, whose first launch is meant.
    """
    times, first = suggestion.trial.time_us or {}, before.first
    time_us = times.get(first.launch.id) if first is not None else None
    if time_us is None and len(times) == 1:
        time_us = next(iter(times.values()))
    if time_us is None:
        return f"{wording.factor(suggestion.speedup)} faster ({suggestion.provenance}) when suggested"
    factor = wording.factor(suggestion.speedup)
    return f"{wording.time_us(time_us)} {suggestion.provenance} when suggested · {factor} faster"


def verified(suggestion: Suggestion) -> str:
    """Return `4.26x faster (predicted), verified on 9 inputs`."""
    verdict = suggestion.trial.verdict
    inputs = wording.plural(len(verdict.tried), "input") if verdict else "no input"
    return f"{wording.factor(suggestion.speedup)} faster ({suggestion.provenance}), verified on {inputs}"
