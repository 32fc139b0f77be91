"""Code actions: optimise, apply what was verified, silence a finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from tritonforge.analysis import decode_source
from tritonforge.domain.kernel import Kernel
from tritonforge.lsp import names, summary
from tritonforge.lsp.client import Client
from tritonforge.lsp.code_lens import Ways, run_to_record
from tritonforge.lsp.diagnostics import SOURCE
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Facts, Offer
from tritonforge.lsp.positions import PositionedText
from tritonforge.report import wording
from tritonforge.workload.index import Way

REWRITE, QUICK_FIX = types.CodeActionKind.RefactorRewrite, types.CodeActionKind.QuickFix
MOST_OFFERED = 3
MENDED = frozenset(["TF501", "TF502", "TF503", "TF504", "TF505", "TF601"])
"""Findings that may have a mend."""
Action = types.CodeAction | types.Command


def code_actions(
    snapshot: Snapshot, facts: Facts, client: Client, params: types.CodeActionParams, ways: Ways, *, trusted: bool
) -> list[Action]:
    """Return what can be done at a range."""
    actions: list[types.CodeAction] = []
    for kernel in _kernels_at(snapshot, params.range):
        offer = facts.offered(snapshot.uri, kernel.name)
        edits = offer.edits_for(snapshot) if offer else None
        mine = [d for d in params.context.diagnostics if d.source == SOURCE and _speaks_of(d, kernel)]
        if offer is not None and edits is not None:
            if mine:
                actions.append(_apply(offer, snapshot, client, QUICK_FIX, mine))
            actions.append(_apply(offer, snapshot, client, REWRITE))
            if trusted and client.can.applies_edits and offer.portable_edits_for(snapshot) is not None:
                actions.append(_keep_portable(offer, snapshot))
        elif trusted and snapshot.path is not None:
            actions += [
                _optimize(f"Optimize kernel {kernel.name} to treat {d.code}", kernel, snapshot, QUICK_FIX, [d])
                for d in mine
            ]
        if trusted and snapshot.path is not None:
            actions.append(_optimize(f"Optimize kernel {kernel.name}", kernel, snapshot, REWRITE))
            actions += _record(kernel, snapshot, ways.get(kernel.name, ()))
            actions += _pin(kernel, snapshot, facts)
        actions += [mend for d in mine for mend in _mends(d, kernel, snapshot, client)]
        actions += [_ignore(d, snapshot, client) for d in mine]
    wanted = [action for action in actions if _wanted(action.kind, params.context.only)]
    if client.can.action_literals:
        return list(wanted)
    # An old client takes commands only: those that carry an edit are left out, the command says the same.
    return [action.command for action in wanted if action.command is not None]


def resolve(action: types.CodeAction, snapshot: Snapshot | None, facts: Facts, client: Client) -> types.CodeAction:
    """Fill in the edit of an action."""
    data = action.data if isinstance(action.data, dict) else {}
    offer = facts.offered(str(data.get("uri")), str(data.get("kernel")))
    if snapshot is not None and offer is not None and offer.id == data.get("suggestion"):
        action.edit = edit_of(offer, snapshot, client)
    return action


def edit_of(offer: Offer, snapshot: Snapshot, client: Client) -> types.WorkspaceEdit | None:
    """Return the edit of a suggestion for the document as it is now, None when the code has changed."""
    edits = offer.edits_for(snapshot)
    if edits is None:
        return None
    documents = [(snapshot.uri, snapshot.version, [snapshot.positions.edit(edit) for edit in edits])] if edits else []
    for file, verified in offer.others:
        path = snapshot.root / file
        text, version = client.opened(path.as_uri()) or (_on_disk(path), None)
        if text != verified:
            return None  # what the verdict speaks of is no longer there
        positions = PositionedText(verified, snapshot.positions.encoding)
        elsewhere = [edit for edit in offer.suggestion.trial.candidate.edits if edit.file == file]
        documents.append((path.as_uri(), version, [positions.edit(edit) for edit in elsewhere]))
    return client.edits_of(documents)


def _on_disk(path: Path) -> str | None:
    try:
        return decode_source(path.read_bytes())[0]
    except OSError:
        return None


def _kernels_at(snapshot: Snapshot, where: types.Range) -> list[Kernel]:
    """Return the kernels whose lines, or whose launches, the range touches."""
    first, last = where.start.line + 1, where.end.line + 1

    def touched(start: int, end: int) -> bool:
        return start <= last and first <= end

    return [
        kernel
        for kernel in snapshot.analysis.kernels
        if touched(kernel.range.start.line, kernel.range.end.line)
        or any(touched(site.range.start.line, site.range.end.line) for site in kernel.launch_sites)
    ]


def _speaks_of(diagnostic: types.Diagnostic, kernel: Kernel) -> bool:
    data: Any = diagnostic.data
    if isinstance(data, dict) and "kernel" in data:  # a client may drop `data`
        return bool(data["kernel"] == kernel.name)
    return kernel.range.start.line <= diagnostic.range.start.line + 1 <= kernel.range.end.line


def _wanted(kind: types.CodeActionKind | str | None, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    name = _kind(kind)
    return only is None or any(not _kind(k) or name == _kind(k) or name.startswith(f"{_kind(k)}.") for k in only)


def _kind(kind: types.CodeActionKind | str | None) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind or ""


def _apply(
    offer: Offer,
    snapshot: Snapshot,
    client: Client,
    kind: types.CodeActionKind,
    diagnostics: list[types.Diagnostic] | None = None,
) -> types.CodeAction:
    title = offer.suggestion.trial.candidate.title
    verdict = offer.suggestion.trial.verdict
    inputs = f", verified on {len(verdict.tried)} inputs" if verdict else ""
    if verdict is not None and verdict.worst_error is not None:
        inputs += f", worst error {wording.error(verdict.worst_error)}"
    gain = f"{summary.gain(offer.suggestion)[:-1]}{inputs})".replace("x (", "x faster (", 1)
    return types.CodeAction(
        title=f"Apply {title}: {gain}",
        kind=kind,
        diagnostics=diagnostics,
        is_preferred=kind == QUICK_FIX or None,
        edit=None if client.can.resolves_actions else edit_of(offer, snapshot, client),
        data={"uri": snapshot.uri, "kernel": offer.kernel.name, "suggestion": offer.id},
    )


def _keep_portable(offer: Offer, snapshot: Snapshot) -> types.CodeAction:
    assert offer.portable is not None
    title = f"Keep {offer.kernel.simple_name} portable: {offer.portable.title} (verified before it is applied)"
    about = {"uri": snapshot.uri, "kernel": offer.kernel.name, "suggestion": offer.id}
    return types.CodeAction(
        title=title, kind=REWRITE, command=types.Command(title, names.KEEP_PORTABLE, arguments=[about])
    )


def _optimize(
    title: str,
    kernel: Kernel,
    snapshot: Snapshot,
    kind: types.CodeActionKind,
    diagnostics: list[types.Diagnostic] | None = None,
) -> types.CodeAction:
    about = {"uri": snapshot.uri, "kernel": kernel.name}
    return types.CodeAction(
        title=title,
        kind=kind,
        diagnostics=diagnostics,
        command=types.Command(title, names.OPTIMIZE, arguments=[about]),
    )


def _record(kernel: Kernel, snapshot: Snapshot, ways: Sequence[Way]) -> list[types.CodeAction]:
    """Offer to run what gets to the kernel: as long as no launch is known, nothing can be compiled or measured."""
    offered = [way for way in ways if way.alone][:MOST_OFFERED]
    return [
        types.CodeAction(
            title=f"Run {way.name} to record launches of {kernel.name}",
            kind=REWRITE,
            command=run_to_record(way, snapshot.uri, kernel),
        )
        for way in offered
    ]


def _pin(kernel: Kernel, snapshot: Snapshot, facts: Facts) -> list[types.CodeAction]:
    """Offer to make another launch the one that matters most."""
    known = facts.of(snapshot.uri, kernel.name)
    others = sorted(known.launches, key=lambda one: one.launch.rank)[1:] if known else []
    actions = []
    for one in others[:MOST_OFFERED]:
        title = f"Pin launch {summary.problem(one.launch)} of {kernel.name}"
        about = {"uri": snapshot.uri, "kernel": kernel.name, "launch": one.launch.id}
        command = types.Command(title, names.PIN, arguments=[about])
        actions.append(types.CodeAction(title=title, kind=REWRITE, command=command))
    return actions


def _mends(diagnostic: types.Diagnostic, kernel: Kernel, snapshot: Snapshot, client: Client) -> list[types.CodeAction]:
    """Return what mends a finding about correctness; nothing of it is verified, since other values are to come out."""
    if diagnostic.code not in MENDED:
        return []
    from tritonforge.rewrite.mends import mends  # late: with what it needs, it would double the time to start

    line = diagnostic.range.start.line + 1
    return [
        types.CodeAction(
            title=mend.label,
            kind=QUICK_FIX,
            diagnostics=[diagnostic],
            edit=client.edits(snapshot.uri, snapshot.version, [snapshot.positions.edit(edit) for edit in mend.edits]),
        )
        for mend in mends(str(diagnostic.code), line, kernel, snapshot.text, diagnostic.message)
    ]


def _ignore(diagnostic: types.Diagnostic, snapshot: Snapshot, client: Client) -> types.CodeAction:
    number = diagnostic.range.start.line
    line = snapshot.positions.line(number)
    end = types.Position(number, snapshot.positions.units(line.rstrip()))
    comment = types.TextEdit(types.Range(end, end), f"  # tritonforge: ignore[{diagnostic.code}]")
    return types.CodeAction(
        title=f"Ignore {diagnostic.code} on this line",
        kind=QUICK_FIX,
        diagnostics=[diagnostic],
        edit=client.edits(snapshot.uri, snapshot.version, [comment]),
    )
