"""`tritonforge verify`: does a candidate still compute the same?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tritonforge.cli.running import (
    Progress,
    Workspace,
    emit,
    format_option,
    launch_option,
    no_run_option,
    open_workspace,
    run,
    target,
    target_option,
)  # fmt: skip
from tritonforge.cli.selecting import Selected, select_one
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.results import VerifyResult
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.workload.subject import Subject

if TYPE_CHECKING:
    from tritonforge.verify import Trialled


@click.command()
@click.argument("kernel", metavar="PATH::KERNEL")
@click.option("--candidate", required=True, metavar="PATH[::KERNEL]", help="The version to judge.")
@target_option()
@click.option("--replay", metavar="ID", help="Repeat an earlier check with the very same inputs.")
@no_run_option()
@launch_option()
@format_option()
def verify(kernel: str, candidate: str, **options: Any) -> int:
    """Compare a candidate with the original on many inputs; exit with 1 when it is refused.

    Both are run through the host function that launches the kernel (same name and parameters in both files), so the
    candidate may change its grid and constexprs. With a launch spec above the kernel, the kernels are launched
    directly.
    """
    original = select_one(kernel)
    path = candidate if "::" in candidate else _same_kernel(candidate, original.kernels[0])
    return run(_verify(original, select_one(path), open_workspace(original.root), **options))


def _same_kernel(candidate: str, kernel: Kernel) -> str:
    # Without ::KERNEL the candidate's kernel of the same name is meant, whatever else its file defines.
    return f"{candidate}::{kernel.name}" if Path(candidate).is_file() else candidate


async def _verify(
    original: Selected,
    candidate: Selected,
    workspace: Workspace,
    *,
    target_name: str | None,
    replay: str | None,
    no_run: bool,
    pin: str | None,
    output_format: str,
) -> int:
    from tritonforge.report.json_verify import verify_json
    from tritonforge.report.text_verify import verify_text

    _seed(replay)  # a wrong id is told before anything is started
    (kernel,) = original.kernels
    (other,) = candidate.kernels
    with Progress() as progress:
        workload = workspace.workload(original, allow_run=not no_run, progress=progress, pin=pin)
        if target_name is None:  # a target that was asked for is answered for first
            await workload.require_some(kernel)
        async with target(workspace, target_name, progress) as session:
            subject = await workload.subject_of(kernel, session)
            text = _as_replacement(candidate, other, kernel, subject.calls)
            progress.say(f"comparing {kernel.name} with {candidate.analysis.file} …")
            trialled = await _judge(subject, text, session, _seed(replay))
    result = VerifyResult(
        trialled.verdict, kernel, candidate.analysis.file, trialled.failing_input, trialled.difference
    )
    emit(output_format, lambda: verify_json(result), lambda: verify_text(result))
    return 0 if trialled.verdict.accepted else 1


async def _judge(subject: Subject, text: str, session: Session, seed: int | None) -> Trialled:
    from tritonforge.verify import Gate, launched, refusal

    before = await launched(session.worker, subject.program(), subject.calls, session.arch)
    if before.error:
        raise UsageError(f"The original does not compile for {session.arch}: {before.error}")
    try:
        after = await launched(session.worker, subject.program(text), subject.calls, session.arch)
    except JobError as error:
        if error.kind != "user-error":
            raise
        return refusal(f"the candidate cannot be called as the original is: {error.message}")
    if after.error:
        return refusal(f"the candidate does not compile for {session.arch}: {after.error}")
    gate = Gate(session.worker, subject.program(), subject.calls, on_device=session.measures, grid=before.grid)
    if seed is not None:
        gate.seed = seed
    return await gate.check(subject.program(text), tile=max(before.largest_tile, after.largest_tile))


def _seed(replay: str | None) -> int | None:
    if replay is None:
        return None
    try:
        return int(replay, 16)
    except ValueError:
        raise UsageError(f"{replay!r} is no replay id.", "Take it from the verdict of an earlier check.") from None


def _as_replacement(candidate: Selected, other: Kernel, kernel: Kernel, calls: tuple[Call, ...]) -> str:
    """Return the candidate's text so that it can stand in for the original's file."""
    if other.name == kernel.name or not any(call.kernel_launch for call in calls):
        return candidate.text
    return f"{candidate.text}\n\n{kernel.name} = {other.name}\n"
