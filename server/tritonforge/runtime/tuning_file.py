"""The file that `tritonforge export` writes, read into what can be looked up at a launch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = "tritonforge-tuned/1"

Config = Mapping[str, Any]
"""Values of a launch by name: constexprs, `num_warps`, `num_stages`, …"""


class TuningFileError(ValueError):
    """The file is missing, damaged, of a newer version, or does not know the kernel; the text says what to do."""


@dataclass(frozen=True)
class Entry:
    """One configuration: for which sizes, types and flags it was found, each in the order of the kernel's `Keys`."""

    sizes: tuple[int, ...]
    dtypes: tuple[str, ...]
    flags: tuple[Any, ...]
    config: Config
    time_us: float | None = None


@dataclass(frozen=True)
class Keys:
    """The parameters of a kernel that choose a configuration: integers, pointers by their type, and other constexprs.

    A size `x.numel` is the number of elements of the argument `x`.
    """

    sizes: tuple[str, ...]
    dtypes: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class GpuEntries:
    """What is known for one GPU (empty name: predicted for its architecture alone)."""

    name: str
    arch: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class KernelTuning:
    """What a file says of one kernel. `fallback` is what its source said when it was tuned: it works everywhere."""

    name: str
    keys: Keys
    tunes: tuple[str, ...]
    fallback: Config
    gpus: tuple[GpuEntries, ...]

    def entries_for(self, gpu: str | None, arch: str | None) -> tuple[Entry, ...]:
        """Return the entries for a GPU: its own, else those of a GPU of its architecture, else none.

        Of several the first in the file wins; what was only predicted comes last.
        """
        own = [one for one in self.gpus if one.name and one.name == gpu]
        alike = [one for one in self.gpus if arch is not None and one.arch == arch]
        found = own or sorted(alike, key=lambda one: not one.name)
        return found[0].entries if found else ()

    def all_entries(self) -> tuple[Entry, ...]:
        """Return the entries of all GPUs."""
        return tuple(entry for gpu in self.gpus for entry in gpu.entries)

    def every_config(self, entries: Sequence[Entry]) -> list[Config]:
        """Return each different configuration of `entries`, and the fallback."""
        found: list[Config] = []
        for config in (self.fallback, *(entry.config for entry in entries)):
            if config not in found:
                found.append(config)
        return found


def read_tuning(path: str | Path, kernel: str) -> KernelTuning:
    """Return what the file at `path` says of the kernel that is called so, qualified or not.

    Raises:
        TuningFileError: for whatever is wrong, in a sentence.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number)
    except FileNotFoundError:
        raise TuningFileError(
            f"{path} does not exist. Make it: tritonforge export FILE.py::{kernel} -o {path}"
        ) from None
    except OSError as error:
        raise TuningFileError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise TuningFileError(f"{path} is damaged: it is not JSON. Make it anew with tritonforge export.") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        newer = isinstance(schema, str) and schema.startswith("tritonforge-tuned/")
        what = f"was written by a newer TritonForge ({schema})" if newer else "was not written by tritonforge export"
        raise TuningFileError(f"{path} {what}.")
    try:
        kernels = data["kernels"]
        exact = kernels.get(kernel)
        simple = [one for name, one in kernels.items() if name.rpartition(".")[2] == kernel.rpartition(".")[2]]
        found = exact if exact is not None else (simple[0] if len(simple) == 1 else None)
        if found is None:
            known = ", ".join(sorted(kernels)) or "none"
            raise TuningFileError(f"{path} has nothing for the kernel {kernel}; it has: {known}.")
        return _kernel(kernel, found)
    except _Damage as error:
        raise TuningFileError(f"{path} is damaged: {error}. Make it anew with tritonforge export.") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise TuningFileError(f"{path} is damaged ({error!r}). Make it anew with tritonforge export.") from None


def nearest(
    entries: Iterable[Entry], sizes: Sequence[int], dtypes: Sequence[str], flags: Sequence[Any]
) -> Entry | None:
    """Return the entry of the same types and flags whose sizes are nearest, by factors; None when there is none.

    Of entries that are as near the one for larger sizes wins: a tile that is too large wastes less than many too small.
    """
    alike = [one for one in entries if one.dtypes == tuple(dtypes) and one.flags == tuple(flags)]
    return min(alike, key=lambda one: (_distance(one.sizes, sizes), [-size for size in one.sizes]), default=None)


def _distance(first: Sequence[int], second: Sequence[int]) -> float:
    return sum(abs(math.log2(max(one, 1) / max(other, 1))) for one, other in zip(first, second, strict=True))


class _Damage(Exception):
    """What a file holds that it cannot hold, as a clause."""


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _kernel(name: str, data: Mapping[str, Any]) -> KernelTuning:
    keys = Keys(*(_names(data["keys"], part) for part in ("sizes", "dtypes", "flags")))
    tunes = _names(data, "tunes")
    gpus = tuple(
        GpuEntries(str(gpu["gpu"] or ""), str(gpu["arch"]), tuple(_entry(one, keys, tunes) for one in gpu["entries"]))
        for gpu in data["gpus"]
    )
    return KernelTuning(name, keys, tunes, _config(data["fallback"], tunes), gpus)


def _entry(data: Mapping[str, Any], keys: Keys, tunes: Sequence[str]) -> Entry:
    return Entry(
        tuple(_size(name, data["sizes"][name]) for name in keys.sizes),
        tuple(str(data["dtypes"][name]) for name in keys.dtypes),
        tuple(data["flags"][name] for name in keys.flags),
        _config(data["config"], tunes),
        data.get("time_us"),
    )


def _names(data: Mapping[str, Any], part: str) -> tuple[str, ...]:
    found = data[part]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _Damage(f"{part} is no list of names")
    return tuple(found)


def _size(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise _Damage(f"the size {name} is {_shown(value)}")
    return value


def _config(data: Any, tunes: Sequence[str]) -> dict[str, Any]:
    """Return a configuration: what is not among `tunes` could take the place of an argument, or of the grid."""
    if not isinstance(data, dict):
        raise _Damage("a configuration is no object")
    for name, value in data.items():
        if name not in tunes and name not in _OPTIONS:
            raise _Damage(f"a configuration sets {_shown(name)}, which is not among tunes")
        plain = value is None or isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < _MOST)
        if not plain and not (isinstance(value, float) and math.isfinite(value)):
            raise _Damage(f"{_shown(name)} is {_shown(value)}")
        if name in _POSITIVE and value is not None and not (type(value) is int and value > 0):
            raise _Damage(f"{name} is {_shown(value)}")
    return dict(data)


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < _MOST else "a huge number"
    return text if len(text) <= 40 else f"{text[:39]}…"


_MOST = 1 << 63
_OPTIONS = frozenset(["num_warps", "num_stages", "num_ctas", "maxnreg"])
_POSITIVE = frozenset(["num_warps", "num_ctas", "maxnreg"])
