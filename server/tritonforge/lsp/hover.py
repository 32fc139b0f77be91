"""Hover: the summary of a kernel on its name, evidence on a finding, machine instructions on a compiled line."""

from __future__ import annotations

from lsprotocol import types

from tritonforge.backend.facts import KernelFacts, LaunchFacts
from tritonforge.config import Settings
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.source import Position, Range
from tritonforge.lsp import summary
from tritonforge.lsp.diagnostics import Shown, findings_of
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Facts, is_fresh
from tritonforge.lsp.line_facts import line_facts
from tritonforge.lsp.moving import moved_line
from tritonforge.lsp.plain_text import plain
from tritonforge.report import wording

_ROWS = 8
_HOT = 3
_STALLS = 3
_WORKING = frozenset({"selected", "not_selected"})


def hover(
    snapshot: Snapshot, facts: Facts, settings: Settings, where: types.Position, *, markdown: bool = True
) -> types.Hover | None:
    """Return what there is to say about a place, None where that is nothing; without `markdown` as plain text."""
    found = _hover(snapshot, facts, settings, where)
    if found is not None and not markdown and isinstance(found.contents, types.MarkupContent):
        found.contents = types.MarkupContent(types.MarkupKind.PlainText, plain(found.contents.value))
    return found


def _hover(snapshot: Snapshot, facts: Facts, settings: Settings, where: types.Position) -> types.Hover | None:
    position = snapshot.positions.from_client(where)
    for kernel in snapshot.analysis.kernels:
        named = _named_at(kernel, position)
        if named is not None:
            return _markdown(_kernel(kernel, snapshot, facts), snapshot, named)
    for kernel in snapshot.analysis.kernels:
        if kernel.range.start.line <= position.line <= kernel.range.end.line:
            parts = _line(kernel, position.line, snapshot, facts, settings)
            if parts:
                return _markdown("\n\n---\n\n".join(parts), snapshot, None)
    return None


def _named_at(kernel: Kernel, position: Position) -> Range | None:
    """Return the range of the kernel's name when `position` is on it: at its definition or where it is launched."""
    names = [kernel.name_range]
    for site in kernel.launch_sites:
        start = site.range.start
        names.append(Range(start, Position(start.line, start.column + len(kernel.simple_name))))
    for name in names:
        if name.start <= position <= name.end:
            return name
    return None


def _markdown(text: str, snapshot: Snapshot, where: Range | None) -> types.Hover:
    return types.Hover(
        types.MarkupContent(types.MarkupKind.Markdown, text), snapshot.positions.range(where) if where else None
    )


def _kernel(kernel: Kernel, snapshot: Snapshot, facts: Facts) -> str:
    known = facts.of(snapshot.uri, kernel.name)
    head = f"**{_plain(kernel.name)}**"
    if known is None or known.first is None:
        shape = ", ".join(
            wording.plural(count, noun)
            for count, noun in (
                (len(kernel.loops), "loop"),
                (sum(a.kind == "load" for a in kernel.accesses), "load"),
                (sum(a.kind == "store" for a in kernel.accesses), "store"),
                (len(kernel.dots), "dot"),
                (len(kernel.reductions), "reduction"),
                (len(kernel.atomics), "atomic"),
                (len(kernel.launch_sites), "launch site"),
            )
            if count
        )
        tiles = f"; tunable: {', '.join(kernel.tiles)}" if kernel.tiles else ""
        return (
            f"{head}: {shape or 'nothing to measure'}{tiles}.\n\n*Profile* it to see its time and what holds it back."
        )
    fresh = is_fresh(known, kernel)
    rows = _rows(known, known.first, snapshot)
    offer = facts.offered(snapshot.uri, kernel.name)
    if offer is not None and offer.edits_for(snapshot) is not None:
        # First: an editor cuts a long hover at its end, and this is the row that can be acted on.
        rows.insert(
            0, ("Suggestion", f"{offer.suggestion.trial.candidate.title}: {summary.verified(offer.suggestion)}")
        )
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {_cell(value)} |" for name, value in rows)])
    stale = "" if fresh else "\n\n*Stale: the code has changed since.*"
    words = facts.explained(snapshot.uri, kernel)
    told = f"\n\n*In a language model's words:* {_plain(words)}" if words else ""
    return f"{head} on {_plain(known.target)}\n\n{table}{stale}{told}"


