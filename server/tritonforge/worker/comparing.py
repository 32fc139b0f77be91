"""The `Compare` and `CompareOnDevice` jobs: does the candidate compute what the original does?"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, replace
from typing import Any

import torch

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compare, CompareOnDevice, CompareResult, InputOutcome, Runs
from tritonforge.worker.auditing import Audit, Compared
from tritonforge.worker.failures import JobContext
from tritonforge.worker.interpreter.poison import CANDIDATE
from tritonforge.worker.oracles import Original
from tritonforge.worker.outcomes import Comparison, Oracle, Outputs, Undefined, compare_outputs
from tritonforge.worker.outputs import identical
from tritonforge.worker.rebuilding import Rebuilt
from tritonforge.worker.repeating import RunFailed, Where, run_call

__all__ = ["Where", "compare"]

_COINS = ((0, 0), (2, 0), (2, 2), (6, 4))
"""How often the inputs are moved before a candidate is refused, and by walks: what passes without needs no more."""
_CLOSE = 100.0
"""Further beyond what is allowed, more coins do not help: one in ten thousand pairs of them is so lucky."""

_HELD_BYTES = 64 << 20


class _Held:
    """The memory of a candidate's arguments, up to a bound, so that no two inputs of a comparison have one address.

    Whether memory comes back is the allocator's matter: a result that is kept by address would be returned for another
    input now and then. In the interpreter, `rerunning` puts other values at one address on purpose, and says what it
    is. On a GPU nothing does, so memory may come back there.
    """

    def __init__(self) -> None:
        self._memories: list[Any] = []
        self._size = 0

    def keep(self, rebuilt: Rebuilt) -> None:
        """Hold the memory of arguments, if it is small."""
        size = sum(memory.nbytes for memory, _, _ in rebuilt.memories)
        if self._size + size <= _HELD_BYTES:
            self._size += size
            self._memories.append(rebuilt.memories)


def compare(request: Compare | CompareOnDevice, context: JobContext, where: Where) -> CompareResult:
    """Run both programs on each input and compare them.

    Raises:
        JobFailed: `unsupported`, when an input cannot be rebuilt; what a device reports as `cuda-error`.
    """
    outcomes: list[InputOutcome] = []
    further = where.further if not isinstance(request, Compare) or request.again else None
    audit = Audit(request, None if further is None else functools.partial(further, where=where))
    given = (request.candidate_inputs if isinstance(request, Compare) else ()) or request.inputs
    runs: Runs = request.runs if isinstance(request, Compare) else "both"
    held = _Held()
    for i, (call, candidate_call) in enumerate(zip(request.inputs, given, strict=True)):
        context.progress(f"Comparing on input {i + 1} of {len(request.inputs)}", i / len(request.inputs))
        where.choose(turn_of(request, i))
        if runs == "once":
            outcomes.append(_once(Original(request.original, call, where)))
            continue
        outcome, outputs = _compare_on(
            request, call, candidate_call, where, runs, held=held, measure_original=i == 0, made=i in request.made
        )
        if outputs is not None and runs == "both":
            outcome = audit.met(Compared(i, call, candidate_call, *outputs, outcome))
        outcomes.append(outcome)
        if request.stop_at_first and outcome.status in {"different", "candidate-failed"}:
            break
    return audit.result(outcomes)


def turn_of(request: Compare | CompareOnDevice, index: int) -> int:
    """Return which configuration the candidate's autotuners use on an input."""
    turns = request.turns if isinstance(request, CompareOnDevice) else ()
    return turns[index] if index < len(turns) else 0


def _once(original: Original) -> InputOutcome:
    started = time.perf_counter()
    try:
        want = original.outputs()
    except RunFailed as error:
        return InputOutcome("original-failed", str(error), out_of_bounds=error.out_of_bounds)
    seconds = time.perf_counter() - started
    return InputOutcome(
        "equal",
        outputs=len(want.tensors),
        seconds=seconds,
        operations=want.operations,
        overlapping=_overlaps(want),
        unwritten=want.unwritten,
    )


def _overlaps(outputs: Outputs) -> bool:
    """Tell whether the order of its writes decides what a program leaves."""
    return outputs.seen is not None and any(one.kind == "write-write" for one in outputs.seen.conflicts)


