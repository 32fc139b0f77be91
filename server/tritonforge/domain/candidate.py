"""`Candidate`, `Verdict`, `Trial`, `Suggestion`: from an idea to something a person can apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.compilation import Prediction
from tritonforge.domain.profile import TimeDistribution
from tritonforge.domain.source import Edit

Origin = Literal["rule", "llm", "both"]


@dataclass(frozen=True)
class Candidate:
    """An edit of the source that treats findings. `rewrites` names each rewrite applied, with its parameters."""

    title: str
    edits: tuple[Edit, ...]
    rewrites: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    origin: Origin = "rule"
    treats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """Whether a candidate still computes the same.

    `inputs`: one line for each input, `skipped, …` where the original does not allow it; `tried` leaves those out.
    `checks`: name → `passed`, `failed: why` or `skipped: why`. Errors are relative to the output's scale. `replay`
    repeats this very check. `lower_precision`: refused for its precision alone, so that it may be offered as something
    else: as faster and less precise.
    """

    accepted: bool
    reason: str
    inputs: tuple[str, ...]
    oracle: str
    tolerance: str
    worst_error: float | None
    baseline_error: float | None
    checks: Mapping[str, str] = field(default_factory=dict)
    replay: str = ""
    lower_precision: bool = False

    @property
    def tried(self) -> tuple[str, ...]:
        """The lines of the inputs that both versions were run on."""
        return tuple(one for one in self.inputs if was_tried(one))


def was_tried(text: str) -> bool:
    """Tell whether a line of `Verdict.inputs` is of an input that both versions were run on."""
    return not text.startswith("skipped, ") and ": skipped, the original fails" not in text


@dataclass(frozen=True)
class Trial:
    """A candidate with its verdict and its time per launch id, measured or predicted. `reason`: why it was dropped.

    `at_s`: seconds into the search when it was verified, or its time was known where it was dropped for others.
    """

    candidate: Candidate
    verdict: Verdict | None
    time_us: Mapping[str, float] | None
    predictions: Mapping[str, Prediction] = field(default_factory=dict)
    measured: Mapping[str, TimeDistribution] = field(default_factory=dict)
    accepted: bool = False
    reason: str = ""
    at_s: float | None = None


@dataclass(frozen=True)
class Suggestion:
    """A verified trial worth showing. `speedup` is before/after over the set of launches, with a 95 % interval."""

    trial: Trial
    speedup: float
    speedup_ci95: tuple[float, float]
    provenance: Literal["measured", "predicted"]
    diff: str
