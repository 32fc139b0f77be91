"""Which of the processes below the supervisor belong to which lane."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from tritonforge.worker.children import LaneProcess
from tritonforge.worker.lane import LANE_VARIABLE
from tritonforge.worker.processes import Process, environment

NOBODY = ""


def of_lanes(
    below: Mapping[int, Process], lanes: Sequence[LaneProcess], zygotes: Collection[int]
) -> dict[str, dict[int, Process]]:
    """Sort the processes in `below` (parents before children) by the name of the lane that they belong to.

    A process belongs to the lane it descends from. One that has left it (its parent ended, so that the supervisor
    became its parent) is known by having been seen there, by the name that a fork inherits, or by the environment that
    a program inherits. What none of this tells is `NOBODY`'s; zygotes are left out.
    """
    owned: dict[str, dict[int, Process]] = {NOBODY: {}, **{lane.name: {} for lane in lanes}}
    owner: dict[int, str] = {}
    supervisor = os.getpid()
    for pid, process in below.items():
        if process.parent == supervisor:
            name = None if pid in zygotes else _lane_of(process, lanes)
        else:
            name = owner.get(process.parent)
        if name is not None:
            owner[pid] = name
            owned[name][pid] = process
    return owned


def _lane_of(process: Process, lanes: Sequence[LaneProcess]) -> str:
    for lane in lanes:
        if process.pid == lane.pid or process.name == lane.name or (process.pid, process.started) in lane.seen:
            return lane.name
    inherited = environment(process.pid)
    return next((lane.name for lane in lanes if f"{LANE_VARIABLE}={lane.name}".encode() in inherited), NOBODY)
