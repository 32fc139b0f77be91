"""Reading recordings: what was compiled and timed, in the nouns."""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritonforge.domain.codec import decode
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.profile import Ceilings, TimeDistribution

FORMAT = 1


class Unreadable(Exception):
    """A recording that cannot be used; the text says which and why."""


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
    """Read what `sweeps.record` wrote, as far as it got.

    Raises:
        Unreadable: when there is no such file, when it holds something else, or when it was damaged.
    """
    about: Mapping[str, Any] = {}
    points, notes = [], {}
    for number, line in enumerate(lines_of(path), 1):
        try:
            if "format" in line:
                if line["format"] != FORMAT or not line["arch"]:
                    raise Unreadable(f"{path}: format {line['format']} is not known")
                about = line
            elif "about" in line:
                notes[line["kernel"], line["size"]] = line["about"]
            else:
                points.append(_point(line))
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable(f"{path}: line {number} is no part of a recording ({error!r:.200})") from error
    if not about:
        raise Unreadable(f"{path}: it does not say what it was recorded on")
    return Recording(about, tuple(points), notes)


def _point(line: Mapping[str, Any]) -> Point:
    def noun(kind: Any, name: str) -> Any:
        return decode(kind, line[name]) if line[name] is not None else None

    time = noun(TimeDistribution, "time")
    if time is not None and not 0 < time.median < math.inf:
        raise ValueError(f"a time of {time.median} µs")
    return Point(
        line["kernel"],
        line["size"],
        line["config"],
        line["error"],
        time,
        noun(RecordedLaunch, "launch"),
        noun(Compilation, "compilation"),
    )


def lines_of(path: Path) -> Iterator[Any]:
    """Yield the lines of a recording; what a run that was cut short left unfinished is skipped.

    Raises:
        Unreadable: when it cannot be opened, or is damaged.
    """
    try:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except EOFError:
        return
    except (OSError, lzma.LZMAError, ValueError) as error:  # ValueError: no UTF-8, or no JSON
        raise Unreadable(f"{path}: {error}") from error
