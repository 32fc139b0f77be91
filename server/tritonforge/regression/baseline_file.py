"""`.tritonforge/baseline.json`: read with clear errors, written whole or not at all, in an order that diffs well."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tritonforge.domain.baseline import Baseline, BaselineEntry, Fact, GpuState, Runs
from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.domain.errors import UsageError
from tritonforge.domain.finding import SEVERITIES, Severity
from tritonforge.store.whole_file import write_whole

SCHEMA = "tritonforge-baseline/1"
_FAMILY = re.compile(r"tritonforge-baseline/[0-9]{1,6}")
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)
_LARGEST = 64 << 20
_MOST = 1 << 64
_SAID = 200
AGAIN = "Make it anew with tritonforge check PATH --update."


def read_baseline(path: Path) -> Baseline | None:
    """Return the baseline in `path`; None when there is no such file.

    Raises:
        UsageError: for a file that cannot be read, is damaged, is somebody else's, or comes from a newer version.
    """
    try:
        if stat.S_ISCHR(path.stat().st_mode):
            raise UsageError(f"{path} is a device and no baseline.", AGAIN)
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)  # a pipe (`<(git show …)`), or a file that grows, may be longer than it says
        if len(data) > _LARGEST:
            raise UsageError(f"{path} is too large for a baseline.", AGAIN)
        text = data.decode("utf-8-sig")  # some editors put a mark before it
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8, so it is no baseline.", AGAIN) from None
    try:
        found = json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        if _CONFLICT.search(text):
            raise UsageError(f"{path} has an unresolved merge conflict.", f"Keep either side, then: {AGAIN}") from None
        line = getattr(error, "lineno", 1)
        raise UsageError(f"{path} is damaged: it is not valid JSON (line {line}).", AGAIN) from None
    except RecursionError:
        raise UsageError(f"{path} is damaged: it is nested too deeply.", AGAIN) from None
    return _baseline(found, path)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write `baseline`: first beside `path`, then in its place, so that whoever reads finds the old one or the new one.

    Raises:
        UsageError: when it cannot be written.
    """
    text = baseline_text(baseline)
    path = Path(os.path.realpath(path))  # a link stays one
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    write_whole(path, text, mode=mode)


def baseline_text(baseline: Baseline) -> str:
    """Return the text of the file: one key a line, in a fixed order, numbers with as many digits as mean something."""
    kernels: dict[tuple[str, str], list[Any]] = {}
    for entry in sorted(baseline.entries, key=lambda one: one.key):
        kernels.setdefault((entry.file, entry.kernel), []).append(_entry_json(entry))
    used = {entry.file for entry in baseline.entries}
    text = _laid_out({
        "schema": SCHEMA,
        "kernels": [{"file": file, "name": name, "entries": made} for (file, name), made in kernels.items()],
        "sources": {file: _packed(baseline.sources[file]) for file in sorted(baseline.sources)} if used else {},
    })  # fmt: skip
    # Names of files may have bytes that are no text; JSON has escapes for those.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _entry_json(entry: BaselineEntry) -> dict[str, Any]:
    state = None
    if entry.state is not None:
        state = {name: value for name, value in encode(entry.state).items() if value not in (None, [])}
    return {
        "problem": entry.problem,
        "describes": entry.describes,
        "gpu": entry.gpu,
        "arch": entry.arch,
        "config": dict(sorted(entry.config.items())),
        "grid": list(entry.grid),
        "time_us": None
        if entry.time is None
        else {
            "median": rounded(entry.time.median),
            "runs": [rounded(one) for one in entry.time.medians],
            "samples": entry.time.samples,
        },
        "compiled": {name: rounded(value) for name, value in sorted(entry.compiled.items())},
        "findings": dict(sorted(entry.findings.items())),
        "code_hash": entry.code_hash,
        "site_hash": entry.site_hash,
        "versions": dict(sorted(entry.versions.items())),
        "date": entry.date,
        "state": state,
    }


