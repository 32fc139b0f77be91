"""From the name of a target to the target."""

from __future__ import annotations

from typing import Final

from tritonforge.config.settings import Settings
from tritonforge.config.validate import did_you_mean
from tritonforge.domain.errors import UsageError
from tritonforge.domain.target import Target

AUTO: Final = Target(name="auto")
"""Stands for "the local GPU if there is one, else offline": whoever can look for a GPU decides (`target is AUTO`)."""


def resolve_target(settings: Settings, name: str | None = None) -> Target:
    """Return the target called `name`, or the configured default; `AUTO` itself when that is `auto`.

    Raises:
        UsageError: when no such target is configured.
    """
    wanted = settings.default_target if name is None else name
    if wanted == AUTO.name:
        return AUTO
    target = settings.targets.get(wanted)
    if target is None:
        mend = did_you_mean(wanted, {AUTO.name, *settings.targets}, "Known targets")
        raise UsageError(f"unknown target '{wanted}'.", mend)
    return target
