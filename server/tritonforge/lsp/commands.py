"""Commands: each takes one object, begins a job at most, and answers at once."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.lsp import applying, batch, names, portable, suggestions, summary, target, verifying, work
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Offer
from tritonforge.lsp.jobs import Job
from tritonforge.lsp.state import State
from tritonforge.report import wording
from tritonforge.workload.index import Way

RUN, WRITE, USE = "Run", "Write a launch spec", "Use the old ones"
UNTRUSTED = "This workspace is not trusted, so nothing of it is compiled or run. Trust it to do that."
UNSAVED = "An untitled document can only be analysed. Save it as a file first."

Answer = dict[str, Any]
Command = Callable[[State, Mapping[str, Any]], Answer | Awaitable[Answer]]


def optimize(state: State, given: Mapping[str, Any]) -> Answer:
    """Search for a faster version of a kernel."""
    snapshot, kernel = _runnable(state, given)

    async def run(job: Job) -> str:
        allowed = await _may_run(state, snapshot, kernel, job, given)
        if allowed is None:
            return "Nothing was run"
        outcome = await work.optimize(state, snapshot, kernel, job, allow_run=allowed.own, way=allowed.way)
        offer = state.facts.offered(snapshot.uri, kernel.name)
        shown = job.document is None or state.snapshot(job.document) is not None
        if offer is not None and offer.id == job.id and shown:
            # The job is over; the question stays for as long as the user likes.
            state.in_background(applying.propose(state, snapshot.uri, offer))
        return outcome

    return _begin(state, run, f"Optimize {kernel.name}", (snapshot, kernel), verb="optimizing")


def profile(state: State, given: Mapping[str, Any]) -> Answer:
    """Say how long a kernel takes and what holds it back."""
    snapshot, kernel = _runnable(state, given)

    async def run(job: Job) -> str:
        allowed = await _may_run(state, snapshot, kernel, job, given)
        if allowed is None:
            return "Nothing was run"
        return await work.profile(state, snapshot, kernel, job, allow_run=allowed.own, way=allowed.way)

    return _begin(state, run, f"Profile {kernel.name}", (snapshot, kernel), verb="profiling")


def record(state: State, given: Mapping[str, Any]) -> Answer:
    """Run what is named (`file`, `entry`), else what the file offers, to record launches: the command is the decision.

    Where the file offers nothing, the user is asked about what other files do.
    """
    snapshot, kernel = _runnable(state, given)
    named = (_text(given, "file"), _text(given, "entry")) if "file" in given or "entry" in given else None

    async def run(job: Job) -> str:
        way = None
        if named is not None:
            ways = await state.ways(snapshot, kernel)
            way = next((way for way in ways if (way.file, way.entry.name) == named and way.alone), None)
            if way is None:
                raise UsageError(f"{named[1]} of {named[0]} does not run {kernel.name} any more.")
        elif not snapshot.analysis.entries:
            allowed = await _ask(state, snapshot, kernel, job)
            if allowed is None or allowed.way is None:
                return "Nothing was run"
            way = allowed.way
        return await work.record(state, snapshot, kernel, job, way)

    return _begin(state, run, f"Record launches of {kernel.name}", (snapshot, kernel), verb="recording launches")


def write_spec(state: State, given: Mapping[str, Any]) -> Answer:
    """Insert a first launch spec above a kernel."""
    snapshot, kernel = _kernel(state, given)

    async def run(_: Job) -> str:
        return await applying.write_spec(state, snapshot, kernel.name)

    return _begin(state, run, f"Write a launch spec for {kernel.name}", (snapshot, kernel))


def apply(state: State, given: Mapping[str, Any]) -> Answer:
    """Apply a suggestion."""
    snapshot, kernel, offer = _offered(state, given)

    async def run(_: Job) -> str:
        return await applying.apply(state, snapshot.uri, offer)

    return _begin(state, run, f"Apply to {kernel.name}", (snapshot, kernel))


def preview(state: State, given: Mapping[str, Any]) -> Answer:
    """Return the text that a suggestion leads to, to be shown beside the document."""
    snapshot, _, offer = _offered(state, given)
    try:
        return suggestions.preview(state, snapshot, offer)
    except UsageError as error:
        raise _wrong(str(error)) from error


async def verify(state: State, given: Mapping[str, Any]) -> Answer:
    """Judge another version of a kernel; with `jobId` alone, return the verdict of an earlier check."""
    if "jobId" in given:
        return state.verdicts.of(_text(given, "jobId"))
    snapshot, kernel = _runnable(state, given)
    try:
        candidate = await verifying.version(state, snapshot, kernel, given)
    except UsageError as error:
        raise _wrong(str(error)) from error

    async def run(job: Job) -> str:
        allowed = await _may_run(state, snapshot, kernel, job, given)
        if allowed is None:
            return "Nothing was run"
        verdict = await work.judge(state, snapshot, kernel, candidate, job, allow_run=allowed.own, way=allowed.way)
        return verifying.tell(state, kernel, job, verdict)

    return _begin(state, run, f"Verify {kernel.name}", (snapshot, kernel), verb="verifying")


def keep_portable(state: State, given: Mapping[str, Any]) -> Answer:
    """Apply a suggestion as one more choice of an autotuner, once that text has passed the gate, too."""
    snapshot, kernel, offer = _offered(state, given)
    _trusted(state)
    if offer.portable is None:
        raise _wrong(f"What was suggested for {kernel.name} cannot be left to @triton.autotune.")

    async def run(job: Job) -> str:
        return await portable.keep(state, snapshot, offer, job)

    return _begin(state, run, f"Keep {kernel.name} portable", (snapshot, kernel), verb="verifying")


def discard(state: State, given: Mapping[str, Any]) -> Answer:
    """Turn a suggestion down."""
    uri, kernel = _text(given, "uri"), _text(given, "kernel")
    return dict(suggestions.discard(state, uri, kernel, given.get("suggestion")))


def pin_launch(state: State, given: Mapping[str, Any]) -> Answer:
    """Make a launch the one that matters most (`null`: none of them); without `launch`, only say which there are."""
    snapshot, kernel = _kernel(state, given)
    known = state.facts.of(snapshot.uri, kernel.name)
    if known is None:
        raise _wrong(f"No launch of {kernel.name} has been looked at yet. Profile it first.")
    if "launch" not in given:
        ordered = sorted((one.launch for one in known.launches), key=lambda launch: launch.rank)
        return {"launches": [{"id": one.id, "text": summary.problem(one), "rank": one.rank} for one in ordered]}
    wanted = None if given["launch"] is None else _text(given, "launch")
    if wanted is not None and all(one.launch.id != wanted for one in known.launches):
        raise _wrong(f"{kernel.name} has no launch {wanted!r}.")

    async def run(_: Job) -> str:
        return await work.pin(state, snapshot, kernel, wanted)

    return _begin(state, run, f"Pin a launch of {kernel.name}", (snapshot, kernel))


def cancel_job(state: State, given: Mapping[str, Any]) -> Answer:
    """Cancel a job."""
    return {"cancelled": state.jobs.cancel(_text(given, "jobId"))}


def select_target(state: State, given: Mapping[str, Any]) -> Answer:
    """Choose the target that everything runs on from now on; without one, only say which there are."""
    settings = state.settings(target.root_of(state))
    known = ["auto", *settings.targets]
    if given.get("target") is not None:
        name = _text(given, "target")
        if name not in known:
            raise _wrong(f"There is no target {name!r}. Known: {', '.join(known)}.")
        if name != (state.options.target or settings.default_target):
            state.reconfigure(dataclasses.replace(state.options, target=name))
    name = state.options.target or settings.default_target
    return {"target": name, "targets": known, "details": target.details(settings)}


def restart(state: State, given: Mapping[str, Any]) -> Answer:  # noqa: ARG001 - every command takes an object
    """End jobs and workers, and read settings again; the next job begins anew."""
    state.reconfigure(state.options)
    return {}


def list_kernels(state: State, given: Mapping[str, Any]) -> Awaitable[Answer]:  # noqa: ARG001 - as above
    """List all kernels of the client's folders."""
    return state.kernels.answer(state)


