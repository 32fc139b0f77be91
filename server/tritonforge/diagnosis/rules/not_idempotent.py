"""TF504: an autotuner repeats a kernel that changes its own inputs."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.replays import Accumulating, accumulating


def _look(case: Case) -> Iterable[Observation]:
    for seen in accumulating(case):
        yield Observation(
            severity="warning" if case.launch is not None else "information",
            range=seen.reach.range,
            message=_message(seen),
            provenance="source",
            evidence=evidence(("pointer", seen.pointer, "", "source"), ("how", seen.how, "", "source")),
        )


def _message(seen: Accumulating) -> str:
    if seen.how == "atomic":
        return (
            f"The autotuner runs this kernel many times, and each run adds to `{seen.pointer}` again, so the first "
            f'call\'s result is wrong: give @triton.autotune reset_to_zero=["{seen.pointer}"] (or restore_value).'
        )
    return (
        "The autotuner runs this kernel many times, and each run reads what the one before stored in "
        f"`{seen.pointer}`, so the first call's result is wrong: give @triton.autotune "
        f'restore_value=["{seen.pointer}"].'
    )


RULE = Rule("TF504", "autotune-not-idempotent", "source", _look)
