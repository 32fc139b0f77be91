"""What can be configured, as frozen values with their defaults."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tritonforge.config.lines import ValuePlace
from tritonforge.domain.ignoring import IgnoredBy, Lapsed
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
    """The optional proposing engine; off while `model` is None. The key never stands in a file.

    All `max_…` bound one search for one kernel: proposals asked for, tokens, cost in the currency of the prices,
    seconds spent waiting for the model. Prices are per million tokens. `context_tokens` is the model's window,
    `answer_tokens` the most of it that an answer may take. `timeout` is of one answer, in seconds. The values of
    `headers` may be `env:NAME`. `temperature` and `seed` are None where none is to be sent.
    """

    model: str | None = None
    base_url: str | None = None
    max_rounds: int = 16
    max_tokens: int = 500_000
    max_cost: float | None = None
    max_seconds: float = 1800.0
    input_price: float | None = None
    output_price: float | None = None
    api: Literal["auto", "responses", "chat"] = "auto"
    stream: bool = True
    structured_output: bool = False
    temperature: float | None = 0.0
    seed: int | None = 0
    timeout: float = 180.0
    retries: int = 4
    context_tokens: int = 32_768
    answer_tokens: int = 8_192
    organization: str | None = None
    project: str | None = None
    proxy: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def enabled(self) -> bool:
        """Whether a model is named."""
        return self.model is not None


@dataclass(frozen=True)
class SendingSettings:
    """How much of a workspace is sent to a target elsewhere: bytes of one file and of all, and how many files."""

    file_bytes: int = 64 << 20
    total_bytes: int = 512 << 20
    files: int = 10_000


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
class DatedIgnore:
    """`"TF203 until 2027-03-01"` in `ignore` (`pattern` None) or in `per-file-ignores`; `lapsed`: why it is over."""

    pattern: str | None
    code: str
    until: str
    lapsed: str = ""

    @property
    def key(self) -> str:
        """The setting that it stands in."""
        return "ignore" if self.pattern is None else f"per-file-ignores {self.pattern!r}"


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
    llm: LlmSettings = field(default_factory=LlmSettings)
    launches: tuple[LaunchTable, ...] = ()
    select: tuple[str, ...] = ("TF",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    limits: Limits = field(default_factory=Limits)
    sending: SendingSettings = field(default_factory=SendingSettings)
    problems: tuple[SettingProblem, ...] = ()
    dated: tuple[DatedIgnore, ...] = ()
    """Entries of `ignore` and `per-file-ignores` that were written with a day; the two hold those that still count."""

    def silences(self, code: str, file: str) -> tuple[IgnoredBy, str, str | None] | None:
        """Return what keeps findings of `code` in `file` from being shown, where that stands, its last day; or None."""
        for pattern, codes in self.per_file_ignores:
            if _matches(pattern, file) and (length := _longest_prefix(codes, code)):
                until = self._until(pattern, code[:length])
                return "per-file", f"{self.source or 'settings'}: per-file-ignores {pattern!r}", until
        if self.selects(code, file):
            return None
        dropped = code[: _longest_prefix(self.ignore, code)]
        key = f"ignore {dropped!r}" if dropped else "select"
        return "setting", f"{self.source or 'settings'}: {key}", self._until(None, dropped)

    def lapsed(self) -> tuple[Lapsed, ...]:
        """Return the dated entries that no longer count."""
        return tuple(
            Lapsed(one.code, f"{self.source or 'settings'}: {one.key}", one.until, one.lapsed)
            for one in self.dated
            if one.lapsed
        )

    def _until(self, pattern: str | None, code: str) -> str | None:
        found = (one.until for one in self.dated if one.pattern == pattern and one.code == code and not one.lapsed)
        return next(found, None)

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
