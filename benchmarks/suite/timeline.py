"""Where the time of a search goes: the first and the last step of each stage, with their seconds."""

from __future__ import annotations

import time
from typing import Any

from tritonforge.optimize import Step

_DETAIL = 60
"""Characters of a step's detail that a row keeps."""


class Timeline:
    """Hears of the steps of a search (`on_step`), and keeps the first and the last of each stage in each round."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._heard = 0
        self._found: dict[tuple[int, str], list[tuple[int, list[Any]]]] = {}

    def __call__(self, step: Step) -> None:
        """Take note of a step."""
        at = round(time.monotonic() - self._began, 2)
        ends = self._found.setdefault((step.round, step.stage), [])
        count = f"{step.done}/{step.total} " if step.total else ""
        self._heard += 1
        ends[1:] = [(self._heard, [at, step.stage, f"round {step.round}: {count}{step.detail}"[:_DETAIL]])]

    def rows(self) -> list[list[Any]]:
        """Return `[seconds, stage, detail]` in the order in which they were said."""
        return [row for _, row in sorted(pair for ends in self._found.values() for pair in ends)]
