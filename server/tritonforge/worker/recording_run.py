"""Run an entry point of a program and describe what it launches, whoever takes the launches."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tritonforge.domain.messages import Record, RecordResult
from tritonforge.worker.calling import MAIN, MODULE, seed_everything
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.fakecuda import faked
from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.launching import LaunchEvent, taking_launches
from tritonforge.worker.loading import load, raise_user_error, reload, run_as_main
from tritonforge.worker.recording import Recorder

STEERED = "the program reads numbers that its kernels compute"

Taking = Callable[[Callable[[LaunchEvent], Any]], contextlib.AbstractContextManager[None]]
"""Hands each launch inside a block to a function."""


def record_with(request: Record, context: JobContext, taking: Taking) -> RecordResult:
    """Record with launches taken by `taking`; `taking_launches` launches nothing, others may run kernels.

    Raises:
        JobFailed: `user-error`, when the user's code raises before it launched anything.
    """
    seed_everything(0)
    runs_kernels = taking is not taking_launches
    with faked() as mode:
        recorder = Recorder(request.program, mode, getattr(context, "found", None), runs_kernels=runs_kernels)
        with taking(recorder.take), _unchecked_results():
            try:
                _run(request, recorder)
            except (Exception, SystemExit) as error:
                if not recorder.calls():
                    raise_user_error(error, request.program)
                recorder.failures.append(("", _after_recording(error)))
        calls = recorder.calls()
        if mode.steered:
            recorder.failures.append(("", f"{STEERED} ({mode.steered}), so its later launches may be others"))
    return RecordResult(calls, tuple(dict.fromkeys(recorder.failures)), context.output())


@contextlib.contextmanager
def _unchecked_results() -> Iterator[None]:
    """Let `assert_close` pass: kernels do not run while recording, and what is launched after a check counts too."""
    patches = Patches()
    patches.set(torch.testing, "assert_close", lambda *_a, **_k: None)
    try:
        yield
    finally:
        patches.restore()


def _after_recording(error: BaseException) -> str:
    # Kernels were not run, so a program that checks what they computed is bound to end like this.
    said = " ".join(str(error).split())[:200]
    return f"the program stopped after the calls that were recorded: {type(error).__name__}: {said}"


def _run(request: Record, recorder: Recorder) -> None:
    program = request.program
    if request.entry == "main":
        with recorder.watching(MAIN):
            run_as_main(program)
        return
    if request.entry == "module":
        with recorder.watching(MODULE):
            reload(program)
        return
    loaded = load(program)
    with loaded.active() as module:
        function: Any = module
        for part in request.name.split("."):
            function = getattr(function, part, None)
        if not callable(function):
            raise JobFailed("user-error", f"{program.file} has no function {request.name}.", file=program.file)
        arguments = _arguments(function, request.name, program.file)
        with recorder.watching(request.name):
            function(**arguments)


def _arguments(function: Callable[..., Any], name: str, file: str) -> dict[str, Any]:
    """Return arguments for a test: none, or the first values of its `pytest.mark.parametrize`.

    Raises:
        JobFailed: `user-error`, when it needs arguments that nothing gives.
    """
    given: dict[str, Any] = {}
    for mark in getattr(function, "pytestmark", ()):
        if getattr(mark, "name", "") == "parametrize" and len(mark.args) >= 2:
            names = (
                [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
            )
            first = next(iter(mark.args[1]), ())
            first = getattr(first, "values", first) if type(first).__name__ == "ParameterSet" else first
            values = (
                list(first) if len(names) > 1 or (type(first) is tuple and len(first) == len(names) == 1) else [first]
            )
            given.update(zip(names, values, strict=False))
    needed = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}
    ]
    missing = [n for n in needed if n not in given]
    if missing:
        raise JobFailed(
            "user-error", f"{name} needs arguments ({', '.join(missing)}), so it cannot be run by itself.", file=file
        )
    return {n: v for n, v in given.items() if n in inspect.signature(function).parameters}
