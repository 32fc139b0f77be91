"""A target's worker, wherever it is: a process of this machine, or one behind a command, with its files sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import PurePath
from typing import Literal

from tritonforge.config.settings import SendingSettings
from tritonforge.domain.messages import Limits
from tritonforge.domain.target import Target
from tritonforge.jobs.client import Heartbeat, Worker, connect
from tritonforge.jobs.remote import Patience, remote
from tritonforge.targets import ProcessTransport

_SECONDS = 60.0
_QUEUES = frozenset(["srun", "salloc", "bsub", "qrsh", "qsub", "condor_run", "flux"])
_QUEUED_S = 1800.0
"""A scheduler may have to wait until a machine is free."""


@asynccontextmanager
async def reach(
    target: Target,
    *,
    limits: Limits | None = None,
    warm: Sequence[Literal["compile", "interpret"]] = ("compile", "interpret"),
    log: Callable[[str], None] | None = None,
    heartbeat: Heartbeat | None = None,
    patience: Patience | None = None,
    sending: SendingSettings | None = None,
) -> AsyncIterator[Worker]:
    """Open the worker of `target`, and end it when the block is left; see `connect`.

    Behind a command, the files that jobs need travel with them, within the bounds of `sending`, and a connection that
    is lost is made again.

    Raises:
        TargetUnreachable: when no worker answers, with the reason.
    """
    if not target.command:
        async with connect(target, limits=limits, warm=warm, log=log) as worker:
            yield worker
        return
    queued = any(PurePath(part).name in _QUEUES for part in target.command)
    transport = ProcessTransport(target, {"warm": list(warm), "files": True}, log)

    def dial() -> AbstractAsyncContextManager[Worker]:
        return connect(
            target,
            limits=limits,
            timeout=_QUEUED_S if queued else _SECONDS,
            transport=transport,
            heartbeat=heartbeat or Heartbeat(),
        )

    async with remote(target.name, dial, limits, patience, sending) as worker:
        yield worker
