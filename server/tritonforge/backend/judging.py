"""Another version of a kernel through the gate, and the autotuned form of a suggestion."""

from __future__ import annotations

import asyncio

from tritonforge.analysis import analyze
from tritonforge.backend.facts import CodeState, state_of
from tritonforge.backend.tasks import Version
from tritonforge.domain.candidate import Candidate, Suggestion, Verdict
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, Launch
from tritonforge.domain.source import apply_edits
from tritonforge.jobs.session import Session
from tritonforge.report.wording import compile_error
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.autotuned import autotuned
from tritonforge.rewrite.rules.launch_parameters import NAME
from tritonforge.verify import Gate, reference_beside
from tritonforge.workload.subject import Subject


async def judge(session: Session, subject: Subject, version: Version) -> Verdict:
    """Put a version through the gate, as `tritonforge verify` does.

    Raises:
        UsageError: the original does not compile.
    """
    program, kernel = subject.program(), subject.kernel
    gate = Gate(
        session.worker,
        program,
        subject.calls,
        on_device=session.measures,
        arch=session.arch,
        kernel=kernel,
        reference=await asyncio.to_thread(reference_beside, program, subject.calls),
    )
    before = await gate.launched()
    if before.error:
        raise UsageError(f"The original does not compile for {session.arch}: {compile_error(before.error)}")
    text = _in_place_of(version, kernel, subject.calls)
    trialled = await gate.check(subject.program(text), candidate_kernel=version.kernel)
    return await gate.sanitised(subject.program(text), trialled.verdict)


def _in_place_of(version: Version, kernel: Kernel, calls: tuple[Call, ...]) -> str:
    # A direct launch names the kernel: the candidate's answers to the original's name, too.
    if version.kernel.name == kernel.name or not any(call.kernel_launch for call in calls):
        return version.text
    return f"{version.text}\n\n{kernel.name} = {version.kernel.name}\n"


def form_of(kernel: Kernel, text: str, suggestion: Suggestion, launch: Launch | None) -> Candidate | None:
    """Return a suggestion's portable form; None where it is more than values, or they cannot be left to a tuner."""
    rewrites = suggestion.trial.candidate.rewrites
    if launch is None or len(rewrites) != 1 or rewrites[0][0] != NAME:
        return None
    wanted = {name: int(value) for name, value in rewrites[0][1]}
    form = autotuned(kernel, text, wanted, launch)
    return None if isinstance(form, Refusal) else form


def state_after(kernel: Kernel, text: str, suggestion: Suggestion) -> CodeState | None:
    """Return the state of a kernel's code once a suggestion is applied to `text`; None where it is not found there."""
    edits = suggestion.trial.candidate.edits
    if any(edit.file != kernel.file for edit in edits):
        return None
    kernels = analyze(apply_edits(text, edits), kernel.file).kernels
    return next((state_of(one) for one in kernels if one.name == kernel.name), None)