def describe_target(state: State, given: Mapping[str, Any]) -> Awaitable[Answer]:  # noqa: ARG001 - as above
    """Say what is known of the target."""
    return target.describe(state, target.root_of(state))


async def doctor(state: State, given: Mapping[str, Any]) -> Answer:  # noqa: ARG001 - as above
    """Examine the target."""
    _trusted(state)
    try:
        return await target.doctor(state, target.root_of(state))
    except UsageError as error:
        raise _wrong(str(error)) from error


def show_report(state: State, given: Mapping[str, Any]) -> Awaitable[Answer]:
    """Return what is known of a kernel, or what an Nsight Compute report says, as one page."""
    uri = _text(given, "uri")
    if uri.lower().endswith(".ncu-rep"):
        return state.reports.of_file(state, uri, given.get("known"))
    return state.reports.of_kernel(state, *_kernel(state, given), given.get("known"))


def profile_all(state: State, given: Mapping[str, Any]) -> Answer:
    """Profile several kernels."""
    return _all(state, given, work.profile, "Profile", "profiling")


def optimize_all(state: State, given: Mapping[str, Any]) -> Answer:
    """Optimise several kernels."""
    return _all(state, given, work.optimize, "Optimize", "optimizing")


def _all(state: State, given: Mapping[str, Any], do: batch.Work, title: str, verb: str) -> Answer:
    _trusted(state)
    named = given.get("kernels")
    if not isinstance(named, list) or not named or not all(isinstance(one, Mapping) for one in named):
        raise _wrong("The command's argument needs a list called 'kernels', of objects with 'uri' and 'kernel'.")
    subjects = [(_text(one, "uri"), _text(one, "kernel")) for one in named]

    async def run(job: Job) -> str:
        outcome = await batch.run(state, job, subjects, do, allow_run=given.get("allowRun") is True)
        state.client.say(outcome)
        return outcome

    return {"jobId": state.jobs.start(run, title=f"{title} {wording.plural(len(subjects), 'kernel')}", verb=verb).id}


