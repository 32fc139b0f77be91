"""`Target`: where things run, and what was found there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """How to reach a worker and which architecture it compiles for.

    `command` is a prefix that gives a pipe (empty: a local process). `python` is the interpreter there (None: the one
    that runs us). `arch` set means an offline target: compile for it and verify in Triton's interpreter.
    """

    name: str
    command: tuple[str, ...] = ()
    python: str | None = None
    quoting: Literal["shell", "none"] = "none"
    arch: str | None = None
    gpu: str | None = None
    """For an offline target: the GPU whose public figures predict times; None picks the usual one for `arch`."""


@dataclass(frozen=True)
class GpuInfo:
    """One GPU of a worker's machine. `arch` as compilers name it (`sm_90`), `memory_bytes` its whole memory."""

    name: str
    arch: str
    sms: int
    memory_bytes: int
    driver: str = ""


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker says of itself in its handshake."""

    protocol: int
    python: str
    executable: str
    platform: str
    torch: str | None
    triton: str | None
    cores: int
    lanes: int
    gpus: tuple[GpuInfo, ...] = ()
    problems: tuple[str, ...] = ()
