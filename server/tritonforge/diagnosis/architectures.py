"""Which architectures a target's Triton compiles for, found out by compiling a small kernel for each."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tritonforge.diagnosis.probe import SMALL, probe_program
from tritonforge.domain.errors import UsageError
from tritonforge.domain.messages import Compile, Limits
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.jobs.together import all_of
from tritonforge.store import Store

OFFERED = (
    "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121",
    "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201",
)  # fmt: skip
"""Those that are tried when somebody has asked for one that does not work."""
_LIMITS = Limits(seconds=60.0)


async def require_architectures(session: Session, archs: Sequence[str], store: Store) -> None:
    """Check that the target's Triton compiles for all of `archs`. What was found out is remembered in `store`.

    Raises:
        UsageError: when it does not, with those that it compiles for.
    """
    known = await _tried(session, archs, store)
    wrong = [arch for arch in dict.fromkeys(archs) if known[arch]]
    if wrong:
        known = await _tried(session, OFFERED, store)
        able = [arch for arch in OFFERED if not known[arch]]
        raise UsageError(
            f"Triton {session.described.triton} does not compile for {_listed(wrong, 'or')}.",
            f"It does for {_listed(able, 'and')}." if able else "",
        )


async def _tried(session: Session, archs: Sequence[str], store: Store) -> dict[str, str]:
    """Return for each of `archs` why a small kernel does not compile for it; an empty text where it does."""
    described = session.described
    triton = (
        described.executable,
        described.python,
        described.torch or "",
        described.triton or "",
        *session.target.command,
    )
    known = dict(store.architectures(triton))
    missing = [arch for arch in dict.fromkeys(archs) if arch not in known]
    if missing:
        with tempfile.TemporaryDirectory(prefix="tritonforge-probe-") as folder:
            reasons = await all_of(_try(session, Path(folder), arch) for arch in missing)
        known |= dict(zip(missing, reasons, strict=True))
        # A failure may be a passing one (memory), and is rare enough to be seen again.
        store.put_architectures(triton, {arch: reason for arch, reason in known.items() if not reason})
    return known


async def _try(session: Session, folder: Path, arch: str) -> str:
    try:
        result = await session.worker.run(Compile(probe_program(folder), SMALL, arch, artefacts=()), limits=_LIMITS)
    except JobError as error:  # an LLVM that does not know a processor ends its process
        if error.kind == "environment":
            raise
        return error.failure.message
    return next((one.error for one in result.launches if one.error), "" if result.launches else "nothing was compiled")


def _listed(names: Sequence[str], word: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
