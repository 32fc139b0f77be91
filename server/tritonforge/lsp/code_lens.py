"""Code lenses: one line above each kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lsprotocol import types

from tritonforge.backend.facts import KernelFacts, state_of
from tritonforge.domain.kernel import Kernel
from tritonforge.lsp import names, summary
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Facts, Offer, is_fresh
from tritonforge.lsp.jobs import Jobs
from tritonforge.workload.index import Way

Ways = Mapping[str, Sequence[Way]]
"""What could be run to see launches, by kernel; kernels whose launches are known have none."""


def code_lenses(
    snapshot: Snapshot, facts: Facts, jobs: Jobs, ways: Ways, *, trusted: bool, previews: bool = False
) -> list[types.CodeLens]:
    """Return the lenses of a snapshot; none in a workspace that is not trusted, where they could do nothing.

    `previews` says that the client can show a suggestion, and a kernel's report, beside the document.
    """
    if not trusted or snapshot.path is None:
        return []
    return [
        types.CodeLens(snapshot.positions.whole_line(kernel.range.start.line), command)
        for kernel in snapshot.analysis.kernels
        for command in _commands(kernel, snapshot, facts, jobs, ways.get(kernel.name, ()), previews=previews)
    ]


def _commands(
    kernel: Kernel, snapshot: Snapshot, facts: Facts, jobs: Jobs, ways: Sequence[Way], *, previews: bool
) -> list[types.Command]:
    about = {"uri": snapshot.uri, "kernel": kernel.name}
    job = jobs.about((snapshot.uri, kernel.name))
    if job is not None:
        return [
            _text(f"TritonForge: {job.verb} …"),
            types.Command("Cancel", names.CANCEL_JOB, arguments=[{"jobId": job.id}]),
        ]
    known, offer = facts.of(snapshot.uri, kernel.name), facts.offered(snapshot.uri, kernel.name)
    profile = types.Command("Profile", names.PROFILE, arguments=[about])
    commands = [profile, types.Command("Optimize", names.OPTIMIZE, arguments=[about])]
    if known is None:
        profile.title = "TritonForge: Profile"
        commands += [run_to_record(way, snapshot.uri, kernel) for way in ways if way.alone][:1]
    else:
        commands.insert(0, _text(_line(known, kernel, offer)))
        if previews:
            commands.append(types.Command("Report", names.REPORT, arguments=[about]))
    if offer is not None and offer.edits_for(snapshot) is not None:
        apply = f"Apply {summary.gain(offer.suggestion)}"
        this = {**about, "suggestion": offer.id}
        commands.append(types.Command(apply, names.APPLY, arguments=[this]))
        if previews:
            commands.append(types.Command("Show Diff", names.SHOW_SUGGESTION, arguments=[this]))
    return commands


def _line(known: KernelFacts, kernel: Kernel, offer: Offer | None) -> str:
    """Return what is known of a kernel; of one that a suggestion was applied to, what that was found to be."""
    fresh = is_fresh(known, kernel)
    if offer is not None and offer.applied == state_of(kernel):
        measured = known.first is not None and known.first.provenance == "measured"
        if not fresh or (offer.suggestion.provenance == "measured" and not measured):
            return summary.applied(offer.suggestion, known)
    return summary.one_line(known, fresh=fresh)


def run_to_record(way: Way, uri: str, kernel: Kernel) -> types.Command:
    """Return the command that runs something of the user's, to see launches; clicking it is the decision to run it."""
    about = {"uri": uri, "kernel": kernel.name, "file": way.file, "entry": way.entry.name}
    return types.Command(f"Run {way.short} to record launches", names.RECORD, arguments=[about])


def _text(title: str) -> types.Command:
    return types.Command(title, "")  # without a command, editors show the title as text
