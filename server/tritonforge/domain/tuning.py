"""`TunedLaunch`: the best configuration that is known for one kernel, on one problem, on one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Union

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch, Problem

Value = Union[int, float, bool, str, None]


@dataclass(frozen=True)
class TunedLaunch:
    """A configuration that passed the gate (or is the source's own) and was the fastest on its launch.

    `config` holds the values that were searched over. `time_us` and `source_us`: of the configuration and of the
    source's own, µs, `measured` or `predicted` as `provenance` says. `gpu` is None where it was predicted.
    """

    kernel: Kernel
    problem: Problem
    config: Mapping[str, Value]
    source: Mapping[str, Value]
    arch: str
    gpu: str | None
    time_us: float
    source_us: float
    provenance: Literal["measured", "predicted"]
    launch: Launch
    versions: Mapping[str, str]
