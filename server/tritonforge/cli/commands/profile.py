"""`tritonforge profile`: one kernel on one screen, or a whole program's kernels on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tritonforge.cli.commands.profile_program import MaybeProgram, Wanted, alone, output_option, profile_program
from tritonforge.cli.commands.profile_report import show_report
from tritonforge.cli.report_pages import profile_page
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
from tritonforge.cli.selecting import Selected, select_one
from tritonforge.domain.counters import CounterChoice
from tritonforge.domain.rule_names import DOES_NOT_COMPILE


@click.command(cls=MaybeProgram)
@click.argument("kernel", metavar="PATH::KERNEL", required=False)
@target_option()
@click.option(
    "--report",
    metavar="FILE.ncu-rep",
    type=click.Path(path_type=Path),
    help="Read a Nsight Compute report made elsewhere instead of running anything; PATH may be a folder then.",
)
@click.option(
    "--counters",
    type=click.Choice(["auto", "ncu", "pcsampling", "none"]),
    default="auto",
    show_default=True,
    help="Where hardware counters come from: Nsight Compute, program-counter sampling, or the best that works.",
)
@no_run_option()
@launch_option()
@output_option()
@format_option(html=True)
def profile(
    kernel: str | None, report: Path | None, command: tuple[str, ...] | None, output: Path | None, **options: Any
) -> int:
    """Say how long a kernel takes, what holds it back, and where.

    On a target with a GPU times are measured; elsewhere they are predicted from the compiled code, and say so.

    With -- COMMAND, run a whole program as ever and rank its Triton kernels by share of GPU time on stderr when it has
    ended, each with what holds it back and how much faster it could be; the exit code is the command's.

    The exit code is 1 where a launch does not compile.
    """
    if command is not None:
        alone(kernel, report)
        if options["output_format"] == "html":
            raise click.UsageError("--format html is for one kernel; name it as PATH::KERNEL.")
        return profile_program(command, Wanted(options["target_name"], output, options["output_format"]))
    if kernel is None:
        raise click.UsageError("name a kernel as PATH::KERNEL, or a program after --.")
    if output is not None:
        raise click.UsageError("-o is for -- COMMAND; the JSON of a kernel goes to stdout.")
    if report is not None:
        return show_report(kernel, report, options["output_format"])
    selected = select_one(kernel)
    warn_of_comments([selected])
    return run(_profile(selected, open_workspace(selected.root), **options))


async def _profile(
    selected: Selected,
    workspace: Workspace,
    *,
    target_name: str | None,
    counters: CounterChoice,
    no_run: bool,
    pin: str | None,
    output_format: str,
) -> int:
    from tritonforge.diagnosis.assessment import yardstick
    from tritonforge.diagnosis.profile_kernel import profile as profile_kernel
    from tritonforge.profiling.ceilings import ceilings_of
    from tritonforge.report.json_profile import profile_json
    from tritonforge.report.text_profile import profile_text

    (kernel,) = selected.kernels
    page = ""
    with Progress() as progress:
        workload = workspace.workload(selected, allow_run=not no_run, progress=progress, pin=pin)
        if target_name is None:  # a target that was asked for is answered for first
            await workload.require_some(kernel)
        async with target(workspace, target_name, progress) as session:
            subject = await workload.subject_of(kernel, session)
            progress.say(f"profiling {kernel.name} …")
            judge = yardstick(session, ceilings=await ceilings_of(session, workspace.store))
            result, _ = await profile_kernel(subject, session, judge, counters=counters, store=workspace.store)
            workspace.remember_pin(kernel, pin, [one.launch for one in result.profiles])
            if output_format == "html":
                page = await profile_page(result, subject, session)
    emit(
        output_format,
        lambda: profile_json(result),
        lambda width: profile_text(result, {selected.analysis.file: selected.text}, width=width, every=is_verbose()),
        lambda: page,
    )
    return int(any(finding.code == DOES_NOT_COMPILE for profile in result.profiles for finding in profile.findings))
