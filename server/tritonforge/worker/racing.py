"""Run a call again and again on the same input, on a GPU: results must not vary, nor depend on what lies beside memory.

What surrounds each argument changes from run to run between two patterns, so that one loop shows both: runs of one
pattern that differ are a race, and the first runs of the two that differ have read beside a buffer.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compare, CompareOnDevice, Program
from tritonforge.worker.auditing import Again, Compared
from tritonforge.worker.calling import Runnable, identity, seed_everything
from tritonforge.worker.comparing import turn_of
from tritonforge.worker.interpreter.poison import CANDIDATE, ORIGINAL, Poison
from tritonforge.worker.loading import digest_of
from tritonforge.worker.outcomes import flatten, same_bits
from tritonforge.worker.rebuilding import GUARD, Rebuilt
from tritonforge.worker.repeating import RunFailed, Where, run_call
from tritonforge.worker.seen import BESIDE, NO_DOUBT, RACES, Doubt

_PATTERNS = (0xFF, 0x3C)
"""Bytes beside buffers: NaN in every float, and numbers near 1 or below (whole ones are -1, and far too large)."""
_LEAST, _MOST = 10, 200
_SECONDS = 0.5
_WIDER = 8.0
"""Where the original varies too, a candidate may vary so many times as far: few runs do not show how far at most."""
_originals: dict[str, Varied] = {}


@dataclass
class Varied:
    """What varied: by output, the largest difference between runs, and what the surroundings changed."""

    runs: int = 0
    moved: dict[str, float] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    beside: set[str] = field(default_factory=set)


def run_again(request: Compare | CompareOnDevice, agreed: Sequence[Compared], where: Where) -> Again:
    """Repeat both programs on the largest input, and on the smallest of another size, for about half a second each."""
    ranked = sorted(agreed, key=lambda one: one.got.n_bytes)
    chosen = [ranked[-1], *([ranked[0]] if ranked[0].got.n_bytes < ranked[-1].got.n_bytes else [])]
    notes: list[str] = []
    for one in chosen:
        seconds = _SECONDS / len(chosen)
        where.choose(turn_of(request, one.index))
        try:
            got = repeat(request.candidate, one.candidate_call, where, CANDIDATE, seconds)
        except RunFailed as error:
            return _refused(Doubt(RACES, f"it fails when it is repeated: {error}"), one.index)
        own = Varied() if not got.moved and not got.beside else _original(request.original, one.call, where, seconds)
        doubt = _doubt(got, own)
        if doubt.text:
            return _refused(doubt, one.index)
        notes += [f"The original's {path} varies from run to run by up to {by:.3g}" for path, by in own.moved.items()]
    return Again(((RACES, "passed"), (BESIDE, "passed")), notes=tuple(dict.fromkeys(notes)))


def _refused(doubt: Doubt, index: int) -> Again:
    checks = {RACES: "passed", BESIDE: "passed", doubt.check: f"failed: {doubt.text}"}
    return Again(tuple(checks.items()), doubt, index)


def _original(program: Program, call: Call, where: Where, seconds: float) -> Varied:
    key = identity(digest_of(program), dataclasses.replace(call, launches=(), id=""))
    if key not in _originals:
        try:
            _originals[key] = repeat(program, call, where, ORIGINAL, seconds)
        except RunFailed:
            _originals[key] = Varied()
    return _originals[key]


def _doubt(got: Varied, own: Varied) -> Doubt:
    for path, by in got.moved.items():
        if by > _WIDER * own.moved.get(path, 0.0):
            than = f", the original's by up to {own.moved[path]:.3g}" if path in own.moved else ""
            said = f"{path} varies from run to run: {got.times[path]} of {got.runs} runs differ by up to {by:.3g}{than}"
            return Doubt(RACES, said)
    for path in sorted(got.beside - set(got.moved) - own.beside - set(own.moved)):
        return Doubt(BESIDE, f"{path} depends on what lies beside the memory of the arguments: it reads out of bounds")
    return NO_DOUBT


def repeat(program: Program, call: Call, where: Where, poison: Poison, seconds: float) -> Varied:
    """Run a call at least ten times, and for about `seconds`, and compare what it leaves to the last bit.

    Raises:
        RunFailed: when the program fails or writes beside an argument's memory.
    """
    repeated = _Repeated(call.seed, where, seconds)
    run_call(program, call, where, poison, prepare=repeated.prepare, adapt=repeated.adapt)
    return repeated.varied


@dataclass
class _Repeated:
    seed: int
    where: Where
    seconds: float
    varied: Varied = field(default_factory=Varied)
    _rebuilt: Rebuilt | None = None
    _firsts: list[dict[str, Any]] = field(default_factory=list)

    def prepare(self, rebuilt: Rebuilt, _shadow: Any) -> None:
        self._rebuilt = rebuilt

    def adapt(self, repeated: Runnable) -> Runnable:
        def run(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            assert self._rebuilt is not None
            memories = self._rebuilt.memories
            with torch._C.DisableTorchFunction():
                saved = [whole.clone() for whole, _, _ in memories]
            started, clean, result = time.perf_counter(), True, None
            while self.varied.runs < _MOST:
                if self.varied.runs >= _LEAST and time.perf_counter() - started > self.seconds:
                    break
                pattern = _PATTERNS[self.varied.runs % len(_PATTERNS)]
                with torch._C.DisableTorchFunction():
                    for (whole, start, end), before in zip(memories, saved, strict=True):
                        whole.copy_(before)
                        _surround(whole, start, end, pattern)
                seed_everything(self.seed)
                result = repeated.run(arguments, keywords)
                self.where.finish()
                with torch._C.DisableTorchFunction():
                    clean = clean and all(_is_surrounded(*memory, pattern) for memory in memories)
                    self._meet(result)
                self.varied.runs += 1
            with torch._C.DisableTorchFunction():
                # What finds a write beside a buffer looks for what was there at first.
                for whole, start, end in memories if clean else ():
                    _surround(whole, start, end, GUARD)
            return result

        return dataclasses.replace(repeated, run=run)

    def _meet(self, result: Any) -> None:
        """Compare a run with the first of its pattern."""
        assert self._rebuilt is not None
        found = {p: t.detach() for p, t in flatten(result, "returned") if isinstance(t, torch.Tensor)}
        found.update({p: t.detach() for p, t in self._rebuilt.tensors.items()})
        found = {p: t for p, t in found.items() if t.layout == torch.strided and t.numel()}
        turn = self.varied.runs % len(_PATTERNS)
        if turn >= len(self._firsts):
            self._firsts.append({p: t.clone(memory_format=torch.preserve_format) for p, t in found.items()})
            if turn:
                self.varied.beside |= {p for p, t in found.items() if not _same(self._firsts[0].get(p), t)}
            return
        for path, tensor in found.items():
            first = self._firsts[turn].get(path)
            if not _same(first, tensor):
                self.varied.times[path] = self.varied.times.get(path, 0) + 1
                self.varied.moved[path] = max(self.varied.moved.get(path, 0.0), _gap(first, tensor))


def _same(first: Any, now: Any) -> bool:
    if first is None or first.shape != now.shape or first.dtype != now.dtype:
        return False
    return same_bits(first.contiguous(), now.contiguous())


def _gap(first: Any, now: Any) -> float:
    """Return the largest difference of two outputs; infinite where their forms, their NaN or their Inf differ."""
    if first is None or first.shape != now.shape or first.dtype != now.dtype:
        return float("inf")
    if first.dtype.is_complex:
        first, now = torch.view_as_real(first), torch.view_as_real(now)
    a, b = first.double(), now.double()
    finite = torch.isfinite(a) & torch.isfinite(b)
    unlike = ~finite & ~((a == b) | (torch.isnan(a) & torch.isnan(b)))
    if bool(unlike.any()):
        return float("inf")
    gap = float(torch.where(finite, (a - b).abs(), torch.zeros_like(a)).max())
    return max(gap, 5e-324)  # zeros of unlike sign differ in their bits alone


def _surround(whole: Any, start: int, end: int, pattern: int) -> None:
    whole[:start] = pattern
    whole[end:] = pattern


def _is_surrounded(whole: Any, start: int, end: int, pattern: int) -> bool:
    return not bool((whole[:start] != pattern).any()) and not bool((whole[end:] != pattern).any())
