"""`optimize` with several targets: their versions set beside each other, and the one that is kept."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.cli.running import Progress, Workspace
from tritonforge.cli.selecting import Selected
from tritonforge.domain.across import AcrossResult
from tritonforge.domain.results import OptimizeResult
from tritonforge.jobs.session import Session

Found = tuple[OptimizeResult, Selected]


async def compare_targets(
    results: Sequence[Found],
    sessions: Sequence[Session],
    workspace: Workspace,
    progress: Progress,
    *,
    allow_run: bool,
    named: tuple[Selected, ...],
    pin: str | None,
) -> list[tuple[AcrossResult, Selected]]:
    """Return the matrix of every kernel that has a result on each of the open targets, one source chosen."""
    from tritonforge.diagnosis.assessment import yardstick
    from tritonforge.optimize import Step
    from tritonforge.optimize.across import Party, across
    from tritonforge.profiling.ceilings import ceilings_of

    by_kernel: dict[object, list[Found]] = {}
    for result, file in results:
        by_kernel.setdefault((result.kernel.file, result.kernel.name, result.kernel.range), []).append((result, file))
    found: list[tuple[AcrossResult, Selected]] = []
    for pairs in by_kernel.values():
        if len(pairs) != len(sessions):
            continue  # it could not be run on one of them, which was said
        parties: list[Party] = []
        for (result, file), session in zip(pairs, sessions, strict=True):
            workload = workspace.workload(file, allow_run=allow_run, progress=progress, named=named, pin=pin)
            subject = await workload.with_users(await workload.subject_of(result.kernel, session))
            judge = yardstick(session, ceilings=await ceilings_of(session, workspace.store))
            parties.append(Party(session, subject, judge, result))

        def show(step: Step, name: str = pairs[0][0].kernel.name) -> None:
            progress.say(f"{name} across targets: {step.stage} · {step.detail}")

        found.append((await across(parties, show), pairs[0][1]))
    return found