def rounded(value: Fact) -> Fact:
    """Return a number with five significant digits, anything else as it is; a number that is not finite is None."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _laid_out(value: Any, depth: int = 0) -> str:
    """Return JSON with one key a line; a list of plain values stays on its line."""
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(str(k), ensure_ascii=False)}: {_laid_out(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + outer + ("}" if depth else "}\n")
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[\n" + ",\n".join(f"{inner}{_laid_out(one, depth + 1)}" for one in value) + "\n" + outer + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 9)).decode("ascii")


def _unpacked(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of `sources`, which may be small in the file and enormous here.

    Raises:
        ValueError: for what is no packed text, and for more than anybody's kernels take.
    """
    found: dict[str, str] = {}
    left = _LARGEST
    for file, packed in texts.items():
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(packed, validate=True), left)
        if unpacking.unconsumed_tail:
            raise ValueError("its sources are too large")
        if not unpacking.eof:
            raise ValueError("a source is cut off")
        left -= len(text)
        found[str(file)] = text.decode("utf-8", "surrogatepass")
        if left <= 0:
            raise ValueError("its sources are too large")
    return found


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _baseline(data: Any, path: Path) -> Baseline:
    family = _FAMILY.fullmatch(str(data.get("schema"))) if isinstance(data, dict) else None
    if family is None:
        raise UsageError(f"{path} is not a TritonForge baseline.", "Name another file with --baseline.")
    if data["schema"] != SCHEMA:
        mend = "Update TritonForge, or make it anew with tritonforge check PATH --update into another file."
        raise UsageError(
            f"{path} was written by a newer TritonForge ({data['schema']}, this one knows {SCHEMA}).", mend
        )
    try:
        entries = [
            _entry(str(kernel["file"]), str(kernel["name"]), one)
            for kernel in data["kernels"]
            for one in kernel["entries"]
        ]
        sources = _unpacked(data.get("sources", {}))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, CodecError, zlib.error) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        said = " ".join(what.split())[:_SAID].rstrip(".")
        raise UsageError(f"{path} is damaged: {said}.", AGAIN) from None
    # A merge that keeps both sides leaves some twice: the later one is meant.
    latest = {one.key: one for one in sorted(entries, key=lambda one: one.date)}
    return Baseline(tuple(sorted(latest.values(), key=lambda one: one.key)), sources)


def _entry(file: str, kernel: str, data: Mapping[str, Any]) -> BaselineEntry:
    time = data["time_us"]
    runs = None
    if time is not None:
        runs = Runs(tuple(float(one) for one in time["runs"]), int(time["samples"]))
        if not runs.medians or not all(math.isfinite(one) and one > 0 for one in runs.medians):
            raise ValueError(f"the times of {kernel} are not above 0")
    x, y, z = (int(one) for one in data["grid"])
    return BaselineEntry(
        file=file,
        kernel=kernel,
        problem=str(data["problem"]),
        describes=str(data["describes"]),
        gpu=None if data["gpu"] is None else str(data["gpu"]),
        arch=str(data["arch"]),
        code_hash=str(data["code_hash"]),
        site_hash=str(data["site_hash"]),
        config=_facts(data, "config"),
        grid=(x, y, z),
        versions={name: None if one is None else str(one) for name, one in _facts(data, "versions").items()},
        date=str(data["date"]),
        time=runs,
        compiled=_facts(data, "compiled"),
        findings=_findings(data),
        state=None if data.get("state") is None else decode(GpuState, _with_lists(data["state"])),
    )


def _facts(data: Mapping[str, Any], part: str) -> dict[str, Fact]:
    found = data[part]
    if not isinstance(found, dict):
        raise ValueError(f"{part} is no object")  # noqa: TRY004 - one kind of error for whatever is damaged
    for name, value in found.items():
        plain = value is None or isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < _MOST)
        if not plain and not (isinstance(value, float) and math.isfinite(value)):
            raise ValueError(f"{part} has no plain value for {name}")
    return dict(found)


def _findings(data: Mapping[str, Any]) -> dict[str, Severity]:
    found: dict[str, Severity] = {}
    for code, severity in _facts(data, "findings").items():
        known = next((one for one in SEVERITIES if one == severity), None)
        if known is None:
            raise ValueError(f"{code} has no known severity")
        found[code] = known
    return found


def _with_lists(state: Mapping[str, Any]) -> dict[str, Any]:
    empty = encode(GpuState())
    return {**empty, **{name: value for name, value in state.items() if name in empty}}
