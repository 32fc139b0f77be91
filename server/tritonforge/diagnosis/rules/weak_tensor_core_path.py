"""TF202: dots run as `mma` where the GPU's full matrix rate needs another instruction."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.finding import evidence, gain_of, line_range
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.matrix_path import OldPath, old_path


def _look(case: Case) -> Iterable[Observation]:
    seen = old_path(case)
    if seen is None:
        return
    dot = seen.dot
    warps = case.compiled.num_warps if case.compiled is not None else None
    # What an autotuner tried and left had its reasons: then this is only worth knowing.
    yield Observation(
        severity="warning" if case.kernel.autotune is None else "information",
        range=line_range(case.kernel, dot.line),
        message=_message(seen),
        provenance="compiled",
        evidence=evidence(
            ("path", dot.path, "1", "compiled"),
            ("possible_path", seen.best, "1", "derived"),
            ("tile", "×".join(map(str, dot.tile)), "1", "compiled"),
            ("operands", f"{dot.a_dtype}, {dot.b_dtype}", "1", "compiled"),
            ("num_warps", warps, "1", "compiled"),
            ("tensor_active", metric(case, "tensor_active"), "1", "measured"),
        ),
        estimated_gain=gain_of(seen.gain),
    )


def _message(seen: OldPath) -> str:
    tile = "×".join(map(str, seen.dot.tile[:2]))
    how = {
        "rows": f"it needs tiles of at least 64 rows, and this one is {tile}",
        "warps": "four warps issue it together, and the program's number of warps is no multiple of four",
        "operands": (
            "its operands come from shared memory in a layout that the type allows (of 8-bit and tf32 operands only "
            "K-major ones): keep a K-major copy, or transpose once in front of the loop"
        ),
    }[seen.why]
    return f"This dot runs as `mma`, which reaches a part of the matrix rate that `{seen.best}` does: {how}."


RULE = Rule("TF202", "weak-tensor-core-path", "compilation", _look)