def _compare_on(
    request: Compare | CompareOnDevice,
    call: Call,
    candidate_call: Call,
    where: Where,
    runs: Runs,
    *,
    held: _Held,
    measure_original: bool,
    made: bool = False,
) -> tuple[InputOutcome, tuple[Outputs, Outputs] | None]:
    told = request.precision if isinstance(request, CompareOnDevice) else None
    original = Original(request.original, call, where, told)
    try:
        want = original.outputs()
    except RunFailed as error:
        return InputOutcome("original-failed", str(error), out_of_bounds=error.out_of_bounds), None
    hold = held.keep if where.device == "cpu" else None
    started = time.perf_counter()
    try:
        got = run_call(request.candidate, candidate_call, where, CANDIDATE, hold=hold)
    except RunFailed as error:
        seconds = time.perf_counter() - started
        return InputOutcome("candidate-failed", str(error), out_of_bounds=error.out_of_bounds, seconds=seconds), None
    seconds = time.perf_counter() - started
    if runs == "again":
        # A program that does not repeat its own results says nothing, however close they are.
        with torch._C.DisableTorchFunction():
            judged = _Judged(compare_outputs(want, got, request.tolerance), Oracle(), "")
    else:
        undefined = Undefined(unwritten=made and request.complete)
        judged = _judged(request, original, want, got, undefined, measure_original=measure_original)
        if judged.found.problem and made and _overlaps(want):
            judged = _where_defined(request, original, want, got, undefined=undefined, judged=judged)
    found, known = judged.found, judged.oracle.kind != "original"
    if not found.problem and not found.defined:
        nothing = "what it computes here is not defined: all is left unwritten, or the order of its programs decides it"
        return InputOutcome("original-failed", nothing, seconds=seconds, overlapping=_overlaps(want)), None
    outcome = InputOutcome(
        status="different" if found.problem else "equal",
        detail=found.problem,
        worst_error=found.worst_error,
        original_error=found.original_error if known else None,
        difference=found.difference,
        inputs_changed=tuple(sorted(got.changed - want.changed)),
        outputs=found.compared,
        seconds=seconds,
        oracle=judged.oracle.kind,
        norm_error=found.norm_error,
        original_norm_error=found.original_norm_error if known else None,
        note=judged.note,
        operations=want.operations,
        overlapping=_overlaps(want),
        unwritten=want.unwritten,
        precision=original.found(found.lost) if judged.oracle.kind == "widened" else None,
    )
    return outcome, (want, got)


@dataclass(frozen=True)
class _Judged:
    found: Comparison
    oracle: Oracle
    note: str


def _where_defined(
    request: Compare | CompareOnDevice,
    original: Original,
    want: Outputs,
    got: Outputs,
    *,
    undefined: Undefined,
    judged: _Judged,
) -> _Judged:
    """Compare once more where programs of the original write to the same elements, without what their order decides."""
    ordered = original.ordered()
    decided = [one for one in ordered.values() if bool(one.any())]
    if not decided:
        return judged
    count, elements = sum(int(one.sum()) for one in decided), sum(one.numel() for one in decided)
    again = _judged(request, original, want, got, replace(undefined, ordered=ordered), measure_original=True)
    if again.found.problem:
        return again
    note = f"the order of the original's programs decides {count} of {elements} elements on some inputs"
    return replace(again, note=again.note or f"{note}: these were not compared there")


def _judged(
    request: Compare | CompareOnDevice,
    original: Original,
    want: Outputs,
    got: Outputs,
    undefined: Undefined,
    *,
    measure_original: bool,
) -> _Judged:
    """Compare with as little evidence as decides: each step allows at least what the one before it did."""
    with torch._C.DisableTorchFunction():
        if request.reference is None and not measure_original and identical(want, got):
            return _Judged(compare_outputs(want, got, request.tolerance, undefined=undefined), Oracle(), "")
    thorough = isinstance(request, Compare) or request.thorough
    for coins, walks in _COINS if thorough else _COINS[:1]:
        oracle, note = original.oracle(request.reference, request.tolerance, coins, walks)
        oracle = replace(oracle, flushed=isinstance(request, CompareOnDevice))
        with torch._C.DisableTorchFunction():
            found = compare_outputs(want, got, request.tolerance, oracle, undefined)
        if not found.problem or found.excess > (_CLOSE if coins else float("inf")):
            break
    return _Judged(found, oracle, note)
