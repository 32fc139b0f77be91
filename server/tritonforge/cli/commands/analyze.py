"""`tritonforge analyze`: findings from source and compiler, with no GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

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
)  # fmt: skip
from tritonforge.cli.selecting import Selected, select
from tritonforge.config import Settings
from tritonforge.domain.errors import NoLaunchKnown, TargetUnreachable
from tritonforge.domain.finding import SEVERITIES
from tritonforge.domain.kernel import SourceError
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult
from tritonforge.workload.specs import SpecError

SOURCE_ONLY = "no worker is available, so only the source was judged"


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH[::KERNEL]…")
@click.option(
    "--arch", "archs", multiple=True, metavar="ARCH", help="Compile for this architecture (sm_90, gfx942, …)."
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
@format_option()
def analyze(paths: tuple[str, ...], **options: Any) -> int:
    """List the Triton kernels of PATHs with what the source and the real compiler say about them.

    Needs no GPU. A PATH is a Python file, a file with a kernel (matmul.py::kernel), or a folder; what a named file
    offers to run (its main block, a test) is run to see the launches, with no kernel ever sent to a GPU.
    """
    files = select(paths)
    if not files:
        warn(f"no Triton kernel found in {', '.join(paths)}.")
    workspace = open_workspace(files[0].root) if files else None
    named = {argument.partition("::")[2] for argument in paths} - {""}
    return run(_analyze(files, workspace, named, **options)) if workspace else 0


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
    output_format: str,
) -> int:
    from tritonforge.report.json_analyze import analyze_json
    from tritonforge.report.text_analyze import analyze_text

    settings = workspace.settings
    if selected:
        settings = replace(settings, select=_codes(selected))
    if ignore:
        settings = replace(settings, ignore=(*settings.ignore, *_codes(ignore)))
    workspace = replace(workspace, settings=settings)
    one_kernel_for(pin, files)
    with_kernels = [file for file in files if file.kernels]
    kernels: list[AnalyzedKernel] = []
    wrong: list[SpecError] = []
    info = None
    try:
        if with_kernels:
            kernels, wrong, info = await _compiled(
                with_kernels, workspace, target_name, archs, allow_run=not no_run, named=files, pin=pin
            )
            for one in kernels:
                workspace.remember_pin(one.kernel, pin, one.launches)
    except TargetUnreachable as error:
        # Asked for a target or an architecture, the answer is that it is not there; else the source still helps.
        if target_name or archs:
            raise
        warn(f"{SOURCE_ONLY}: {error}")
        kernels = _from_source(with_kernels, settings)
    errors = tuple(
        dict.fromkeys([*(error for file in files for error in file.analysis.errors), *map(_source_error, wrong)])
    )
    result = AnalyzeResult(tuple(kernels), errors, info)
    emit(output_format, lambda: analyze_json(result), lambda: analyze_text(result))
    if errors and not kernels:
        return 2
    if info is not None and any(not k.launches and {k.kernel.name, k.kernel.simple_name} & named for k in kernels):
        return NoLaunchKnown.exit_code
    worst = min((SEVERITIES.index(f.severity) for k in kernels for f in k.findings), default=len(SEVERITIES))
    return int(worst <= SEVERITIES.index(fail_on))


async def _compiled(
    files: list[Selected],
    workspace: Workspace,
    target_name: str | None,
    archs: tuple[str, ...],
    *,
    allow_run: bool,
    named: tuple[Selected, ...],
    pin: str | None,
) -> tuple[list[AnalyzedKernel], list[SpecError], TargetInfo]:
    """Judge the kernels of `files` by what the compiler makes of them.

    Also returns the wrong specs of files that only lie in a folder: their kernels are judged by their source.

    Raises:
        SpecError: for a wrong spec of a file that the user named.
    """
    from tritonforge.diagnosis.inspect_file import inspect_compiled, inspect_source

    kernels: list[AnalyzedKernel] = []
    wrong: list[SpecError] = []
    with Progress() as progress:
        async with target(workspace, target_name, progress) as session:
            for file in files:
                workload = workspace.workload(file, allow_run=allow_run, progress=progress, named=named, pin=pin)
                for kernel in file.kernels:
                    progress.say(f"compiling {kernel.file}::{kernel.name} …")
                    try:
                        kernels += await inspect_compiled(workload, (kernel,), session, archs or (session.arch,))
                    except SpecError as error:
                        if file.named:
                            raise
                        wrong.append(error)
                        note = f"its launch spec is wrong: {error}"
                        kernels += inspect_source(file.analysis, (kernel,), workspace.settings, note=note)
            return kernels, wrong, session.info


def _source_error(error: SpecError) -> SourceError:
    return SourceError(error.file, error.position.line, f"{error.reason} {error.mend}".strip())


def _from_source(files: list[Selected], settings: Settings) -> list[AnalyzedKernel]:
    from tritonforge.diagnosis.inspect_file import inspect_source

    return [k for file in files for k in inspect_source(file.analysis, file.kernels, settings, note=SOURCE_ONLY)]


def _codes(text: str) -> tuple[str, ...]:
    return tuple(code.strip() for code in text.split(",") if code.strip())
