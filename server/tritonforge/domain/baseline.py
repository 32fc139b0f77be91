"""`Baseline`, `Comparison`: what kernels were when all was well, and what has become of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Union

from tritonforge.domain.finding import Severity
from tritonforge.domain.ignoring import Ignored, Lapsed
from tritonforge.domain.profile import TargetInfo

Fact = Union[int, float, str, bool, None]
"""A compiled fact or a value of a config."""


@dataclass(frozen=True)
class GpuState:
    """How a GPU was while nothing of ours ran on it, or right after something did; None where its driver does not say.

    Clocks in MHz, `temperature` in °C, `utilisation` 0–1 over the last second or so. `others`: processes that use it
    besides the one that asked. `held_back`: what slows it down (`its power limit`, `its temperature`, …).
    """

    sm_clock: int | None = None
    sm_clock_max: int | None = None
    memory_clock: int | None = None
    temperature: int | None = None
    utilisation: float | None = None
    others: int | None = None
    held_back: tuple[str, ...] = ()


@dataclass(frozen=True)
class Runs:
    """Times of one launch in µs over repeated runs: the median of each run, in order, and how many samples each had.

    Runs differ by more than their samples do (clocks, heat, where buffers lie): that spread is the noise that a
    regression has to stand out from.
    """

    medians: tuple[float, ...]
    samples: int

    @property
    def median(self) -> float:
        """The median of the runs' medians."""
        ordered = sorted(self.medians)
        half = len(ordered) // 2
        return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@dataclass(frozen=True)
class BaselineEntry:
    """One kernel on one problem on one GPU (`gpu` None: compiled for `arch` and not measured).

    `problem` is the id of what is computed, `describes` says it in words. `site_hash` covers the host functions that
    launch the kernel. `compiled`: registers, spill_bytes, shared_bytes, occupancy, tensor_path, predicted_us, error.
    `findings`: severity by code. `versions`: driver, torch, triton. `date`: the day it was made. `state`: of the
    GPU right after measuring.
    """

    file: str
    kernel: str
    problem: str
    describes: str
    arch: str
    code_hash: str
    site_hash: str
    config: Mapping[str, Fact]
    grid: tuple[int, int, int]
    gpu: str | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)
    date: str = ""
    time: Runs | None = None
    compiled: Mapping[str, Fact] = field(default_factory=dict)
    findings: Mapping[str, Severity] = field(default_factory=dict)
    state: GpuState | None = None

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What tells it from every other entry: file, kernel, problem, GPU and architecture."""
        return self.file, self.kernel, self.problem, self.gpu or "", self.arch


@dataclass(frozen=True)
class Baseline:
    """Entries in the order of their keys, and the text of each source file behind them when they were made."""

    entries: tuple[BaselineEntry, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The files whose kernels it has, each once."""
        return tuple(dict.fromkeys(entry.file for entry in self.entries))


Status = Literal["ok", "regressed", "improved", "new", "missing", "error"]


@dataclass(frozen=True)
class Comparison:
    """What has become of one kernel on one problem.

    `ratio` is after/before of the time, measured or predicted as `provenance` says, with its 95 % interval; None where
    there is none. `smallest`: the smallest ratio that would have been told apart from noise. `before_us` and `after_us`
    in µs. `changes`: fact → (before, after). `reasons` say why it regressed or could not be judged, `notes` what else
    a reader should know. `gpu` None: compared without one, for `arch`. `doubtful`: an `error` that says only that the
    machine was not fit to measure on. `line` and `end_line` of the kernel, 1 where it is gone.
    """

    file: str
    kernel: str
    line: int
    end_line: int
    code_hash: str
    problem: str
    describes: str
    status: Status
    arch: str
    gpu: str | None = None
    ratio: float | None = None
    ratio_ci95: tuple[float, float] | None = None
    smallest: float | None = None
    provenance: Literal["measured", "predicted"] = "measured"
    before_us: float | None = None
    after_us: float | None = None
    changes: Mapping[str, tuple[Fact, Fact]] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doubtful: bool = False

    @property
    def failed(self) -> bool:
        """Whether it fails a check: it regressed, or could not be judged, and not because of the machine."""
        return self.status == "regressed" or (self.status == "error" and not self.doubtful)


@dataclass(frozen=True)
class CheckResult:
    """What `check` found. `compared`: whether times were measured, or only what needs no GPU was looked at.

    `baseline`: the file, as the user would name it. `updated`: what `--update` changed in it, one sentence each; None
    without `--update`. `notes` are about the whole run.
    """

    compared: Literal["measured", "compiled"]
    comparisons: tuple[Comparison, ...] = ()
    target: TargetInfo | None = None
    baseline: str = ""
    archs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    lapsed: tuple[Lapsed, ...] = ()
    updated: tuple[str, ...] | None = None

    def failing(self, *, strict: bool = False) -> tuple[Comparison, ...]:
        """Return what the answer "no" rests on; `strict` adds what is missing, new, or could not be measured."""
        counted = {"missing", "new", "error"} if strict else set[str]()
        return tuple(one for one in self.comparisons if one.failed or one.status in counted)
