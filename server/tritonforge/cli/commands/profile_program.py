"""`tritonforge profile -- COMMAND`: a whole program's Triton kernels by share of GPU time."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tritonforge.cli.rendering import print_lines, text_width
from tritonforge.cli.running import Progress, Workspace, open_workspace, run, warn
from tritonforge.config import workspace_root
from tritonforge.domain.errors import TargetUnreachable, TritonForgeError, UsageError
from tritonforge.domain.program import ProgramResult

if TYPE_CHECKING:
    from tritonforge.domain.profile import Ceilings
    from tritonforge.jobs.session import Session
    from tritonforge.workload.tracing_program import TracedProgram

COMMAND = "command"


class MaybeProgram(click.Command):
    """A command that takes another command after `--` instead of its own argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows the first `--` from click, whatever options it has."""
        program = None
        if "--" in args:
            at = args.index("--")
            args, program = args[:at], tuple(args[at + 1 :])
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            ctx.params[COMMAND] = program
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show both forms."""
        return [*super().collect_usage_pieces(ctx), "| -- COMMAND..."]


def output_option() -> Callable[[Any], Any]:
    """Declare `-o`."""

    def named(_context: click.Context, _option: click.Parameter, value: str | None) -> Path | None:
        if value == "":
            raise UsageError("-o names no file.", "Name one, or leave -o out.")
        return None if value is None else Path(value)

    return click.option(
        "-o", "--output", metavar="FILE", callback=named,
        help="With -- COMMAND: write the report as JSON there; the command keeps its stdout with --format json too.",
    )  # fmt: skip


def alone(kernel: str | None, report: Path | None) -> None:
    """Refuse what is about one kernel beside a program, rather than pass over it.

    Raises:
        click.UsageError: when there is any.
    """
    source = click.get_current_context().get_parameter_source
    if source("no_run") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--no-run forbids to run what stands after --. Leave one of them out.")
    for name, what in (("counters", "--counters"), ("pin", "--launch")):
        if source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{what} is for one kernel, not for a whole program.")
    for given, what in ((kernel, "PATH::KERNEL"), (report, "--report")):
        if given is not None:
            raise click.UsageError(f"{what} and -- COMMAND are two different profiles.")


@dataclass(frozen=True)
class Wanted:
    """What the user asked for beside the command."""

    target_name: str | None = None
    output: Path | None = None
    output_format: str = "text"

    @property
    def takes_stdout(self) -> bool:
        """Whether JSON goes to stdout, where it must stand alone: the command prints on stderr then."""
        return self.output_format == "json" and self.output is None


def profile_program(command: tuple[str, ...], wanted: Wanted) -> int:
    """Run `command`, print the ranking when it has ended, and return its exit code.

    Raises:
        UsageError: when there is no command, or the output cannot be written.
        CommandNotStarted: with the exit code that a shell gives.
    """
    from tritonforge.workload.tracing import store_calls
    from tritonforge.workload.tracing_program import trace_program

    if not command:
        raise UsageError("the command to profile is missing.", "Write it after --, as in -- python train.py.")
    if wanted.output is not None and (wanted.output.is_dir() or not wanted.output.absolute().parent.is_dir()):
        raise UsageError(f"{wanted.output} cannot be written.", "Name a file in a folder that exists.")
    workspace = open_workspace(workspace_root(Path.cwd()))
    arch = workspace.settings.targets["offline"].arch or "sm_90"
    with _stdout_on_stderr() if wanted.takes_stdout else contextlib.nullcontext():
        program = trace_program(command, workspace.root, arch=arch)
    exit_code = program.traced.exit_code
    try:
        store_calls(program.traced, workspace.root, workspace.store)
        result = run_judging(command, program, workspace, wanted.target_name)
        _show(result, wanted)
    except TritonForgeError as error:
        warn(str(error))
    return exit_code


def run_judging(
    command: tuple[str, ...], program: TracedProgram, workspace: Workspace, target_name: str | None
) -> ProgramResult:
    """Judge what the program launched, on the target."""
    results: list[ProgramResult] = []

    async def work() -> int:
        results.append(await _judged(command, program, workspace, target_name))
        return 0

    run(work())
    return results[0]


async def _judged(
    command: tuple[str, ...], program: TracedProgram, workspace: Workspace, target_name: str | None
) -> ProgramResult:
    from tritonforge.diagnosis.assessment import yardstick
    from tritonforge.diagnosis.profile_program import conclude, rank
    from tritonforge.diagnosis.program_shares import shares_of
    from tritonforge.jobs.session import open_session

    shares = shares_of(program.times, program.kernels)
    root = str(workspace.root)
    if not shares.triton:
        return conclude(command, program, shares, ((), ()))
    with Progress() as progress:
        progress.say("starting the worker …")

        def say(name: str) -> None:
            progress.say(f"judging {name} …")

        try:
            async with open_session(workspace.settings, target_name, python=_python(program)) as session:
                judge = yardstick(session, ceilings=await _ceilings(session, workspace))
                ranked = await rank(shares, root, session, judge, on_kernel=say)
                return conclude(command, program, shares, ranked, judge=judge)
        except TargetUnreachable as error:
            kernels, missing = await rank(shares, root, None, None)
            return conclude(command, program, shares, (kernels, (f"class and headroom: {error}", *missing)))


async def _ceilings(session: Session, workspace: Workspace) -> Ceilings | None:
    """Return measured ceilings; a program that left the GPU full or broken must not cost its ranking."""
    from tritonforge.jobs import JobError
    from tritonforge.profiling.ceilings import ceilings_of

    try:
        return await ceilings_of(session, workspace.store)
    except JobError as error:
        warn(f"ceilings could not be measured ({error.failure.message.rstrip('.')}); public figures stand in.")
        return None


def _python(program: TracedProgram) -> str | None:
    """Return the interpreter that ran the program: its packages are those that the kernels need."""
    for process in program.traced.trace.processes:
        if process.command and os.access(process.command[0], os.X_OK) and Path(process.command[0]).is_file():
            return os.path.abspath(process.command[0])  # noqa: PTH100 - a link is what makes an environment of it
    return None


def _show(result: ProgramResult, wanted: Wanted) -> None:
    from tritonforge.report.json_program import program_json
    from tritonforge.report.text_program import program_text

    if wanted.output is not None or wanted.output_format == "json":
        text = json.dumps(program_json(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        if wanted.output is None:
            sys.stdout.write(text)
        else:
            try:
                wanted.output.write_text(text, encoding="utf-8")
            except OSError as error:
                warn(f"{wanted.output} could not be written ({error.strerror}). Name another file with -o.")
    if wanted.output_format != "json":
        print_lines(program_text(result, width=text_width(stderr=True)), stderr=True)


@contextlib.contextmanager
def _stdout_on_stderr() -> Iterator[None]:
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
