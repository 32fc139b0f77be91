"""What the commands find out: one frozen result for each, before it becomes JSON, text or an editor's view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.candidate import Suggestion, Trial, Verdict
from tritonforge.domain.compilation import Compilation, Prediction, Waves
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.ignoring import Ignored, Lapsed
from tritonforge.domain.kernel import CommentProblem, Kernel, SourceError
from tritonforge.domain.launch import Config, Launch
from tritonforge.domain.messages import Difference
from tritonforge.domain.profile import LineHeat, Profile, Roofline, TargetInfo


@dataclass(frozen=True)
class Assessment:
    """One compilation and what was concluded from it; the conclusions are None when it does not compile.

    `heat`: each line's share of the predicted time. `waves`: how the programs fill the GPU that is judged by.
    """

    compilation: Compilation
    prediction: Prediction | None = None
    bottleneck: Bottleneck | None = None
    heat: Mapping[int, LineHeat] = field(default_factory=dict)
    waves: Waves | None = None


@dataclass(frozen=True)
class AnalyzedKernel:
    """What `analyze` knows of one kernel.

    `launch_note` says why `launches` is empty, and is empty otherwise. `assessments`: one for each launch and
    architecture; their compilations name the launch by its id.
    """

    kernel: Kernel
    launches: tuple[Launch, ...] = ()
    launch_note: str = ""
    assessments: tuple[Assessment, ...] = ()
    findings: tuple[Finding, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    """What there is to know, too, and is ignored on purpose."""
    lapsed: tuple[Lapsed, ...] = ()
    """Comments that ignored something up to a day that has passed."""


@dataclass(frozen=True)
class AnalyzeResult:
    """Every kernel of the files that were named, and what could not be read. `target` is None when nothing compiled.

    `lapsed`: entries of the settings that ignored something up to a day that has passed.
    """

    kernels: tuple[AnalyzedKernel, ...] = ()
    errors: tuple[SourceError, ...] = ()
    target: TargetInfo | None = None
    lapsed: tuple[Lapsed, ...] = ()
    comment_problems: tuple[CommentProblem, ...] = ()
    """Comments to this tool that do nothing; each is told as a warning."""


@dataclass(frozen=True)
class ProfileResult:
    """One profile for each launch. `predictions` (by launch id) stand in where a target cannot measure."""

    profiles: tuple[Profile, ...] = ()
    predictions: Mapping[str, Prediction] = field(default_factory=dict)


@dataclass(frozen=True)
class OptimizeResult:
    """What `optimize` reached for one kernel on one target.

    `baseline_us`: the original's time in µs by launch id, `measured` or `predicted` as `provenance` says.
    `baseline_config`: the config of the first-ranked launch (an autotuned kernel's own best, pinned). `bottlenecks`:
    the primary bottleneck before each step of the search, so the first is the original's. `findings` are those of the
    original. `stopped_because` is one clause (`nothing improved`, `budget spent`, …). `notes` are sentences that a
    person should read next to the result.
    """

    kernel: Kernel
    target: TargetInfo
    launches: tuple[Launch, ...]
    baseline_us: Mapping[str, float]
    provenance: Literal["measured", "predicted"]
    best: Suggestion | None
    trials: tuple[Trial, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    findings: tuple[Finding, ...] = ()
    baseline_config: Config | None = None
    stopped_because: str = ""
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()
    assessments: tuple[Assessment, ...] = ()
    """What was concluded about the original's launches, in their order."""
    rooflines: Mapping[str, Roofline] = field(default_factory=dict)
    """Where the original's launches stand, by launch id."""


@dataclass(frozen=True)
class VerifyResult:
    """What `verify` concluded, and the first element that differed, with the input it was seen on.

    `reference` is what `--reference` named: whoever repeats the check needs it, too.
    """

    verdict: Verdict
    kernel: Kernel | None = None
    candidate: str = ""
    failing_input: str = ""
    difference: Difference | None = None
    reference: str = ""


@dataclass(frozen=True)
class DoctorCheck:
    """One thing that was tried: whether it works, what was seen, and how to mend it (empty when `ok`).

    `optional`: an upgrade that gives more than is needed, so that a target without it is whole.
    """

    name: str
    ok: bool
    detail: str = ""
    mend: str = ""
    optional: bool = False


@dataclass(frozen=True)
class DoctorResult:
    """What `doctor` found out about one target."""

    target: TargetInfo
    checks: tuple[DoctorCheck, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything that is needed works."""
        return all(check.ok or check.optional for check in self.checks)
