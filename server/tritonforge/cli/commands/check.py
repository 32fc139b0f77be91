"""`tritonforge check`: has a kernel become slower than its committed baseline?"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from tritonforge import __version__
from tritonforge.cli.code_host import append_summary, repository
from tritonforge.cli.rendering import print_json, print_lines, speak_utf8, text_width
from tritonforge.cli.running import (
    Progress,
    Workspace,
    no_run_option,
    open_workspace,
    run,
    target,
    target_option,
    warn,
)  # fmt: skip
from tritonforge.cli.selecting import Selected, select
from tritonforge.config import workspace_root
from tritonforge.domain.errors import NoLaunchKnown, UsageError
from tritonforge.regression import BASELINE

if TYPE_CHECKING:
    from tritonforge.domain.baseline import Baseline, CheckResult, Comparison
    from tritonforge.regression.checking import Check

FORMATS = ("text", "json", "junit", "sarif", "github")


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH[::KERNEL]…]")
@click.option(
    "--baseline", "baseline_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help=f"The committed baselines (default: {BASELINE} of the workspace).",
)  # fmt: skip
@click.option(
    "--update", is_flag=True, help="Measure anew, write what was measured into the baseline, and show what changed."
)
@target_option()
@no_run_option()
@click.option(
    "--min-effect", type=click.FloatRange(0, 100, min_open=True), default=3.0, show_default=True, metavar="PERCENT",
    help="The smallest change of a time that matters.",
)  # fmt: skip
@click.option(
    "--runs", type=click.IntRange(2, 50), default=3, show_default=True, metavar="N",
    help="How often each kernel is measured; --update measures at least 5 times.",
)  # fmt: skip
@click.option(
    "--gate/--no-gate", default=True, help="Compare the results of what has changed with the recorded version."
)
@click.option("--strict", is_flag=True, help="Also fail on what is new, missing, or could not be measured.")
@click.option("--show-ignored", is_flag=True, help="List what is ignored on purpose: by comments and by the settings.")
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="text", show_default=True,
    help="What to print on stdout: junit and sarif for CI systems, github for annotations and a job summary.",
)  # fmt: skip
def check(paths: tuple[str, ...], **options: Any) -> int:
    """Compare kernels with their committed baselines; exit with 1 when one has regressed.

    With a GPU every kernel is measured again; a suspect is measured side by side with the version that the baseline
    recorded. Without one, what needs none is compared: whether it compiles for every architecture of the baseline,
    registers, spills, shared memory, occupancy, predicted time, findings, and the results of what has changed.

    A PATH is a file, a kernel of it or a folder; without one, the files that the baseline names.
    """
    from tritonforge.regression.baseline_file import read_baseline

    root = workspace_root(Path(paths[0].partition("::")[0]) if paths else Path.cwd())
    file = options.pop("baseline_file") or root / BASELINE
    baseline = read_baseline(file)
    if baseline is None and not options["update"]:
        raise UsageError(f"there is no baseline at {_shown(file)}.", "Make one: tritonforge check PATH --update.")
    files = _files(paths, baseline, root, _shown(file))
    workspace = open_workspace(files[0].root if files else root)
    named = {argument.partition("::")[2] for argument in paths} - {""}
    return run(_check(files, workspace, baseline, file, named, narrowed=paths != (), **options))


async def _check(
    files: tuple[Selected, ...],
    workspace: Workspace,
    before: Baseline | None,
    file: Path,
    named: set[str],
    *,
    narrowed: bool,
    update: bool,
    target_name: str | None,
    no_run: bool,
    min_effect: float,
    runs: int,
    gate: bool,
    strict: bool,
    show_ignored: bool,
    output_format: str,
) -> int:
    from tritonforge.diagnosis.inspect_many import Part
    from tritonforge.domain.baseline import Baseline
    from tritonforge.regression.baseline_file import read_baseline, write_baseline
    from tritonforge.regression.checking import Check
    from tritonforge.regression.comparisons import gone
    from tritonforge.regression.judging import Options
    from tritonforge.regression.merging import differences

    for one in files:
        for error in one.analysis.errors:
            warn(f"{error.file}:{error.line}: {error.message}")
    options = Options(min_effect / 100.0, runs, gate)
    comparisons: tuple[Comparison, ...] = ()
    with Progress() as progress:
        parts = [
            Part(
                workspace.workload(one, allow_run=not no_run, progress=progress, named=files),
                one.kernels,
                one.named,
            )
            for one in files
        ]
        async with target(workspace, target_name, progress, at_leisure=True) as session:
            checking = Check(session, workspace.store, before or Baseline(), options, progress.say)
            checking.lapsed += workspace.settings.lapsed()
            await checking.look(parts, update=update)
            if update:
                # Measuring took a while: what somebody else wrote meanwhile, of another kernel or GPU, stays.
                meanwhile = await asyncio.to_thread(read_baseline, file)
                checking.baseline = meanwhile or Baseline()
                after = checking.updated()
            else:
                found = await checking.compare()
                scopes = {(one.analysis.file, kernel.name) for one in files for kernel in one.analysis.kernels}
                looked = {one.analysis.file for one in files} | (set() if narrowed else set(checking.baseline.files))
                comparisons = (*found, *gone(checking.baseline, scopes, looked, checking.gpu))
            result = checking.result(comparisons, file=_shown(file))
    if update:
        failed = checking.left_out()
        for sentence in failed:
            warn(f"not in the baseline: {sentence}")
        changes = differences(checking.baseline, after)
        nothing = meanwhile is None and not after.entries  # a baseline of nothing would let every check pass
        if after != meanwhile and not nothing:
            await asyncio.to_thread(write_baseline, file, after)
        result = replace(result, updated=changes)
        _print(output_format, result, workspace.root, show_ignored=show_ignored)
        if nothing and not failed:
            warn("no baseline was written: there is nothing to put into it.")
        return 2 if failed or nothing else _unknown(checking, named)
    _print(output_format, result, workspace.root, show_ignored=show_ignored)
    if result.failing(strict=strict):
        return 1
    return _unknown(checking, named)


def _files(paths: tuple[str, ...], baseline: Baseline | None, root: Path, shown: str) -> tuple[Selected, ...]:
    """Return the files to check: those that the user names, else those of the baseline that are still there."""
    if paths:
        return select(paths)
    if baseline is None:
        mend = "Name files: tritonforge check PATH --update."
        raise UsageError("there is no baseline yet, so it is not clear what to measure.", mend)
    outside = next((one for one in baseline.files if not _is_inside(one)), None)
    if outside is not None:  # files that a baseline names are run, as if you had named them
        raise UsageError(f"{shown} names a file outside of its workspace: {outside!r}.", "Name the files to check.")
    there = [str(root / one) for one in baseline.files if (root / one).is_file()]
    if baseline.files and not there:
        raise UsageError(
            f"none of the files that {shown} names is there.", "Run it in their workspace, or name a PATH."
        )
    recorded = {(entry.file, entry.kernel) for entry in baseline.entries}
    return tuple(
        replace(one, kernels=tuple(k for k in one.kernels if (one.analysis.file, k.name) in recorded))
        for one in select(there)
    )


def _is_inside(file: str) -> bool:
    return "\0" not in file and not PurePath(file).is_absolute() and ".." not in PurePath(file).parts


def _unknown(checking: Check, named: set[str]) -> int:
    """Return the exit code for kernels of which no launch is known: those that were named by themselves count."""
    for kernel, why in checking.unknown:
        if {kernel.name, kernel.simple_name} & named:
            warn(f"{kernel.file}::{kernel.name}: {why}")
            return NoLaunchKnown.exit_code
    return 0


def _shown(file: Path) -> str:
    """Return a path as a user would write it here."""
    try:
        return file.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return str(file)


def _print(output_format: str, result: CheckResult, root: Path, *, show_ignored: bool) -> None:
    base, prefix = repository(root)
    if output_format != "text":
        speak_utf8()
    if output_format == "text":
        from tritonforge.report.text_check import check_text

        print_lines(check_text(result, width=text_width(), show_ignored=show_ignored))
    elif output_format == "json":
        from tritonforge.report.json_check import check_json

        print_json(check_json(result))
    elif output_format == "junit":
        from tritonforge.report.junit_check import check_junit

        sys.stdout.write(check_junit(result).rstrip("\n") + "\n")
    elif output_format == "sarif":
        from tritonforge.report.sarif_check import check_sarif

        print_json(check_sarif(result, root=base.as_uri(), prefix=prefix, version=__version__))
    else:
        from tritonforge.report.github_check import check_commands

        sys.stdout.writelines(f"{command}\n" for command in check_commands(result, prefix))
    _summarise(result, prefix)


def _summarise(result: CheckResult, prefix: str) -> None:
    """Add to the summary of the workflow's step, whatever the format: the report itself may go to a file."""
    from tritonforge.report.github_check import check_summary

    append_summary(check_summary(result, prefix))
