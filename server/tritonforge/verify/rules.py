"""What a candidate's text may not add: library calls, state, side effects, unmasked accesses and 32-bit offsets.

Pure functions over source. A candidate is judged by what it adds to the original: whatever the original does itself is
no fault of the candidate's.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tritonforge.analysis import analyze
from tritonforge.domain.kernel import Access, Kernel
from tritonforge.verify.events import Event, events
from tritonforge.verify.host_code import File, read_file
from tritonforge.verify.loop_ends import within_ends
from tritonforge.verify.offsets import narrowed_offset

_DIVIDES = re.compile(r"%[^=]*==\s*0\b")


@dataclass(frozen=True)
class DroppedMask:
    """An access that the original masks and the candidate does not; `line` is the candidate's."""

    kernel: str
    parameter: str
    kind: str
    line: int

    @property
    def sentence(self) -> str:
        """What is wrong with it, unless something shows that it stays within bounds."""
        return (
            f"line {self.line}: the candidate {self.kind}s {self.parameter} without the mask that the original has, "
            "and nothing shows that it stays within bounds"
        )


def broken_rule(original: str, candidate: str, hosts: Iterable[str], tensors: Iterable[str] = ()) -> str:
    """Return in one sentence, with its line, what a candidate's text adds and must not; empty when nothing.

    Args:
        original: the original's text.
        candidate: the candidate's.
        hosts: qualified names of the host functions through which both are called; may be empty for direct launches.
        tensors: parameters of the host functions that are tensors.
    """
    before, after = read_file(original), read_file(candidate)
    if after is None:
        return "the candidate is no Python"
    names, known = tuple(hosts), tuple(tensors)
    had = Counter(_keys(events(before, names, known))) if before is not None else Counter()
    added: list[Event] = []
    seen: Counter[str] = Counter()
    found = events(after, names, known)
    totals = Counter(_keys(found))
    for event in sorted(found, key=lambda one: one.line):
        seen[event.what] += 1
        if totals[event.what] > had[event.what] and not _stands_in(event, after, before):
            added.append(event)
    if not added:
        # The same text more often than before: the last of them is as good as any.
        added = [e for e in found if totals[e.what] > had[e.what]][-1:]
    if added:
        return f"line {added[0].line}: the candidate {added[0].what}"
    narrowed = narrowed_offset(before, after) if before is not None else None
    if narrowed is None:
        return ""
    line, pointer = narrowed
    return f"line {line}: the candidate computes the offset of {pointer} in 32 bits, where the original uses 64"


def _keys(found: Sequence[Event]) -> list[str]:
    return [event.what for event in found]


def _stands_in(event: Event, after: File, before: File | None) -> bool:
    """Tell whether an event's line of text is one of the original's too."""
    if before is None:
        return False
    return after.text.lines[event.line - 1].strip() in {line.strip() for line in before.text.lines}


def dropped_masks(original: str, candidate: str, file: str = "") -> tuple[DroppedMask, ...]:
    """Return the accesses that lost their mask and that neither a divisibility test nor a loop's end guards.

    Loads and stores are matched by parameter; a parameter that the original does not have is matched to all of them.
    """
    before = {kernel.name: kernel for kernel in analyze(original, file).kernels}
    found: list[DroppedMask] = []
    module = read_file(candidate)
    for kernel in analyze(candidate, file).kernels:
        rivals = [before[kernel.name]] if kernel.name in before else list(before.values())
        parameters = {p.name for rival in rivals for p in rival.parameters}
        for access in kernel.accesses:
            if access.mask is not None or access.block is False or access.pointer is None:
                continue
            same = [
                other
                for rival in rivals
                for other in rival.accesses
                if other.kind == access.kind and (other.pointer == access.pointer or access.pointer not in parameters)
            ]
            if same and all(other.mask is not None for other in same):
                line = access.range.start.line
                masks = [other.mask for other in same]
                if module is None or not (_is_guarded(kernel, access, module) or _ends_before(module, line, masks)):
                    found.append(DroppedMask(kernel.name, access.pointer, access.kind, line))
    return tuple(found)


def _ends_before(module: File, line: int, masks: Sequence[str | None]) -> bool:
    """Tell whether the loops around a line end before any of the masks that the original has there would say no."""
    around = [jit.node for jit in module.jits.values() if jit.node.lineno <= line <= (jit.node.end_lineno or 0)]
    return bool(around) and within_ends(around[-1], line, masks)


def _is_guarded(kernel: Kernel, access: Access, module: File) -> bool:
    """Tell whether the access stands under an `if` on a constexpr that says that a tile divides a size."""
    flags = _divisibility_flags(kernel, module)
    line = access.range.start.line
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.If) or not any(
            one.lineno <= line <= (one.end_lineno or one.lineno) for one in node.body
        ):
            continue
        test = node.test
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        if any(isinstance(part, ast.Name) and part.id in flags for part in parts):
            return True
    return False


def _divisibility_flags(kernel: Kernel, module: File) -> set[str]:
    """Return the constexprs that every launch, or a heuristic, sets to `something % tile == 0`."""
    constexprs = {p.name for p in kernel.parameters if p.constexpr}
    flags: set[str] = set()
    for jit in module.jits.values():
        if jit.name != kernel.name:
            continue
        for decorator, _ in jit.decorators():
            for node in ast.walk(decorator):
                if isinstance(node, ast.Dict):
                    flags |= {
                        str(key.value)
                        for key, value in zip(node.keys, node.values, strict=True)
                        if isinstance(key, ast.Constant) and _DIVIDES.search(ast.unparse(value))
                    }
    texts: dict[str, list[str]] = {}
    for site in kernel.launch_sites:
        for name, value in site.constexprs:
            texts.setdefault(name, []).append(value.text)
    flags |= {name for name, values in texts.items() if values and all(_DIVIDES.search(text) for text in values)}
    return flags & constexprs
