"""Runs a text of a kernel file on one case in a forked process, and brings back what came of it."""

from __future__ import annotations

import importlib.util
import io
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from cases import Case, Direct, Host
from fencing import Side, place, poisoned_allocations
from interpreting import Launches, install

_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Ran:
    """What a case left: per call the returned tensors and scalars, then the arguments; or how it failed."""

    values: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()
    programs: int = 0
    failure: str = ""


def import_file(path: Path, name: str) -> ModuleType:
    """Import a file under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def leaves(value: object) -> list[Any]:
    """Return the tensors and scalars of nested tuples, lists and dicts, in order."""
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in leaves(one)]
    if isinstance(value, tuple | list):
        return [leaf for one in value for leaf in leaves(one)]
    return [value]


def run(file: Path, host: str, case: Case, *, schedule: str, side: Side | None, seconds: float) -> Ran:
    """Run the calls of `case` on `file` in a child.

    Args:
        file: the kernel file, original or edited.
        host: the name of its host function.
        case: the calls.
        schedule: the order of programs.
        side: which side of each tensor is fenced; None for ordinary memory and an ordinary interpreter.
        seconds: after that long the child is killed.
    """
    receiver, sender = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=_child, args=(sender, file, host, case, schedule, side), daemon=True)
    child.start()
    sender.close()
    try:
        ran = torch.load(io.BytesIO(receiver.recv_bytes()), weights_only=False) if receiver.poll(seconds) else None
    except EOFError:
        child.join()
        code = child.exitcode or 0
        return Ran(failure=f"crashed: {signal.Signals(-code).name}" if code < 0 else f"ended with {code}")
    finally:
        if child.is_alive():
            child.kill()
        child.join()
        receiver.close()
    return ran or Ran(failure=f"ran for more than {seconds:g} s")


def _child(sender: Any, file: Path, host: str, case: Case, schedule: str, side: Side | None) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    torch.manual_seed(0)
    try:
        if side is not None:
            install(schedule, large_lanes=side == "start")
        ran = _run(file, host, case.calls, side)
    except Exception as error:  # noqa: BLE001  # a mutant may raise anything, and that is an answer
        ran = Ran(failure=f"raised {type(error).__name__}: {str(error)[:300]}")
    buffer = io.BytesIO()
    torch.save(ran, buffer)
    sender.send_bytes(buffer.getvalue())
    sender.close()
    os._exit(0)


def _run(file: Path, host: str, calls: Sequence[Host | Direct], side: Side | None) -> Ran:
    module = import_file(file, f"proof_{file.stem}")
    results: list[Any] = []
    before = Launches.programs
    for call in calls:
        placed = _placed(call.args if isinstance(call, Direct) else (call.args, call.kwargs), side)
        if isinstance(call, Direct):
            Launches.only = call.only
            getattr(module, call.kernel)[call.grid](*placed, **call.constants)
            results += leaves(placed)
        else:
            Launches.only = ()
            args, kwargs = placed
            if side is None:
                returned = getattr(module, host)(*args, **kwargs)
            else:
                with poisoned_allocations(side):
                    returned = getattr(module, host)(*args, **kwargs)
            results += [*leaves(returned), *leaves((args, kwargs))]
    strides = tuple((one.shape, one.stride(), one.dtype) for one in results if isinstance(one, torch.Tensor))
    return Ran(tuple(compact(one) for one in results), strides, Launches.programs - before)


def compact(value: object) -> Any:
    """Return a dense copy of a tensor that shares no memory; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone(memory_format=torch.contiguous_format)


def _placed(value: Any, side: Side | None, seen: dict[int, Any] | None = None) -> Any:
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen[id(value)] = value if side is None else place(value, side)
        return seen[id(value)]
    if isinstance(value, dict):
        return {name: _placed(one, side, seen) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_placed(one, side, seen) for one in value)
    return value
