"""An open target: its worker, what it compiles for, and whether it can measure."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from tritonforge.config import AUTO, LOCAL, OFFLINE, Settings, resolve_target
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.messages import Describe
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.target import GpuInfo, Target, WorkerInfo
from tritonforge.jobs.client import Worker
from tritonforge.jobs.errors import JobError
from tritonforge.jobs.known import KnownTargets
from tritonforge.jobs.lazy import LazyWorker
from tritonforge.jobs.reach import reach

INSTALL = "Install both there (pip install torch triton), or name another interpreter or target in tritonforge.toml."


@dataclass(frozen=True)
class Session:
    """A connected target. `measures` says whether times come from its GPU; otherwise they are predicted."""

    target: Target
    worker: Worker
    described: WorkerInfo
    arch: str
    measures: bool

    @property
    def gpu(self) -> GpuInfo | None:
        """The GPU that is measured on, or None on an offline target."""
        return self.described.gpus[0] if self.measures else None

    @property
    def info(self) -> TargetInfo:
        """What results say of the target."""
        gpu = self.gpu
        return TargetInfo(
            name=self.target.name,
            kind="gpu" if self.measures else "offline",
            gpu=gpu.name if gpu else None,
            driver=gpu.driver if gpu else None,
            torch=self.described.torch,
            triton=self.described.triton,
        )


@asynccontextmanager
async def open_session(
    settings: Settings,
    name: str | None = None,
    *,
    python: str | None = None,
    warm: Sequence[Literal["compile", "interpret"]] = ("compile", "interpret"),
    known: KnownTargets | None = None,
) -> AsyncIterator[Session]:
    """Connect to the target called `name` (default: the configured one) and see what it can do.

    `auto` becomes the local GPU where there is one, else the configured default, else the embedded offline target.
    `python` is the interpreter to use where the target names none, `warm` what is going to be needed, as `connect`
    takes it. Where `known` tells what the worker would say, it is started with the first job, and may not be needed at
    all.

    Raises:
        UsageError: when no such target is configured.
        TargetUnreachable: when its worker does not start, or lacks torch or triton.
    """
    wanted = resolve_target(settings, name)
    fallback = settings.default_target
    async with AsyncExitStack() as stack:

        async def opened(target: Target, *, automatic: bool = False) -> Session:
            if target.python is None and python and not target.command:  # it is an interpreter of this machine
                target = dataclasses.replace(target, python=python)
            return await stack.enter_async_context(_open(target, settings, warm=warm, known=known, automatic=automatic))

        if wanted is not AUTO:
            yield await opened(wanted)
            return
        local = settings.targets.get(LOCAL.name, LOCAL)
        if fallback == AUTO.name:
            yield await opened(local, automatic=True)
            return
        try:
            session = await opened(local, automatic=True)
        except TargetUnreachable:
            session = None
        if session is None or not session.measures:
            await stack.aclose()
            session = await opened(resolve_target(settings, fallback))
        yield session


@asynccontextmanager
async def _open(
    target: Target,
    settings: Settings,
    *,
    warm: Sequence[Literal["compile", "interpret"]],
    known: KnownTargets | None,
    automatic: bool,
) -> AsyncIterator[Session]:
    async with AsyncExitStack() as stack:

        async def start() -> Worker:
            return await stack.enter_async_context(
                reach(target, limits=settings.limits, warm=warm, sending=settings.sending)
            )

        described = await known.recall(target) if known is not None else None
        if described is not None:
            worker: Worker = LazyWorker(described, start)
        else:
            worker = await start()
            described = await _describe(worker, target)
            if known is not None:
                await known.keep(target, dataclasses.replace(described, lanes=worker.hello.lanes))
        yield _session(target, worker, described, automatic=automatic)


async def _describe(worker: Worker, target: Target) -> WorkerInfo:
    try:
        described = await worker.run(Describe())
    except JobError as error:
        if error.kind != "unsupported":
            raise
        raise TargetUnreachable(error.message) from error
    if described.torch is None or described.triton is None:
        missing = " and ".join(n for n in ("torch", "triton") if getattr(described, n) is None)
        raise TargetUnreachable(f"{described.executable} on target '{target.name}' has no {missing}.", INSTALL)
    return described


def _session(target: Target, worker: Worker, described: WorkerInfo, *, automatic: bool) -> Session:
    if automatic and not described.gpus:
        target = dataclasses.replace(OFFLINE, python=target.python)
    measures = target.arch is None
    if measures and not described.gpus:
        raise TargetUnreachable(
            f"target '{target.name}' has no GPU that PyTorch can use.",
            "Use --target offline, or give the target an arch to compile for.",
        )
    arch = described.gpus[0].arch if measures else str(target.arch)
    return Session(target, worker, described, arch, measures)
