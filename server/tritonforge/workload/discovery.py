"""Where calls and launches of a kernel come from: a spec, an earlier recording, something in the file that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tritonforge.config import LaunchTable
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import FileAnalysis, Kernel, RunnableEntry, SpecComment
from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.messages import Program, Record
from tritonforge.jobs import JobError, Worker
from tritonforge.workload.launches import matches
from tritonforge.workload.specs import parse_spec

MAX_CALLS = 4
"""Calls kept for one kernel: the first of each shape that its own file shows."""


@dataclass(frozen=True)
class Recording:
    """What running one file showed: its calls, what went wrong, and which entries were run."""

    calls: tuple[Call, ...] = ()
    failures: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Calls that launch a kernel, where they come from (`spec`, `recorded`, an entry's name), or why there are none."""

    calls: tuple[Call, ...]
    source: str = ""
    note: str = ""


def spec_calls(analysis: FileAnalysis, tables: Sequence[LaunchTable], kernel: Kernel) -> tuple[Call, ...]:
    """Return the calls that specs describe for `kernel`: on the kernel itself, or on a host function that launches it.

    Raises:
        UsageError: for a spec that cannot be read, with its place.
    """
    hosts = {site.host for site in kernel.launch_sites if site.host}
    calls: list[Call] = []
    for spec in analysis.specs:
        if spec.function == kernel.name:
            calls.append(_from_comment(spec, analysis.file, kernel.name, kernel))
        elif spec.function is not None and spec.function in hosts:
            calls.append(_from_comment(spec, analysis.file, spec.function, None))
    for table in tables:
        if not _same_file(table.file, analysis.file):
            continue
        if table.kernel in (kernel.name, kernel.simple_name):
            calls.append(_from_table(table, analysis.file, kernel.name, kernel))
        elif table.function is not None and (table.function in hosts or not hosts):
            calls.append(_from_table(table, analysis.file, table.function, None))
    return tuple(calls)


def _from_comment(spec: SpecComment, file: str, function: str, kernel: Kernel | None) -> Call:
    return parse_spec(spec.text, file=file, function=function, line=spec.line, column=spec.column, kernel=kernel)


def _from_table(table: LaunchTable, file: str, function: str, kernel: Kernel | None) -> Call:
    # A table says the same as a comment, one key a value, so both are read by the same parser.
    words = []
    for name, value in table.values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise UsageError(
                f"{table.source}:{table.line}: {name} must be a number or a text.", 'As in x = "fp16[4096, 4096]".'
            )
        words.append(f"{name}={value}")
    try:
        call = parse_spec(" ".join(words), file=file, function=function, kernel=kernel)
    except UsageError as error:
        raise UsageError(f"{table.source}:{table.line}: {error.message.split(': ', 1)[-1]}", error.mend) from None
    return call


def _same_file(named: str, file: str) -> bool:
    return file == named or file.endswith("/" + named.lstrip("/"))


async def record(
    worker: Worker, program: Program, analysis: FileAnalysis, *, on_entry: Callable[[RunnableEntry], None] | None = None
) -> Recording:
    """Run what the file offers (its main block, module-level calls, a test, bench or main function) and keep the calls.

    Entries are run in the order of their usefulness until every launched kernel of the file has been seen.
    """
    wanted = {kernel.name for kernel in analysis.kernels}
    calls: dict[str, Call] = {}
    failures: list[str] = []
    ran: list[str] = []
    for entry in analysis.entries:
        if not wanted:
            break
        if on_entry:
            on_entry(entry)
        name = entry.name or entry.kind
        try:
            request = Record(program, entry.kind, entry.name)
            result = await worker.run(request)
        except JobError as error:
            failures.append(f"{name}: {error.failure.message}")
            continue
        ran.append(name)
        failures += [f"{kernel}: {reason}" for kernel, reason in result.failures]
        for call in result.calls:
            calls.setdefault(call.id, call)
            wanted -= {launch.kernel for launch in call.launches}
    return Recording(tuple(calls.values()), tuple(failures), tuple(ran))


def select(kernel: Kernel, recording: Recording) -> tuple[Call, ...]:
    """Return the recorded calls that launch `kernel`, one for each set of launches, at most `MAX_CALLS`."""
    chosen: list[Call] = []
    seen: set[tuple[RecordedLaunch, ...]] = set()
    for call in recording.calls:
        own = tuple(launch for launch in call.launches if matches(kernel, launch))
        if own and own not in seen:
            seen.add(own)
            chosen.append(call)
    return tuple(chosen[:MAX_CALLS])


def explain_nothing(kernel: Kernel, analysis: FileAnalysis, recording: Recording | None) -> str:
    """Return one sentence that says why no launch of `kernel` is known, and what to do."""
    mend = f"write a launch spec above it: # tritonforge: launch {example_spec(kernel)}"
    if recording is None and analysis.entries:
        names = ", ".join(entry.name or f"the {entry.kind} block" for entry in analysis.entries[:3])
        return f"no launch of {kernel.name} is known: running {names} was not allowed (--no-run); allow it, or {mend}"
    if recording and recording.failures:
        return f"no launch of {kernel.name} was seen: {recording.failures[0].rstrip('.')}; mend that, or {mend}"
    if recording and recording.ran:
        return f"no launch of {kernel.name} was seen when running {', '.join(recording.ran)}; {mend}"
    return f"nothing in this file runs {kernel.name}; {mend}"


def example_spec(kernel: Kernel) -> str:
    """Return the words of a first spec for `kernel`, to be written above it and corrected by who knows its sizes."""
    words = []
    for parameter in kernel.parameters:
        if parameter.role == "pointer":
            words.append(f"{parameter.name}=fp16[4096, 4096]")
        elif parameter.role in ("scalar", "stride"):
            words.append(f"{parameter.name}=4096")
        elif parameter.constexpr and parameter.default is None:
            words.append(f"{parameter.name}=64")
    return " ".join([*words, "grid=4096"])
