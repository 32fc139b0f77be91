"""TF601: functions that the installed Triton, or a later one, no longer has."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.apis import Outdated, outdated
from tritonforge.diagnosis.signals.versions import written
from tritonforge.domain.finding import Severity


def _look(case: Case) -> Iterable[Observation]:
    failed = case.compilation is not None and case.compilation.error is not None
    for seen in outdated(case):
        if seen.is_gone and not failed:
            continue  # it compiled: a branch that this launch does not take, or a name of their own
        yield Observation(
            severity=_severity(seen),
            range=seen.use.range,
            message=_message(seen),
            provenance="compiled" if seen.is_gone else "source",
            evidence=evidence(
                ("api", seen.api.name, "", "source"),
                ("removed_in", written(seen.api.removed) if seen.api.removed else None, "", "source"),
                ("deprecated_in", written(seen.api.deprecated) if seen.api.deprecated else None, "", "source"),
                ("installed", written(seen.installed) if seen.installed else None, "", "compiled"),
            ),
        )


def _severity(seen: Outdated) -> Severity:
    if seen.is_gone:
        return "error"
    return "information" if seen.warns else "hint"


def _message(seen: Outdated) -> str:
    api = seen.api
    name = api.name[:1].upper() + api.name[1:] if api.keyword else api.name
    if seen.is_gone and api.removed and seen.installed:
        what = f"was removed in Triton {written(api.removed)}, and {written(seen.installed)} is installed"
    elif api.removed and api.deprecated:
        what = f"is deprecated since Triton {written(api.deprecated)} and was removed in {written(api.removed)}"
    elif api.removed:
        what = f"was removed in Triton {written(api.removed)}"
    else:
        what = f"is deprecated since Triton {written(api.deprecated or (0, 0, 0))}"
    return f"{name} {what}: use {api.instead}."


RULE = Rule("TF601", "removed-or-deprecated-api", "source", _look)
