"""Reading recordings: what was compiled and timed, in the nouns."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritonforge.domain.codec import decode
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.profile import Ceilings, TimeDistribution


@dataclass(frozen=True)
class Point:
    """One configuration of a kernel at one size: what the compiler made of it, and its time in µs or why none."""

    kernel: str
    size: str
    config: Mapping[str, int]
    error: str | None
    time: TimeDistribution | None
    launch: RecordedLaunch | None
    compilation: Compilation | None


@dataclass(frozen=True)
class Recording:
    """One run of the recorder: `about` says on what, `notes` what disturbed the timing of a kernel at a size."""

    about: Mapping[str, Any]
    points: tuple[Point, ...]
    notes: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    @property
    def ceilings(self) -> Ceilings | None:
        """The ceilings that were measured before the sweep."""
        found = self.about.get("ceilings")
        return decode(Ceilings, found) if found else None


def read_recording(path: Path) -> Recording:
    """Read what `sweeps.record` wrote, as far as it got."""
    about: Mapping[str, Any] = {}
    points, notes = [], {}
    for line in lines_of(path):
        if "format" in line:
            about = line
        elif "about" in line:
            notes[line["kernel"], line["size"]] = line["about"]
        else:
            points.append(_point(line))
    return Recording(about, tuple(points), notes)


def read_all(paths: Iterable[Path]) -> list[Recording]:
    """Read several recordings."""
    return [read_recording(path) for path in paths]


def _point(line: Mapping[str, Any]) -> Point:
    def noun(kind: Any, name: str) -> Any:
        return decode(kind, line[name]) if line[name] is not None else None

    return Point(
        line["kernel"],
        line["size"],
        line["config"],
        line["error"],
        noun(TimeDistribution, "time"),
        noun(RecordedLaunch, "launch"),
        noun(Compilation, "compilation"),
    )


def lines_of(path: Path) -> Iterator[Any]:
    """Yield the lines of a recording; what a run that was cut short left unfinished is skipped."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        try:
            for line in file:
                yield json.loads(line)
        except (EOFError, lzma.LZMAError):
            return
