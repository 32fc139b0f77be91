"""Run a candidate again in the interpreter: programs in other orders, other values in the same memory.

Two calls in one run. The first has the values of an input that was compared already, in fresh memory, with programs in
random order; then the same memory gets the values of another input, and programs run in reverse. What either returns is
known, so that only what depends on the order, or on what was there before, can differ.
"""

from __future__ import annotations

import ctypes
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tritonforge.domain.launch import Call, Distribution, Entries, Items, Tensor, Value
from tritonforge.domain.messages import Compare, CompareOnDevice, Program, Tolerance
from tritonforge.worker.auditing import Again, Compared
from tritonforge.worker.calling import Runnable, identity, seed_everything
from tritonforge.worker.earlier import earlier_of
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.interpreter.poison import CANDIDATE, ORIGINAL, Poison
from tritonforge.worker.interpreter.running import Order, current_run
from tritonforge.worker.loading import digest_of, load
from tritonforge.worker.outcomes import Outputs, compare_outputs, flatten, identical
from tritonforge.worker.rebuilding import Rebuilt, rebuild
from tritonforge.worker.repeating import RunFailed, Where, run_call
from tritonforge.worker.seen import KEPT, ORDER, Doubt

_SEVERAL = 3
_WAITS_S, _WAITS_TIMES = 2.0, 20.0
"""A run in another order may take this long, or this many times what it took before, whichever is more."""
_SEED = 7919
_PATIENCE_S = 30.0
"""How long an original may take in another order."""
_known: dict[str, Again] = {}
_originals: dict[str, Doubt] = {}