COMMANDS: Mapping[str, Command] = {
    names.OPTIMIZE: optimize,
    names.PROFILE: profile,
    names.RECORD: record,
    names.WRITE_SPEC: write_spec,
    names.APPLY: apply,
    names.CANCEL_JOB: cancel_job,
    names.SELECT_TARGET: select_target,
    names.PIN: pin_launch,
    names.RESTART: restart,
    names.VERIFY: verify,
    names.KEEP_PORTABLE: keep_portable,
    names.LIST_KERNELS: list_kernels,
    names.PROFILE_ALL: profile_all,
    names.OPTIMIZE_ALL: optimize_all,
    names.PREVIEW: preview,
    names.DISCARD: discard,
    names.DESCRIBE_TARGET: describe_target,
    names.DOCTOR: doctor,
    names.REPORT: show_report,
}


def argument(arguments: tuple[Any, ...]) -> Mapping[str, Any]:
    """Return the one object that a command was given; an empty one when it was given nothing."""
    if not arguments or arguments[0] is None:
        return {}
    if len(arguments) > 1 or not isinstance(arguments[0], Mapping):
        raise _wrong("A command takes one object as its only argument.")
    return arguments[0]


@dataclasses.dataclass(frozen=True)
class _Allowed:
    """What of the user's may be run to find launches: what the kernel's own file offers, or one thing elsewhere."""

    own: bool = False
    way: Way | None = None


async def _may_run(
    state: State, snapshot: Snapshot, kernel: Kernel, job: Job, given: Mapping[str, Any]
) -> _Allowed | None:
    """Return what may be run to find launches, None when the user wants nothing to happen."""
    if given.get("allowRun") is True:
        return _Allowed(own=True)
    workload = await state.workload(snapshot)
    if await asyncio.to_thread(workload.known, kernel) is not None:
        return _Allowed()
    old = await asyncio.to_thread(workload.known, kernel, stale=True)
    return await _ask(state, snapshot, kernel, job, stale=old.stale if old is not None else "")


