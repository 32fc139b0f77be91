"""`tritonforge optimize`: the whole loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import click

from tritonforge.cli.across import compare_targets
from tritonforge.cli.engines import EngineChoice, Engines, engine_options, open_engines, thinking_words
from tritonforge.cli.pieces import search_all
from tritonforge.cli.report_pages import page_of, search_report
from tritonforge.cli.running import (
    Progress,
    Workspace,
    emit,
    format_option,
    launch_option,
    no_run_option,
    one_kernel_for,
    open_workspace,
    run,
    target,
    target_option,
    warn,
    warn_of_comments,
)  # fmt: skip
from tritonforge.cli.selecting import Selected, select
from tritonforge.domain.across import AcrossResult
from tritonforge.domain.candidate import Suggestion
from tritonforge.domain.errors import NoLaunchKnown, UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.kernel_report import KernelReport
from tritonforge.domain.results import OptimizeResult
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session

EXIT_INTERRUPTED = 130


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH[::KERNEL]…")
@target_option(several=True)
@click.option(
    "--budget",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the search for each kernel may take; what is under way then is given up.",
)
@click.option(
    "--allow-slower", type=click.FloatRange(0, 1), default=0.0, show_default=True, metavar="FRACTION",
    help="How much slower any one launch may become, beyond noise.",
)  # fmt: skip
@engine_options
@no_run_option()
@launch_option()
@click.option("--again", is_flag=True, help="Try everything anew, also what an earlier run has found out.")
@click.option("--apply", "apply_edits", is_flag=True, help="Write the best verified version into the file.")
@click.option("--diff", "diff_only", is_flag=True, help="Print nothing but the diff, ready for git apply.")
@format_option(html=True)
def optimize(paths: tuple[str, ...], **options: Any) -> int:
    """Look for a faster version of each kernel, and show it only once it was verified.

    Every candidate runs through its host function against the original on several inputs. With a GPU, gains are
    measured; without one they are predicted, and say so.
    """
    if options["apply_edits"] and options["diff_only"]:
        raise UsageError("--apply and --diff exclude each other.")
    if options["diff_only"] and options["output_format"] == "json":
        raise UsageError("--diff and --format json exclude each other.", "The JSON holds the diff as best.diff.")
    if options["diff_only"] and options["output_format"] == "html":
        raise UsageError("--diff and --format html exclude each other.", "The page shows the diff, too.")
    files = select(paths)
    if not any(file.kernels for file in files):
        problem = next((error for file in files for error in file.analysis.errors), None)
        raise UsageError(
            f"{problem.file}:{problem.line}: {problem.message}"
            if problem
            else f"no Triton kernel found in {', '.join(paths)}."
        )
    one_kernel_for(options["pin"], files)
    warn_of_comments(files)
    named = {argument.partition("::")[2] for argument in paths} - {""}
    return run(_optimize(files, open_workspace(files[0].root), named, **options))


async def _optimize(
    files: tuple[Selected, ...],
    workspace: Workspace,
    named: set[str],
    *,
    targets: tuple[str, ...],
    engine: EngineChoice,
    budget: float,
    allow_slower: float,
    no_run: bool,
    pin: str | None,
    again: bool,
    apply_edits: bool,
    diff_only: bool,
    output_format: str,
) -> int:
    from tritonforge.report.json_across import across_json
    from tritonforge.report.json_optimize import optimize_json
    from tritonforge.report.text_across import across_text
    from tritonforge.report.text_optimize import optimize_text

    results: list[tuple[OptimizeResult, Selected]] = []
    sources = {file.analysis.file: file.text for file in files}
    reports: list[KernelReport] = []
    failed = 0
    async with AsyncExitStack() as stack:
        progress = stack.enter_context(Progress())
        engines = await stack.enter_async_context(open_engines(engine, workspace, progress))
        # All of them are reached before the first search, which may take long, and stay open for what compares them.
        wanted = tuple(dict.fromkeys(targets)) or (None,)
        sessions = [await stack.enter_async_context(target(workspace, name, progress)) for name in wanted]

        async def attempt(piece: tuple[Selected, Kernel], mine: Session) -> OptimizeResult | None:
            nonlocal failed
            file, kernel = piece
            try:
                work = _one(
                    file, kernel, workspace, mine, progress, engines=engines,
                    budget=budget, allow_slower=allow_slower, allow_run=not no_run, named=files, pin=pin,
                    reports=reports if output_format == "html" else None, sources=sources, again=again,
                )  # fmt: skip
                return await engines.with_draft(file, kernel, work)
            except (NoLaunchKnown, UsageError, JobError) as error:
                # One kernel that cannot be run must not cost the others their result.
                if len(files) == 1 and len(file.kernels) == 1:
                    raise
                warn(f"{file.analysis.file}::{kernel.name}: {error}")
                failed = failed or (error.exit_code if kernel.name in named else 0)
                return None

        pieces = [(file, kernel) for file in files for kernel in file.kernels]
        for session in sessions:
            results += [(result, file) for (file, _), result in await search_all(pieces, session, attempt)]
            if any(result.stopped_because == "interrupted" for result, _ in results):
                failed = EXIT_INTERRUPTED
                break
        matrix: list[tuple[AcrossResult, Selected]] = []
        if len(set(targets)) > 1 and failed != EXIT_INTERRUPTED:
            matrix = await compare_targets(
                results, sessions, workspace, progress, allow_run=not no_run, named=files, pin=pin
            )
    found = [result for result, _ in results]
    applied = apply_edits and failed != EXIT_INTERRUPTED
    # With several targets, the one source that is good on all of them is what is offered.
    across = [compared for compared, _ in matrix]
    offered = [(one.kernel.name, one.best, file) for one, file in (matrix or results)]
    if applied:
        _apply(offered, workspace, sources)
    if diff_only:
        for _, best, _ in offered:
            click.echo(best.diff if best else "", nl=False)
    else:
        emit(
            output_format,
            lambda: optimize_json(found) | ({"across": across_json(across)} if across else {}),
            lambda width: [
                *optimize_text(found, sources, applied=applied and not across, width=width),
                *across_text(across, applied=applied, width=width),
            ],
            lambda: page_of(reports),
        )
    return failed


async def _one(
    file: Selected,
    kernel: Kernel,
    workspace: Workspace,
    session: Session,
    progress: Progress,
    *,
    engines: Engines,
    budget: float,
    allow_slower: float,
    allow_run: bool,
    named: tuple[Selected, ...],
    pin: str | None,
    again: bool,
    reports: list[KernelReport] | None,
    sources: dict[str, str],
) -> OptimizeResult:
    """Search for a faster version of one kernel; where `reports` are wanted, add its report.

    `sources` gets the texts of the other files that its version may change.
    """
    from tritonforge.diagnosis.assessment import yardstick
    from tritonforge.optimize import Step
    from tritonforge.optimize import optimize as search
    from tritonforge.profiling.ceilings import ceilings_of

    workload = workspace.workload(file, allow_run=allow_run, progress=progress, named=named, pin=pin)
    subject = await workload.with_users(await workload.subject_of(kernel, session))
    sources.update((name, text) for name, text in subject.others if name not in sources)

    def show(step: Step) -> None:
        count = f" {step.done}/{step.total}" if step.total else ""
        best = f" · best so far {step.best_speedup:.2f}x" if step.best_speedup else ""
        progress.say(f"{kernel.name}: {step.stage}{count} · {step.detail}{best}{thinking_words(step.thinking)}")

    judge = yardstick(session, ceilings=await ceilings_of(session, workspace.store))
    asked = engines.begin(kernel)
    result = await search(
        subject,
        session,
        judge,
        asked,
        budget_s=budget,
        allow_slower=allow_slower,
        on_step=show,
        store=workspace.store,
        again=again,
    )
    result = await engines.finished(asked, result, subject.text)
    workspace.remember_pin(kernel, pin, result.launches)
    workspace.store.put_tuning(result)
    if reports is not None:
        reports.append(await search_report(result, subject, session))
    return result


def _apply(
    offered: Sequence[tuple[str, Suggestion | None, Selected]], workspace: Workspace, sources: Mapping[str, str]
) -> None:
    """Write the suggestions, all files of them or none, from the texts that they were found on."""
    from tritonforge.rewrite import apply_to_disk, together

    found = [(kernel, best, file.analysis.file) for kernel, best, file in offered if best]
    edits, left = together([best.trial.candidate.edits for _, best, _ in found])
    apply_to_disk(workspace.root, edits, {edit.file: sources[edit.file] for edit in edits})
    for index in left:
        kernel, _, name = found[index]
        warn(
            f"{name}::{kernel}: not applied, because it changes what a suggestion before it has changed. "
            f"Run tritonforge optimize {name}::{kernel} --apply again."
        )
