"""What can be configured, as frozen values with their defaults."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritonforge.config.lines import ValuePlace
from tritonforge.domain.messages import Limits
from tritonforge.domain.target import Target

OFFLINE = Target(name="offline", arch="sm_90")
"""Needs no GPU: compiles for an architecture and verifies in Triton's interpreter."""

LOCAL = Target(name="local")
"""A worker on this machine, on its own GPU."""

EMBEDDED_TARGETS: dict[str, Target] = {"offline": OFFLINE, "local": LOCAL}
"""The targets that exist without any configuration."""


@dataclass(frozen=True)
class LlmSettings:
    """The optional proposing engine; off while `model` is None. The key never stands in a file."""

    model: str | None = None
    base_url: str | None = None
    max_rounds: int = 16

    @property
    def enabled(self) -> bool:
        """Whether a model is named."""
        return self.model is not None


@dataclass(frozen=True)
class LaunchTable:
    """One `[[launch]]` table: the file, the kernel or host function it describes, and the rest as it was written.

    Exactly one of `kernel` and `function` is set. `values` holds what `workload` interprets; `source` and `line` say
    where the table stands and `places` where the value of each key does (`("x",)`, `("sizes", "M")`), for messages.
    """

    file: str
    kernel: str | None
    function: str | None
    values: Mapping[str, Any]
    source: str = ""
    line: int = 0
    places: Mapping[tuple[str | int, ...], ValuePlace] = field(default_factory=dict)


@dataclass(frozen=True)
class SettingProblem:
    """Something wrong in a settings file. `line` is 1-based, None where there is none; `mend` says what to do."""

    source: str
    line: int | None
    message: str
    mend: str = ""

    def __str__(self) -> str:
        """Return `file:line: message mend`."""
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.message} {self.mend}".strip()


@dataclass(frozen=True)
class Settings:
    """Everything configured for one workspace, validated, with defaults where nothing was said.

    `source` is the file that was read, relative to `root`, or None. `problems` lists what was wrong and therefore
    replaced by a default; the command line refuses to run with any, an editor shows them.
    """

    root: Path
    source: str | None = None
    default_target: str = "auto"
    targets: Mapping[str, Target] = field(default_factory=lambda: dict(EMBEDDED_TARGETS))
    llm: LlmSettings = LlmSettings()
    launches: tuple[LaunchTable, ...] = ()
    select: tuple[str, ...] = ("TF",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    limits: Limits = field(default_factory=Limits)
    problems: tuple[SettingProblem, ...] = ()

    def selects(self, code: str, file: str) -> bool:
        """Tell whether findings of `code` (`TF203`) are wanted in `file` (workspace-relative, with `/`).

        The longest matching prefix of `select` and `ignore` decides, so that `ignore = ["TF2"]` with
        `select = ["TF", "TF203"]` keeps TF203; `ignore` wins a tie. A per-file ignore always silences.
        """
        chosen = _longest_prefix(self.select, code)
        dropped = _longest_prefix(self.ignore, code)
        if chosen <= dropped:
            return False
        return not any(
            _matches(pattern, file) and _longest_prefix(codes, code) for pattern, codes in self.per_file_ignores
        )


def _longest_prefix(prefixes: tuple[str, ...], code: str) -> int:
    return max((len(p) for p in prefixes if code.startswith(p)), default=0)


def _matches(pattern: str, file: str) -> bool:
    # As in .gitignore: a pattern without a slash speaks of the name alone, wherever the file lies.
    return fnmatch.fnmatchcase(file if "/" in pattern else file.rpartition("/")[2], pattern)
