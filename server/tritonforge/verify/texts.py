"""What a candidate's texts add to the original's, over all files in which they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tritonforge.analysis import analyze
from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Program
from tritonforge.verify.rules import DroppedMask, broken_rule, dropped_masks
from tritonforge.verify.signature import parameters_of, text_of


def broken(original: Program, candidate: Program, calls: Sequence[Call]) -> str:
    """Return in one sentence which rule about source a candidate breaks; empty when none."""
    for file, before, after in _changed(original, candidate):
        through = [call for call in calls if call.kernel_launch is None]
        own = [call for call in through if call.file == file]
        hosts = {call.function for call in own}
        if through and not own:
            # The calls are made elsewhere, through whatever launches kernels here.
            hosts = {site.host for kernel in analyze(before, file).kernels for site in kernel.launch_sites if site.host}
        tensors = {name for call in own for name in _tensors(original, call)}
        reason = broken_rule(before, after, hosts, tensors)
        if reason:
            return reason if file == candidate.file else f"{file}, {reason}"
    return ""


def without_masks(original: Program, candidate: Program) -> tuple[DroppedMask, ...]:
    """Return the accesses of a candidate that lost their mask, and that no test of its source guards."""
    return tuple(
        dropped
        for file, before, after in _changed(original, candidate)
        for dropped in dropped_masks(before, after, file)
    )


def _changed(original: Program, candidate: Program) -> Iterator[tuple[str, str, str]]:
    for file, after in candidate.overlays:
        before = text_of(original, file)
        if before is not None and before != after:
            yield file, before, after


def _tensors(program: Program, call: Call) -> Iterator[str]:
    positional = [parameter.name for parameter in parameters_of(program, call) if parameter.positional]
    named = [*zip(positional, call.arguments, strict=False), *call.keywords]
    yield from (name for name, value in named if isinstance(value, Tensor))
