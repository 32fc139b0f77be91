"""What an autotuner spends: keys that make it tune again, keys that it ignores, configurations that cannot win."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.extents import is_counter, is_length, written_for
from tritonforge.diagnosis.sizes import integer
from tritonforge.domain.kernel import Autotune, ConfigEntry, Kernel

_MANY = 64
"""Configurations from which tuning one key takes minutes: about a second each to compile and time."""
_SOME = 3
"""Configurations up to which tuning again costs little."""


@dataclass(frozen=True)
class Thrash:
    """One thing that is wrong with an autotuner: `what`, and the names or configurations it is about."""

    what: Literal["changing-key", "ignored-key", "impossible", "repeated", "many"]
    names: tuple[str, ...]
    configs: int


def thrash(case: Case) -> tuple[Thrash, ...]:
    """Judge the kernel's autotuner as far as its decorator is written out."""
    kernel, tuner = case.kernel, case.kernel.autotune
    if tuner is None:
        return ()
    if tuner.varies:  # what is listed may not all be there
        tuner = dataclasses.replace(tuner, configs=())
    count = len(tuner.configs)
    found = []
    changing = tuple(name for name in tuner.key if _changes(kernel, name))
    if changing and not 0 < count <= _SOME:
        found.append(Thrash("changing-key", changing, count))
    ignored = tuple(name for name in tuner.key if kernel.parameter(name) is None)
    if ignored:
        found.append(Thrash("ignored-key", ignored, count))
    impossible = tuple(dict.fromkeys(why for config in tuner.configs if (why := _impossible(config))))
    if impossible:
        found.append(Thrash("impossible", impossible, count))
    repeated = _repeated(tuner)
    if repeated:
        found.append(Thrash("repeated", repeated, count))
    if count >= _MANY and not any("prune" in text or "cache" in text for text in kernel.decorators):
        found.append(Thrash("many", (), count))
    return tuple(found)


def _changes(kernel: Kernel, name: str) -> bool:
    """Whether a key follows the data at every launch site, not bucketed, and is passed at run time."""
    parameter = kernel.parameter(name)
    if parameter is None or parameter.role in {"tile", "pointer"}:
        return False
    if is_counter(name):
        return True
    written = written_for(kernel, name)
    return bool(written) and all(is_length(name, text) for text in written)


def _impossible(config: ConfigEntry) -> str | None:
    """Return an option that Triton refuses: a number of warps that is no power of two."""
    text = dict(config.options).get("num_warps") or dict(config.constexprs).get("num_warps")
    warps = integer(text)
    return f"num_warps={warps}" if warps is not None and (warps <= 0 or warps & (warps - 1)) else None


def _repeated(tuner: Autotune) -> tuple[str, ...]:
    """Return the configurations that are listed more than once."""
    counts = Counter((frozenset(c.constexprs), frozenset(_defaulted(c))) for c in tuner.configs)
    return tuple(
        ", ".join(f"{name}={value}" for name, value in sorted((*tiles, *options)))
        for (tiles, options), count in counts.items()
        if count > 1
    )


def _defaulted(config: ConfigEntry) -> tuple[tuple[str, str], ...]:
    """Return the options with Triton's defaults (`triton.Config`: 4 warps, 3 stages) where they are not given."""
    return tuple({"num_warps": "4", "num_stages": "3", **dict(config.options)}.items())
