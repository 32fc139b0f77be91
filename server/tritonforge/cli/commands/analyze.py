"""`tritonforge analyze`: findings from source and compiler, with no GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tritonforge.cli.commands.analyze_output import print_report
from tritonforge.cli.progress_bar import CountedProgress
from tritonforge.cli.running import (
    Progress,
    Workspace,
    launch_option,
    no_run_option,
    one_kernel_for,
    open_workspace,
    run,
    target,
    target_option,
    warn,
)  # fmt: skip
from tritonforge.cli.selecting import Selected, rule_codes, select
from tritonforge.domain.errors import NoLaunchKnown, TargetUnreachable
from tritonforge.domain.finding import SEVERITIES
from tritonforge.domain.kernel import SourceError
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult
from tritonforge.report import wording
from tritonforge.workload.specified import comment_problems

if TYPE_CHECKING:
    from tritonforge.diagnosis.inspect_many import Part
    from tritonforge.jobs.session import Session

EXIT_INTERRUPTED = 130
FORMATS = ("text", "json", "sarif", "github", "html")
SOURCE_ONLY = "no worker is available, so only the source was judged"


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH[::KERNEL]…")
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="ARCH",
    help="Compile for this architecture (sm_90, gfx942, …). May be given several times, to compare.",
)
@target_option()
@no_run_option()
@launch_option()
@click.option("--select", "selected", metavar="CODES", help="Only these findings: TF203, or prefixes such as TF2.")
@click.option("--ignore", metavar="CODES", help="Leave these findings out.")
@click.option(
    "--fail-on", type=click.Choice(SEVERITIES), default="error", show_default=True,
    help="Exit with 1 when a finding is at least this severe.",
)  # fmt: skip
@click.option("--show-ignored", is_flag=True, help="List what is ignored on purpose: by comments and by the settings.")
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="text", show_default=True,
    help="What to print on stdout: sarif for code scanning, github for annotations of a workflow, html for one page.",
)  # fmt: skip
def analyze(paths: tuple[str, ...], **options: Any) -> int:
    """List the Triton kernels of PATHs with what the source and the real compiler say about them.

    Needs no GPU. A PATH is a Python file, a file with a kernel (matmul.py::kernel), or a folder; what a named file
    offers to run (its main block, a test) is run to see the launches, with no kernel ever sent to a GPU.
    """
    with Progress() as progress:
        files = select(paths, lambda file: progress.say(f"reading {file} …"))
    if not files:
        warn(f"no Triton kernel found in {', '.join(paths)}.")
        if options["output_format"] != "text":
            print_report(options["output_format"], AnalyzeResult(), (), Path.cwd())
        return 0
    named = {argument.partition("::")[2] for argument in paths} - {""}
    return run(_analyze(files, open_workspace(files[0].root), named, **options))


@dataclass
class _Found:
    """What is known so far: kernels by the place of their file and their own in it, and what could not be read."""

    kernels: dict[tuple[int, int], AnalyzedKernel] = field(default_factory=dict)
    errors: list[SourceError] = field(default_factory=list)
    target: TargetInfo | None = None

    def note(self, number: int, place: int, kernel: AnalyzedKernel) -> None:
        """Take a kernel, unless it is there already."""
        self.kernels.setdefault((number, place), kernel)

    def result(self, files: Sequence[Selected]) -> AnalyzeResult:
        """Return it in the order of the files."""
        errors = [*(error for file in files for error in file.analysis.errors), *self.errors]
        kernels = tuple(self.kernels[place] for place in sorted(self.kernels))
        comments = tuple(problem for file in files for problem in comment_problems(file.analysis))
        return AnalyzeResult(kernels, tuple(dict.fromkeys(errors)), self.target, comment_problems=comments)


async def _analyze(
    files: tuple[Selected, ...],
    workspace: Workspace,
    named: set[str],
    *,
    archs: tuple[str, ...],
    target_name: str | None,
    no_run: bool,
    pin: str | None,
    selected: str | None,
    ignore: str | None,
    fail_on: str,
    show_ignored: bool,
    output_format: str,
) -> int:
    from tritonforge.diagnosis.inspect_many import Part, from_source

    settings = workspace.settings
    if selected:
        settings = replace(settings, select=rule_codes(selected, "--select"))
    if ignore:
        settings = replace(settings, ignore=(*settings.ignore, *rule_codes(ignore, "--ignore")))
    workspace = replace(workspace, settings=settings)
    one_kernel_for(pin, files)
    found = _Found()
    interrupted = False
    with CountedProgress() as progress:
        parts = [
            Part(
                workspace.workload(file, allow_run=not no_run, progress=progress, named=files, pin=pin),
                file.kernels,
                file.named,
            )
            for file in files
        ]
        try:
            if any(part.kernels for part in parts):
                async with target(workspace, target_name, progress, at_leisure=True) as session:
                    await _compile(parts, workspace, session, archs, found=found, progress=progress)
        except TargetUnreachable as error:
            # Asked for a target or an architecture, the answer is that it is not there; else the source still helps.
            if target_name or archs:
                raise
            warn(f"{SOURCE_ONLY}: {error}")
            from_source(parts, settings, note=SOURCE_ONLY, on_kernel=found.note)
        except asyncio.CancelledError:
            interrupted = True
    for one in found.kernels.values():
        workspace.remember_pin(one.kernel, pin, one.launches)
    result = replace(found.result(files), lapsed=settings.lapsed())
    print_report(output_format, result, files, workspace.root, show_ignored=show_ignored)
    if interrupted:
        total = wording.plural(sum(len(file.kernels) for file in files), "kernel")
        warn(f"interrupted: {len(result.kernels)} of {total} were judged, and the others are left out.")
        return EXIT_INTERRUPTED
    return _exit_code(result, named, fail_on)


async def _compile(
    parts: Sequence[Part],
    workspace: Workspace,
    session: Session,
    archs: tuple[str, ...],
    *,
    found: _Found,
    progress: CountedProgress,
) -> None:
    """Judge the kernels of `parts` by what the compiler makes of them, and note each in `found` once it is judged.

    Raises:
        UsageError: for an architecture that the target does not compile for, or a wrong spec of a file that was named.
        TargetUnreachable: when the worker ends.
    """
    from tritonforge.diagnosis.architectures import require_architectures
    from tritonforge.diagnosis.compiled_calls import CompiledCalls
    from tritonforge.diagnosis.inspect_many import inspect_many

    def done(number: int, place: int, kernel: AnalyzedKernel) -> None:
        found.note(number, place, kernel)
        progress.advance()

    def failed(error: SourceError) -> None:
        found.errors.append(error)

    found.target = session.info
    wanted = tuple(dict.fromkeys(archs)) or (session.arch,)
    if archs:
        progress.say(f"trying {', '.join(wanted)} …")
        await require_architectures(session, wanted, workspace.store)
    progress.expect(sum(len(part.kernels) for part in parts))
    await inspect_many(
        parts,
        session,
        wanted,
        earlier=CompiledCalls.for_session(workspace.store, session),
        on_kernel=done,
        on_error=failed,
        on_start=lambda kernel: progress.say(f"{kernel.file}::{kernel.name}"),
    )


def _exit_code(result: AnalyzeResult, named: set[str], fail_on: str) -> int:
    if result.errors and not result.kernels:
        return 2
    if result.target is not None and any(
        not k.launches and {k.kernel.name, k.kernel.simple_name} & named for k in result.kernels
    ):
        return NoLaunchKnown.exit_code
    from tritonforge.report.text_findings import counts

    worst = next((SEVERITIES.index(severity) for severity, _ in counts(result)), len(SEVERITIES))
    return int(worst <= SEVERITIES.index(fail_on))
