"""TF403: an autotuner that tunes again and again, or for nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, head_of, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.autotuner import Thrash, thrash

_CERTAIN = frozenset({"ignored-key", "impossible", "repeated"})
"""What follows from the text; the rest depends on what is passed at run time."""


def _look(case: Case) -> Iterable[Observation]:
    tuner = case.kernel.autotune
    if tuner is None:
        return
    seen = thrash(case)
    if not seen:
        return
    compile_ms = case.compiled.compile_ms if case.compiled is not None else 0.0
    yield Observation(
        severity="information" if any(one.what in _CERTAIN for one in seen) else "hint",
        range=head_of(tuner.range),
        message=" ".join(map(_message, seen)),
        provenance="source",
        evidence=evidence(
            *((one.what.replace("-", "_"), "; ".join(one.names) or one.configs, "1", "source") for one in seen),
            ("configs", None if tuner.varies else len(tuner.configs) or None, "1", "source"),
            ("compile_time", compile_ms or None, "ms", "measured"),
        ),
    )


def _message(seen: Thrash) -> str:
    names = ", ".join(f"`{name}`" for name in seen.names)
    if seen.what == "changing-key":
        count = f"all {seen.configs} configurations" if seen.configs else "every configuration"
        return (
            f"The key {names} follows the data: each new value compiles and times {count} again; round it up to few "
            "values (a bucket) before it becomes a key."
        )
    if seen.what == "ignored-key":
        return (
            f"The key {names} is no parameter of the kernel, and Triton leaves it out without a word: what was tuned "
            "for one value is used for every other."
        )
    if seen.what == "impossible":
        return f"Configurations with {names} cannot compile: the number of warps must be a power of two."
    if seen.what == "repeated":
        return f"Listed more than once, and timed each time: {'; '.join(seen.names[:2])}."
    return (
        f"{number(seen.configs)} configurations are compiled and timed for each key, and nothing prunes them: "
        "drop those that never win, or pass prune_configs_by."
    )


RULE = Rule("TF403", "autotune-thrash", "source", _look)
