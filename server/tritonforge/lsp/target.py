"""What is known of the target that kernels run on, and whether everything works there."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

from tritonforge.config import AUTO, LOCAL, Settings, resolve_target
from tritonforge.domain.errors import UsageError
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.lsp.sessions import key_of
from tritonforge.lsp.state import State
from tritonforge.report import wording
from tritonforge.targets.text import shown


def root_of(state: State) -> Path:
    """Return the workspace that questions about targets are about: an open document's, else the client's first."""
    snapshots = (state.snapshot(uri) for uri in state.documents.uris)
    root = next((snapshot.root for snapshot in snapshots if snapshot is not None), None)
    return root if root is not None else state.workspaces.place(None, "")[0]


def details(settings: Settings) -> dict[str, str]:
    """Return what each target that can be chosen is, in a few words for a picker."""
    return {"auto": "the GPU of this machine, else offline"} | {
        name: _detail(one) for name, one in settings.targets.items()
    }


def _detail(one: Target) -> str:
    where = f"through {shown(one.command)}" if one.command else ""
    what = f"compile for {one.arch} and verify without a GPU" if one.arch else "the GPU of this machine"
    if one.command and not one.arch:
        what = "a GPU"
    return f"{what}, {where}" if where else what


async def describe(state: State, root: Path) -> dict[str, Any]:
    """Return the target's name and, as far as a worker has told, its GPU and versions. No worker is started for it."""
    settings = state.settings(root)
    name = state.options.target or settings.default_target
    try:
        wanted = resolve_target(settings, name)
    except UsageError as error:
        return {"target": name, "kind": "unknown", "problem": str(error)}
    target = LOCAL if wanted is AUTO else wanted
    python = target.python or state.options.interpreter
    answer: dict[str, Any] = {
        "target": name,
        "kind": "offline" if target.arch else "unknown",
        "command": list(target.command),
        "arch": target.arch,
        "python": python,
        "gpu": None,
        "problem": None,
    }
    key = key_of(settings, name, state.options.interpreter)
    info = state.sessions.info(key)
    if info is None and state.options.trusted and state.workspaces.of(root).has_store:
        if key not in state.sessions.remembered:  # looking starts a Python: once is enough
            here = dataclasses.replace(target, python=python)
            state.sessions.remembered[key] = await _remembered(state, root, here, automatic=wanted is AUTO)
        info = state.sessions.remembered[key]
    if info is not None:
        answer |= {"kind": info.kind, "gpu": info.gpu, "torch": info.torch, "triton": info.triton}
        answer["text"] = wording.target(info)
    problem = state.sessions.problem(key)
    return answer | ({"problem": problem} if problem else {})


async def _remembered(state: State, root: Path, target: Target, *, automatic: bool) -> TargetInfo | None:
    from tritonforge.jobs.known import KnownTargets

    try:
        store = await asyncio.to_thread(state.workspaces.of(root).store)
    except UsageError:
        return None  # a newer TritonForge wrote it; jobs say so
    described = await KnownTargets(store).recall(target)
    return _info(target, described, automatic=automatic) if described is not None else None


def _info(target: Target, described: WorkerInfo, *, automatic: bool) -> TargetInfo:
    gpu = described.gpus[0] if described.gpus and target.arch is None else None
    name = "offline" if automatic and gpu is None else target.name
    return TargetInfo(
        name,
        "gpu" if gpu else "offline",
        gpu.name if gpu else None,
        gpu.driver if gpu else None,
        described.torch,
        described.triton,
    )


async def doctor(state: State, root: Path) -> dict[str, Any]:
    """Examine the target by using it, and return the report: as the command line's JSON, and as text.

    Raises:
        UsageError: no such target is configured.
    """
    from tritonforge.diagnosis.doctor import examine
    from tritonforge.report.json_doctor import doctor_json
    from tritonforge.report.text import plain
    from tritonforge.report.text_doctor import doctor_text

    store = await asyncio.to_thread(state.workspaces.of(root).store)
    result = await examine(state.settings(root), state.options.target, store, python=state.options.interpreter)
    return {**doctor_json(result), "text": plain(doctor_text(result)), "ok": result.ok}
