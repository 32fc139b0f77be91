"""The compiler's listings of a kernel's launches: asked for when somebody wants to read them, and kept nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tritonforge.compilation.listings import ARTEFACTS, listings
from tritonforge.domain.kernel_report import Listing
from tritonforge.domain.messages import Compile, CompileResult
from tritonforge.jobs.session import Session
from tritonforge.workload.launches import matches, to_launch
from tritonforge.workload.subject import Subject

MOST_LAUNCHES = 4
"""Texts of more launches would make a page of megabytes that nobody reads."""


async def listings_of(subject: Subject, session: Session, wanted: Sequence[str]) -> dict[str, tuple[Listing, ...]]:
    """Repeat the calls of `subject` for the compiler's texts, which are in its caches; returns them by launch id.

    `wanted` are ids of launches, the most important first. A launch that no call makes any more is left out.

    Raises:
        JobError: when a call cannot be repeated.
    """
    chosen = set(wanted[:MOST_LAUNCHES])
    found: dict[str, tuple[Listing, ...]] = {}
    for call in subject.calls:
        if chosen <= found.keys():
            break
        request = Compile(subject.program(), call, session.arch, (subject.kernel.name,), ARTEFACTS)
        result = await session.worker.run(request)
        # Beside the event loop: reading ten thousand instructions takes a while.
        found = await asyncio.to_thread(_read, result, subject, chosen - found.keys()) | found
    return found


def _read(result: CompileResult, subject: Subject, wanted: set[str]) -> dict[str, tuple[Listing, ...]]:
    kernel = subject.kernel
    path = str(Path(subject.root) / subject.file)
    return {
        identity: listings(one.artefacts, path, kernel.range.start.line)
        for one in result.launches
        if one.error is None and matches(kernel, one.launch)
        if (identity := to_launch(kernel, one.launch).id) in wanted
    }