def _rows(known: KernelFacts, first: LaunchFacts, snapshot: Snapshot) -> list[tuple[str, str]]:
    rows = []
    if first.time_us is not None:
        spread = f" ({wording.time_range_us(first.interval)})" if first.interval else ""
        rows.append(("Time", f"**{wording.time_us(first.time_us)}** {first.provenance}{spread}"))
    if first.doubt is not None:
        rows.append(("Doubt", first.doubt))
    if first.fraction is not None:
        rows.append(("Roofline", f"{wording.percent(first.fraction)} of the {first.bound} roof"))
    if first.bottleneck is not None:
        rows.append(("Bottleneck", f"{first.bottleneck.kind}: {first.bottleneck.reason}"))
    stalls = sorted(((s, n) for n, s in first.heat.stalls.items() if n not in _WORKING), reverse=True)[:_STALLS]
    if stalls:
        said = ", ".join(f"{name.replace('_', ' ')} {wording.percent(share)}" for share, name in stalls)
        rows.append(("Stalls", f"{said} ({first.counters.source})" if first.counters else said))
    hot = sorted(((heat.share, line) for line, heat in first.heat.lines.items()), reverse=True)[:_HOT]
    moved = [(share, now) for share, old in hot if (now := moved_line(old, known.text, snapshot.text)) is not None]
    if moved:
        said = ", ".join(f"line {now} {wording.percent(share)}" for share, now in moved)
        rows.append(("Hot lines", said if first.heat.provenance == "measured" else f"{said} ({first.heat.provenance})"))
    if known.findings:
        said = ", ".join(f"{finding.code} {finding.name}" for finding in known.findings[:_HOT])
        rows.append(("Findings", said))
    compiled = first.compilation
    if compiled is not None and compiled.error:
        rows.append(("Compiler", compiled.error.splitlines()[0][:300]))
    if compiled is not None and compiled.resources is not None:
        used = compiled.resources
        spills = f", {wording.size(used.spill_bytes)} spilled a thread" if used.spill_bytes else ""
        shared = f"{wording.size(used.shared_bytes)} of shared memory a program"
        rows.append(("Resources", f"{used.registers} registers a thread{spills}, {shared}"))
    if compiled is not None and compiled.occupancy is not None:
        rows.append(
            ("Occupancy", f"{wording.percent(compiled.occupancy.fraction)}, limited by {compiled.occupancy.limiter}")
        )
    rows.append(("Launch", wording.problem(first.launch)))
    config = wording.config(first.launch.config)
    rows.append(("Config", f"{config}, grid {wording.grid(first.launch)}" if config else wording.grid(first.launch)))
    if len(known.launches) > 1:
        rows.append(("", f"and {wording.plural(len(known.launches) - 1, 'more launch')}"))
    return rows


def _line(kernel: Kernel, line: int, snapshot: Snapshot, facts: Facts, settings: Settings) -> list[str]:
    parts = [
        _finding(one) for one in findings_of(snapshot, facts, settings, kernel) if one.finding.range.start.line == line
    ]
    known = facts.of(snapshot.uri, kernel.name)
    if known is not None and known.first is not None:
        old = _line_before(known, line, snapshot)
        done = line_facts(known.first, old, fresh=is_fresh(known, kernel)) if old is not None else ""
        if done:
            parts.append(done)
    if known is not None and is_fresh(known, kernel):
        instructions = _instructions(known, line, snapshot)
        if instructions:
            parts.append(instructions)
    return parts


def _line_before(known: KernelFacts, line: int, snapshot: Snapshot) -> int | None:
    """Return which line of the text that the facts were found in stands at `line` now."""
    return moved_line(line, snapshot.text, known.text)


def _finding(one: Shown) -> str:
    finding = one.finding
    head = f"**{finding.code} {finding.name}**" + (" *(stale: the code has changed since)*" if one.stale else "")
    rows = [
        f"| {name.replace('_', ' ')} | {_cell(wording.evidence(fact))} | {fact.provenance} |"
        for name, fact in list(finding.evidence.items())[:_ROWS]
    ]
    table = "\n".join(["", "", "| | | |", "| --- | ---: | --- |", *rows]) if rows else ""
    gain = f"\n\nLikely gain: {wording.factor(finding.estimated_gain)}" if finding.estimated_gain else ""
    return f"{head}: {_plain(finding.message)}{gain}{table}"


def _instructions(known: KernelFacts, line: int, snapshot: Snapshot) -> str:
    first = known.first
    if first is None or first.compilation is None:
        return ""
    for old, counted in first.compilation.instructions.items():
        if counted.total and moved_line(old, known.text, snapshot.text) == line:
            kinds = sorted(((n, kind) for kind, n in counted.instructions.items() if n), reverse=True)
            listed = ", ".join(f"{n} {kind.replace('_', ' ')}" for n, kind in kinds[:_ROWS])
            return f"{wording.plural(counted.total, 'machine instruction')} ({first.compilation.arch}): {listed}"
    return ""


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|").replace("\n", " ").replace("\\*\\*", "**")


def _plain(text: str) -> str:
    r"""Escape what Markdown would take for emphasis (as in `__init__`), a link or a picture."""
    for sign in "\\_*`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("<", "&lt;").replace("](", "]\\(")
