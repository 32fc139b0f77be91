"""`tritonforge verify`: does a candidate still compute the same?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tritonforge.cli.running import (
    Progress,
    Workspace,
    emit,
    format_option,
    is_verbose,
    launch_option,
    no_run_option,
    open_workspace,
    run,
    target,
    target_option,
    warn_of_comments,
)  # fmt: skip
from tritonforge.cli.selecting import Selected, module_names, read_named, select_one
from tritonforge.domain.candidate import Verdict
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program
from tritonforge.domain.results import VerifyResult
from tritonforge.jobs.session import Session
from tritonforge.workload.subject import Subject

if TYPE_CHECKING:
    from tritonforge.verify import Gate, Place

    Again = tuple[int, Place | None]
    """What a replay id says: the seed, and the input to begin with."""


@click.command()
@click.argument("kernel", metavar="PATH::KERNEL")
@click.option("--candidate", required=True, metavar="PATH[::KERNEL]", help="The version to judge.")
@click.option(
    "--reference", metavar="PATH::FUNCTION",
    help="A PyTorch function that says what is right; it takes what the host function takes.",
)  # fmt: skip
@target_option()
@click.option("--replay", metavar="ID", help="Repeat an earlier check with the same inputs, the refused one first.")
@no_run_option()
@launch_option()
@format_option()
def verify(kernel: str, candidate: str, **options: Any) -> int:
    """Compare a candidate with the original on many inputs; exit with 1 when it is refused.

    Both are run through the host function that launches the kernel (same name and parameters in both files), so the
    candidate may change its grid and constexprs. With a launch spec above the kernel, the kernels are launched
    directly. Results are judged by a PyTorch reference where one is named or recognised (`softmax_ref` beside
    `softmax`), else by the original in higher precision.
    """
    original = select_one(kernel)
    warn_of_comments([original])
    path = candidate if "::" in candidate else _same_kernel(candidate, original.kernels[0])
    other = select_one(path)
    for error in other.analysis.errors:  # a kernel is found in a file that is only nearly Python, too
        raise UsageError(f"{error.file}:{error.line}: {error.message}")
    return run(_verify(original, other, open_workspace(original.root), **options))


def _same_kernel(candidate: str, kernel: Kernel) -> str:
    # Without ::KERNEL the candidate's kernel of the same name is meant, whatever else its file defines.
    return f"{candidate}::{kernel.name}" if Path(candidate).is_file() else candidate


async def _verify(
    original: Selected,
    candidate: Selected,
    workspace: Workspace,
    *,
    reference: str | None,
    target_name: str | None,
    replay: str | None,
    no_run: bool,
    pin: str | None,
    output_format: str,
) -> int:
    from tritonforge.report.json_verify import verify_json
    from tritonforge.report.text_verify import verify_text
    from tritonforge.report.wording import compile_error

    _again(replay)  # a wrong id is told before anything is started
    file = _reference_file(reference)
    (kernel,) = original.kernels
    (other,) = candidate.kernels
    with Progress() as progress:
        workload = workspace.workload(original, allow_run=not no_run, progress=progress, pin=pin)
        if target_name is None:  # a target that was asked for is answered for first
            await workload.require_some(kernel)
        async with target(workspace, target_name, progress) as session:
            subject = await workload.subject_of(kernel, session)
            _require_hosts(candidate, original.analysis.file, subject.calls)
            text = _as_replacement(candidate, other, kernel, subject.calls)
            progress.say(f"comparing {kernel.name} with {candidate.analysis.file} …")
            gate = _gate(subject, session, _again(replay), file)
            before = await gate.launched()
            if before.error:
                raise UsageError(f"The original does not compile for {session.arch}: {compile_error(before.error)}")
            trialled = await gate.check(subject.program(text), candidate_kernel=other)
            verdict = await gate.sanitised(subject.program(text), trialled.verdict)
            verdict = _naming(verdict, original.analysis.file, candidate.analysis.file)
    result = VerifyResult(
        verdict, kernel, candidate.analysis.file, trialled.failing_input, trialled.difference, reference or ""
    )
    emit(output_format, lambda: verify_json(result), lambda width: verify_text(result, width=width, every=is_verbose()))
    return 0 if verdict.accepted else 1


def _gate(subject: Subject, session: Session, again: Again | None, reference: ReferenceFile | None) -> Gate:
    from tritonforge.verify import Gate, named_reference, reference_beside

    program = subject.program()
    named = reference_beside(program, subject.calls)
    if reference is not None:
        if reference.file != subject.file:
            program = Program(subject.root, reference.file, ((reference.file, reference.text),))
        named = named_reference(program, reference.function, reference.text, reference.file, subject.calls)
    gate = Gate(
        session.worker,
        subject.program(),
        subject.calls,
        on_device=session.measures,
        arch=session.arch,
        kernel=subject.kernel,
        reference=named,
    )
    if again is not None:
        gate.seed, gate.first = again
    return gate


@dataclass(frozen=True)
class ReferenceFile:
    """The function that `--reference` names, with the text of its file; `file` is relative to the workspace."""

    file: str
    function: str
    text: str


def _reference_file(reference: str | None) -> ReferenceFile | None:
    if reference is None:
        return None
    path, _, function = reference.partition("::")
    if not path or not function:
        raise UsageError(f"{reference!r} names no function.", "Give --reference as PATH::FUNCTION.")
    found = read_named(Path(path))
    return ReferenceFile(found.analysis.file, function, found.text)


def _again(replay: str | None) -> Again | None:
    from tritonforge.verify import read_id

    if replay is None:
        return None
    found = read_id(replay)
    if found is None:
        raise UsageError(f"{replay!r} is no replay id.", "Take it from the verdict of an earlier check.")
    return found


def _require_hosts(candidate: Selected, file: str, calls: Sequence[Call]) -> None:
    """See that the candidate defines the functions of the original's `file` that are called.

    Raises:
        UsageError: when it lacks one, which could only be told by the original's name once it stands in for it.
    """
    names = module_names(candidate.text)
    for call in calls:
        own = call.kernel_launch is None and call.file == file and call.function not in {"__main__", "__module__"}
        if own and names is not None and call.function.partition(".")[0] not in names:
            raise UsageError(
                f"{candidate.analysis.file} does not define {call.function}, which launches the kernel in {file}.",
                "Give the candidate that function, too: both versions are run through it.",
            )


def _naming(verdict: Verdict, original: str, candidate: str) -> Verdict:
    """Return the verdict with the candidate's own file in what is said of it: it ran in the place of the original."""

    def named(text: str) -> str:
        about = text.removeprefix("failed: ").startswith("the candidate")
        return re.sub(rf"(?<![\w/.-]){re.escape(original)}(?![\w/-])", lambda _: candidate, text) if about else text

    checks = {name: named(outcome) for name, outcome in verdict.checks.items()}
    return replace(verdict, reason=named(verdict.reason), checks=checks)


def _as_replacement(candidate: Selected, other: Kernel, kernel: Kernel, calls: tuple[Call, ...]) -> str:
    """Return the candidate's text so that it can stand in for the original's file."""
    if other.name == kernel.name or not any(call.kernel_launch for call in calls):
        return candidate.text
    return f"{candidate.text}\n\n{kernel.name} = {other.name}\n"
