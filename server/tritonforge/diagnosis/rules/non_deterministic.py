"""TF507: atomics on floats, whose order differs from run to run."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import tensors
from tritonforge.diagnosis.finding import evidence
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.races import axes_used, grid_extent
from tritonforge.diagnosis.sizes import integer
from tritonforge.domain.kernel import Reach

_HIDDEN = -1
"""Stands among a reach's axes for what the text does not show."""
_COMMUTING = 2
"""Additions to a zero whose order makes no difference."""


def _look(case: Case) -> Iterable[Observation]:
    for reach in case.kernel.reaches or ():
        if reach.name != "atomic_add" or not _meet(case, reach):
            continue
        known = tensors(case.launch)
        dtypes = {known[name].dtype for name in reach.pointers if name in known}
        if dtypes and not any(name.startswith(("float", "bfloat")) for name in dtypes):
            continue
        if not dtypes and not _looks_floating(reach):
            continue
        where = "Where loaded indices repeat, programs" if reach.indexed else "Where their addresses meet, programs"
        sure = not reach.indexed and _HIDDEN not in reach.where
        yield Observation(
            severity="information" if dtypes and sure else "hint",
            range=reach.range,
            message=(
                f"{'Programs' if sure else where} add floats here in whatever order they come, and float addition is "
                "not associative: results differ from run to run in their last digits; where that matters, write "
                "partial results and add them in a fixed order."
            ),
            provenance="source",
            evidence=evidence(
                ("pointer", ", ".join(reach.pointers) or None, "", "source"),
                ("dtype", ", ".join(sorted(dtypes)) or None, "", "derived"),
            ),
        )


def _meet(case: Case, reach: Reach) -> bool:
    """Tell whether several programs, or lanes, may add to one element in an order that matters.

    Of two additions to a zero the order does not: a + b is b + a. So a known launch needs three. What the element held
    before is not known, but buffers that are added to start as zeros.
    """
    if reach.indexed or _HIDDEN in reach.where:
        return True
    axes = axes_used(case.kernel) - set(reach.where) - set(reach.when)
    extents = [grid_extent(case, axis) for axis in axes]
    if not all(extents):
        return any(extent != 1 for extent in extents)
    programs = math.prod(extent or 1 for extent in extents)
    return programs > _COMMUTING or (programs > 1 and _additions(case, reach) > _COMMUTING)


def _additions(case: Case, reach: Reach) -> float:
    """Return how often an element is added to on average; 0 where nothing was compiled."""
    work = case.compiled.work if case.compiled is not None else None
    lines = range(reach.range.start.line, reach.range.end.line + 1)
    found = [one for n, one in work.lines.items() if n in lines and one.atomic_targets] if work is not None else []
    return max((one.atomic_ops * (case.programs or 1) / one.atomic_targets for one in found), default=0.0)


def _looks_floating(reach: Reach) -> bool:
    """Without the tensor's type: a value that a dot, a sum or float arithmetic made, and no counter."""
    value = reach.value or ""
    if integer(value) is not None or "int" in value or "count" in value.lower():
        return False
    names = " ".join(reach.pointers).lower()
    return not any(word in names for word in ("count", "lock", "index", "idx", "num", "hist", "offset", "bin"))


RULE = Rule("TF507", "non-deterministic", "source", _look)