def in_order(program: Program, call: Call, order: Order, *, where: Where) -> Outputs:
    """Run an original on a call with the programs of each launch in another order.

    Raises:
        RunFailed: when it fails, or waits for a program that has not run.
    """

    def adapt(repeated: Runnable) -> Runnable:
        def run(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            now = current_run()
            now.order, now.deadline = order, time.monotonic() + _PATIENCE_S
            return repeated.run(arguments, keywords)

        return dataclasses.replace(repeated, run=run)

    return run_call(program, call, where, ORIGINAL, adapt=adapt)


def run_again(request: Compare | CompareOnDevice, agreed: Sequence[Compared], where: Where) -> Again:
    """Run the candidate again, unless this lane has done so for the same host function."""
    repeatable = [one for one in agreed if _is_repeatable(one)]
    if not repeatable:
        skipped = "skipped: the call takes no tensors whose values could be changed"
        return Again(((ORDER, skipped), (KEPT, skipped)))
    several = any(_programs(one) > 1 for one in repeatable)
    one = repeatable[0]
    key = identity(
        digest_of(request.original), digest_of(request.candidate), one.call.file, one.candidate_call.function, several
    )
    if key not in _known:
        _known[key] = _run_again(request, repeatable, where)
    return _known[key]


def _run_again(request: Compare | CompareOnDevice, agreed: list[Compared], where: Where) -> Again:
    first, second = _pair(request, agreed, where)
    call, other = first.candidate_call, second.candidate_call
    doubt = _Twice(request.candidate, where, CANDIDATE, other, _budget(first, second)).doubt(
        call, first.got, second.got
    )
    order = "passed" if _programs(first) > 1 else "skipped: no launch has two programs"
    if not doubt.text:
        return Again(((ORDER, order), (KEPT, "passed")))
    own = _of_original(request.original, first, second, where)
    if own.check == doubt.check:
        note = f"The original itself does not pass the check of {doubt.check}: {own.text}"
        checks = {ORDER: order, KEPT: "passed", doubt.check: "skipped: the original itself does not pass it"}
        return Again(tuple(checks.items()), notes=(note,))
    checks = {ORDER: order, KEPT: "passed", doubt.check: f"failed: {doubt.text}"}
    return Again(tuple(checks.items()), doubt, first.index)


def _of_original(program: Program, first: Compared, second: Compared, where: Where) -> Doubt:
    key = identity(digest_of(program), first.call, second.call)
    if key not in _originals:
        twice = _Twice(program, where, ORIGINAL, second.call, _budget(first, second))
        wants = [first.want, second.want]
        if second.index < 0:  # it was made for the candidate alone
            try:
                wants[1] = run_call(program, second.call, where, ORIGINAL)
            except RunFailed as error:
                return Doubt(KEPT, str(error))
        _originals[key] = twice.doubt(first.call, *wants)
    return _originals[key]


def _budget(*runs: Compared) -> float:
    return max(_WAITS_S, _WAITS_TIMES * sum(run.outcome.seconds for run in runs))


def _programs(one: Compared) -> int:
    return one.got.seen.programs if one.got.seen is not None else 0


def _is_repeatable(one: Compared) -> bool:
    values = [*one.candidate_call.arguments, *(v for _, v in one.candidate_call.keywords)]
    return any(t.elements for value in values for t in _tensors(value))


def _pair(request: Compare | CompareOnDevice, agreed: list[Compared], where: Where) -> tuple[Compared, Compared]:
    """Choose a cheap input with several programs, and another of the same shapes with other values and results."""
    ranked = sorted(agreed, key=lambda one: (-min(_programs(one), _SEVERAL), not _is_finite(one), one.outcome.seconds))
    forms = [_form(one.candidate_call) for one in ranked]
    for i, one in enumerate(ranked):
        if _programs(one) < min(_programs(ranked[0]), _SEVERAL):
            break
        for j, other in enumerate(ranked):
            if i != j and forms[i] == forms[j] and not identical(one.got, other.got):
                return one, other
    one = ranked[0]
    seed = one.call.seed + _SEED
    call, other_call = (dataclasses.replace(c, seed=seed) for c in (one.call, one.candidate_call))
    try:
        got = run_call(request.candidate, other_call, where, CANDIDATE)
    except RunFailed:
        return one, one
    return one, dataclasses.replace(one, index=-1, call=call, candidate_call=other_call, got=got)


def _is_finite(one: Compared) -> bool:
    tensors = [t for t in one.got.tensors.values() if t.dtype.is_floating_point]
    return all(bool(torch.isfinite(t.float()).all()) for t in tensors)


def _form(call: Call) -> str:
    """Return what two calls have in common that differ in their values only."""
    arguments = tuple(_without_values(v) for v in call.arguments)
    keywords = tuple((n, _without_values(v)) for n, v in call.keywords)
    return identity(dataclasses.replace(call, id="", seed=0, launches=(), arguments=arguments, keywords=keywords))


def _without_values(value: Value) -> Value:
    if isinstance(value, Tensor):
        return dataclasses.replace(value, values=Distribution())
    if isinstance(value, Items):
        return dataclasses.replace(value, items=tuple(_without_values(v) for v in value.items))
    if isinstance(value, Entries):
        return dataclasses.replace(value, items=tuple((n, _without_values(v)) for n, v in value.items))
    return value


def _tensors(value: Value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Items):
        return [t for item in value.items for t in _tensors(item)]
    if isinstance(value, Entries):
        return [t for _, item in value.items for t in _tensors(item)]
    return []


@dataclass
class _Twice:
    """A run of two calls: `other` in the memory of the first."""

    program: Program
    where: Where
    poison: Poison
    other: Call
    seconds: float
    _rebuilt: Rebuilt | None = None
    _first: Outputs = field(default_factory=Outputs)
    _launches: int = 0
    _shared: bool = False
    _atomics: bool = False

    def doubt(self, call: Call, want: Outputs, want_other: Outputs) -> Doubt:
        """Run `call` and then the other, and say what is wrong where they leave anything but what is wanted."""
        try:
            second = run_call(self.program, call, self.where, self.poison, prepare=self._prepare, adapt=self._adapt)
        except RunFailed as error:
            return Doubt(ORDER, f"when programs run in another order, or a second time, it fails: {error}")
        launched, launched_other = self._launches, second.launches - self._launches
        fewer = Doubt(KEPT, "a repeated call launches fewer kernels: it returns a result that was kept")
        if want.launches and not launched:  # no program ran, in whatever order
            return fewer
        text = self._differs(want, self._first)
        if text:
            return Doubt(ORDER, f"the result depends on the order in which programs run: {text}")
        if launched < want.launches or launched_other < want_other.launches:
            return fewer
        if self._shared:
            return Doubt(KEPT, "a call returns memory that an earlier one has returned")
        second.launches = launched_other
        text = self._differs(want_other, second)
        if not text:
            return Doubt()
        alone = self._alone("reverse")
        if alone is None or self._differs(want_other, alone):
            return Doubt(ORDER, f"the result depends on the order in which programs run: {text}")
        return Doubt(KEPT, f"with other values in the same memory, a result of before is returned: {text}")

    def _differs(self, want: Outputs, got: Outputs) -> str:
        """Compare two runs of a program: to the last bit, or to the rounding of sums that atomics leave unordered."""
        got = dataclasses.replace(got, changed=want.changed, overwrites=want.overwrites)
        if identical(want, got):
            return ""
        problem = compare_outputs(want, got, Tolerance()).problem
        return problem or ("" if self._atomics else "it differs in its last bits")

    def _alone(self, order: Order) -> Outputs | None:
        def adapt(repeated: Runnable) -> Runnable:
            def run(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
                current_run().order = order
                current_run().deadline = time.monotonic() + self.seconds
                return repeated.run(arguments, keywords)

            return dataclasses.replace(repeated, run=run)

        try:
            return run_call(self.program, self.other, self.where, self.poison, adapt=adapt)
        except RunFailed:
            return None

    def _prepare(self, rebuilt: Rebuilt, _shadow: Any) -> None:
        self._rebuilt = rebuilt

    def _adapt(self, repeated: Runnable) -> Runnable:
        def run(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            now = current_run()
            now.order, now.deadline = "shuffled", time.monotonic() + self.seconds
            result = repeated.run(arguments, keywords)
            returned = self._note(result)
            self._launches = self._first.launches = len(now.launches)
            copies = [t.clone() for t in returned]
            with torch._C.DisableTorchFunction():
                self._refill(repeated.names)
            seed_everything(self.other.seed)
            now.order = "reverse"
            result = repeated.run(arguments, keywords)
            self._atomics = now.atomics
            with torch._C.DisableTorchFunction():
                self._shared |= any(not torch.equal(_raw(a), _raw(b)) for a, b in zip(returned, copies, strict=True))
                self._shared |= bool(_storages(returned) & _storages(self._own(result)))
            return result

        return dataclasses.replace(repeated, run=run)

    def _note(self, result: Any) -> list[Any]:
        assert self._rebuilt is not None
        with torch._C.DisableTorchFunction():
            found = {p: t for p, t in flatten(result, "returned") if isinstance(t, torch.Tensor)}
            self._first = Outputs(poison=self.poison)
            for path, tensor in {**found, **self._rebuilt.tensors}.items():
                self._first.tensors[path] = tensor.detach().clone(memory_format=torch.preserve_format)
            for path, leaf in flatten(result, "returned"):
                if isinstance(leaf, (int, float, str, bool, bytes)):
                    self._first.values[path] = leaf
            own = self._own(result)
            self._shared = earlier_of(load(self.program).digest).has_any_of(own)
            return own

    def _own(self, result: Any) -> list[Any]:
        """Return the returned tensors in memory of their own, which is not an argument's."""
        assert self._rebuilt is not None
        given = _storages(list(self._rebuilt.tensors.values()))
        found = [t.detach() for _, t in flatten(result, "returned") if isinstance(t, torch.Tensor)]
        return [t for t in found if t.layout == torch.strided and not _storages([t]) & given]

    def _refill(self, names: tuple[str, ...]) -> None:
        """Put the other call's values where the first call's are, as a kernel would: no tensor's version counts it."""
        assert self._rebuilt is not None
        other = rebuild(
            self.other,
            device=self.where.device,
            names=names,
            fill_unset=self.poison.fill,
            fill_gaps=self.poison.between,
            main=load(self.program).module,
        )
        for mine, theirs in zip(self._rebuilt.memories, other.memories, strict=True):
            if mine[2] - mine[1] != theirs[2] - theirs[1]:
                raise JobFailed("internal", "Two calls of one form have arguments of different sizes.")
            ctypes.memmove(mine[0].data_ptr() + mine[1], theirs[0].data_ptr() + theirs[1], mine[2] - mine[1])


def _storages(tensors: list[Any]) -> set[int]:
    return {int(t.untyped_storage().data_ptr()) for t in tensors if t.numel()}


def _raw(tensor: Any) -> Any:
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor
