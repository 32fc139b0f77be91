"""Inlay hints: behind each hot line of a kernel its share of the time and, where it was sampled, why warps wait."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from tritonforge.backend.facts import KernelFacts, LaunchFacts
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.profile import LineHeat
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Facts, is_fresh
from tritonforge.lsp.line_facts import line_facts
from tritonforge.lsp.moving import moved_line
from tritonforge.report import wording
from tritonforge.report.text_source import dominant_stall

HOT = 0.05
"""Share of the time from which a line gets a hint."""
_MOST = 12


def inlay_hints(snapshot: Snapshot, facts: Facts, within: types.Range | None = None) -> list[types.InlayHint]:
    """Return the hints of a snapshot, those `within` a range of lines where one is given.

    A line that was changed since has none; the others keep theirs, marked as stale, while the kernel's code differs.
    """
    hints: list[types.InlayHint] = []
    for kernel in snapshot.analysis.kernels:
        known = facts.of(snapshot.uri, kernel.name)
        if known is not None and known.first is not None:
            hints += _of_kernel(kernel, known, known.first, snapshot)
    if within is None:
        return hints
    return [hint for hint in hints if within.start.line <= hint.position.line <= within.end.line]


def _of_kernel(kernel: Kernel, known: KernelFacts, first: LaunchFacts, snapshot: Snapshot) -> Iterator[types.InlayHint]:
    fresh = is_fresh(known, kernel)
    hot = sorted(first.heat.lines.items(), key=lambda item: -item[1].share)[:_MOST]
    for old, heat in sorted(hot):
        now = moved_line(old, known.text, snapshot.text) if heat.share >= HOT else None
        if now is None or not kernel.range.start.line <= now <= kernel.range.end.line:
            continue
        yield types.InlayHint(
            position=snapshot.positions.whole_line(now).end,
            label=_label(heat, measured=first.heat.provenance == "measured", fresh=fresh),
            padding_left=True,
            tooltip=types.MarkupContent(types.MarkupKind.Markdown, line_facts(first, old, fresh=fresh)),
        )


def _label(heat: LineHeat, *, measured: bool, fresh: bool) -> str:
    """`41 % · long scoreboard`; a share that a model gave says so, and one that was found before an edit too."""
    parts = [wording.percent(heat.share) if measured else f"~{wording.percent(heat.share)} predicted"]
    stall = dominant_stall(heat)
    if stall is not None:
        parts.append(stall[0])
    if not fresh:
        parts.append("stale")
    return " · ".join(parts)