async def _ask(state: State, snapshot: Snapshot, kernel: Kernel, job: Job, stale: str = "") -> _Allowed | None:
    """Ask whether to run what gets to the kernel; `stale` says what happened to the launches that were recorded."""
    problem = f"The launches of {kernel.name} were recorded earlier, and {stale}" if stale else ""
    problem = problem or f"No launch of {kernel.name} is known"
    allowed = _Allowed(own=True)
    answers: tuple[str, ...] = (RUN, USE) if stale else (RUN, WRITE)
    if snapshot.analysis.entries:
        entry = snapshot.analysis.entries[0]
        what = {"main": "the main block", "module": "the module-level calls"}.get(entry.kind, f"{entry.name}()")
        question = f"{problem}. Run {what} of {snapshot.name} to record its launches?"
    else:
        ways = await state.ways(snapshot, kernel)
        way = next((way for way in ways if way.alone), None)
        if way is not None:
            calling = f", which calls {way.through[0]}," if way.through else ""
            question = f"{problem}. Run {way.name}{calling} to record its launches?"
            allowed = _Allowed(way=way)
        else:
            question = f"{problem}, and nothing in {snapshot.name} runs it."
            if ways:
                question = f"{problem}. Record some in a terminal: {ways[0].command}"
            answers = answers[1:]
    job.report("waiting for an answer")
    answer = await state.client.ask(question, *answers)
    if answer == RUN:
        return allowed
    if answer == USE:
        return _Allowed()
    if answer == WRITE:
        now = state.snapshot(snapshot.uri)
        if now is not None:
            await applying.write_spec(state, now, kernel.name)
    return None


def _begin(
    state: State, run: Callable[[Job], Awaitable[str]], title: str, about: tuple[Snapshot, Kernel], *, verb: str = ""
) -> Answer:
    snapshot, kernel = about
    document = snapshot.uri if snapshot.version is not None else None  # of a file that is not open it outlives nothing
    subject = (snapshot.uri, kernel.name)
    return {"jobId": state.jobs.start(run, title=title, subject=subject, verb=verb, document=document).id}


def _runnable(state: State, given: Mapping[str, Any]) -> tuple[Snapshot, Kernel]:
    snapshot, kernel = _kernel(state, given)
    _trusted(state)
    if snapshot.path is None:
        raise _wrong(UNSAVED)
    running = state.jobs.about((snapshot.uri, kernel.name))
    if running is not None:
        raise _wrong(f"{kernel.name}: {running.verb} is under way already.")
    return snapshot, kernel


def _trusted(state: State) -> None:
    if not state.options.trusted:
        raise _wrong(UNTRUSTED)


def _offered(state: State, given: Mapping[str, Any]) -> tuple[Snapshot, Kernel, Offer]:
    snapshot, kernel = _kernel(state, given)
    offer = state.facts.offered(snapshot.uri, kernel.name)
    if offer is None or given.get("suggestion") not in (None, offer.id):
        raise _wrong(f"There is no such suggestion for {kernel.name}. Run Optimize again.")
    return snapshot, kernel, offer


def _kernel(state: State, given: Mapping[str, Any]) -> tuple[Snapshot, Kernel]:
    snapshot = state.look_at(_text(given, "uri"))
    if snapshot is None:
        raise _wrong("There is no such document: it is not open, and not a file that can be read.")
    kernels = snapshot.analysis.kernels
    if not kernels:
        raise _wrong(f"{snapshot.name} defines no Triton kernel.")
    if given.get("kernel") is not None:
        kernel = snapshot.kernel(_text(given, "kernel"))
        if kernel is None:
            raise _wrong(f"{snapshot.name} defines no kernel {given['kernel']!r}.")
        return snapshot, kernel
    line = _line(given)
    cell = snapshot.cells.of(str(given["uri"])) if snapshot.cells is not None else None
    if line is not None and cell is not None:
        line += cell.first
    if line is None:
        if len(kernels) > 1:
            raise _wrong(f"{snapshot.name} defines several kernels. Put the cursor into one.")
        return snapshot, kernels[0]

    def distance(kernel: Kernel) -> int:
        spans = [kernel.range, *(site.range for site in kernel.launch_sites)]
        return min(max(span.start.line - line, line - span.end.line, 0) for span in spans)

    return snapshot, min(kernels, key=distance)


def _line(given: Mapping[str, Any]) -> int | None:
    position = given.get("position")
    line = position.get("line") if isinstance(position, Mapping) else None
    return line + 1 if isinstance(line, int) else None


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise _wrong(f"The command's argument needs a text called {name!r}.")
    return value


def _wrong(sentence: str) -> JsonRpcInvalidParams:
    return JsonRpcInvalidParams(sentence)
