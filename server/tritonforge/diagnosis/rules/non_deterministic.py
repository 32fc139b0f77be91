"""TF507: atomics on floats, whose order differs from run to run."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import tensors
from tritonforge.diagnosis.finding import evidence
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.races import axes_used, grid_extent
from tritonforge.diagnosis.sizes import integer
from tritonforge.domain.kernel import Reach


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
        yield Observation(
            severity="information" if dtypes else "hint",
            range=reach.range,
            message=(
                "Programs add floats here in whatever order they come, and float addition is not associative: results "
                "differ from run to run in their last digits; where that matters, write partial results and add them "
                "in a fixed order."
            ),
            provenance="source",
            evidence=evidence(
                ("pointer", ", ".join(reach.pointers) or None, "", "source"),
                ("dtype", ", ".join(sorted(dtypes)) or None, "", "derived"),
            ),
        )


def _meet(case: Case, reach: Reach) -> bool:
    """Tell whether several programs, or lanes, may add to one element."""
    if reach.indexed or -1 in reach.where:
        return True
    axes = axes_used(case.kernel) - set(reach.where) - set(reach.when)
    return any(grid_extent(case, axis) != 1 for axis in axes)


def _looks_floating(reach: Reach) -> bool:
    """Without the tensor's type: a value that a dot, a sum or float arithmetic made, and no counter."""
    value = reach.value or ""
    if integer(value) is not None or "int" in value or "count" in value.lower():
        return False
    names = " ".join(reach.pointers).lower()
    return not any(word in names for word in ("count", "lock", "index", "idx", "num", "hist", "offset", "bin"))


RULE = Rule("TF507", "non-deterministic", "source", _look)
