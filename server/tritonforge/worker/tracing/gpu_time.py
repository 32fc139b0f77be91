"""Device times of every kernel of the process by name, Triton's or not: summed up by CUPTI while the program runs.

Proton, which ships with Triton, adds up the device's own times by kernel name, so that a week of training takes no more
memory than a second. It is started when the program initialises CUDA (never before, and never in a process that does
not), and writes when the process ends. CUPTI serves one client at a time: where the program profiles itself, with
`torch.profiler` or Proton, ours makes way and says so. A process that is killed leaves no times.

`NAME.gputime` in the spool says what became of it (see `GpuTimeNote`), `NAME.hatchet` has the times.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tritonforge.domain.program import GpuTimeNote

_EXIT_WAIT_S = 60.0
"""How long the end of a program may wait for kernels that it left running, so that they are counted."""
_ABRUPT_WAIT_S = 5.0


def start(folder: str, options: dict[str, Any], imported: Any) -> None:  # noqa: ARG001 - what `starting` calls
    """Count the device times of this process, and of those forked from it, once they use a GPU."""
    session = Session(options["spool"])
    # Registered before any code of the program's, so that it runs after all that the program registers.
    atexit.register(session.finish)
    imported.when(("torch",), session.arm)


class Session:
    """At most one Proton session in each process."""

    def __init__(self, spool: str) -> None:
        self.spool = spool
        self.pid = 0
        self.path = ""
        self.proton: Any = None
        self.number: Any = None
        self.note: GpuTimeNote | None = None
        self._restore: list[Callable[[], None]] = []

    def arm(self) -> None:
        """Wait for the program to initialise CUDA; never raises, for it is called in the middle of `import torch`."""
        with contextlib.suppress(Exception):
            self._arm()

    def _arm(self) -> None:
        from tritonforge.worker.tracing.recording import gpu_is_there

        torch = sys.modules["torch"]
        if not gpu_is_there() or not (torch.version.cuda or getattr(torch.version, "hip", None)):
            return
        cuda = torch.cuda
        if cuda.is_initialized():
            self.begin()
            return
        initialise = cuda._lazy_init

        @functools.wraps(initialise)
        def _lazy_init() -> None:
            initialise()
            # Not with `_lazy_call`: what that runs holds a lock that importing triton may want.
            if cuda.is_initialized():
                if cuda._lazy_init is _lazy_init:
                    cuda._lazy_init = initialise
                self.begin()

        cuda._lazy_init = _lazy_init

    def begin(self) -> None:
        """Start counting in this process; never raises."""
        if self.pid == os.getpid():
            return
        self.pid = os.getpid()
        with contextlib.suppress(Exception):
            self._begin()

    def _begin(self) -> None:
        self.path = os.path.join(self.spool, f"{self.pid}-{time.monotonic_ns()}")  # noqa: PTH118 - pathlib imports slowly
        from tritonforge.domain.program import GpuTimeNote  # not before: every process of the program pays for it

        self.note = GpuTimeNote(self.pid, "running", began_ns=time.monotonic_ns(), gpus=_gpus())
        refusal = _who_profiles()
        try:
            if not refusal:
                self._start_proton()
        except Exception as error:
            refusal = f"Proton could not start ({_said(error)})"
        if refusal:
            self._say("refused", refusal)
            return
        self._say("running")
        self._watch()

    def _start_proton(self) -> None:
        from triton import profiler as proton

        hip = getattr(sys.modules["torch"].version, "hip", None)
        number = proton.start(self.path, backend="roctracer" if hip else "cupti")
        if number is None:
            raise RuntimeError("it is switched off")
        # The program's own scopes stay the no-ops that they are without us.
        _set_proton_flag(on=False)
        self.proton, self.number = proton, number

    def _watch(self) -> None:
        """Make way when the program starts a profiler of its own, and finish before `os._exit`."""
        profiler = sys.modules.get("torch.autograd.profiler")
        for name in ("_prepare_profiler", "_enable_profiler"):
            if hasattr(profiler, name):
                self._before(profiler, name, lambda args: "torch.profiler" if _wants_device(args) else "")
        for module in ("triton.profiler", "triton.profiler.profile"):
            if module in sys.modules:
                self._before(sys.modules[module], "start", lambda _: "Proton")
        exit_now = os._exit

        @functools.wraps(exit_now)
        def _exit(status: int) -> None:
            self.finish(wait_s=_ABRUPT_WAIT_S)
            exit_now(status)

        os._exit = _exit  # type: ignore[assignment]
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            from multiprocessing.util import Finalize

            # Children of multiprocessing end without what `atexit` knows.
            Finalize(None, self.finish, exitpriority=-1000)

    def _before(self, module: Any, name: str, who: Callable[[tuple[Any, ...]], str]) -> None:
        original = getattr(module, name)

        @functools.wraps(original)
        def giving_way(*args: Any, **kwargs: Any) -> Any:
            profiler = who((*args, *kwargs.values()))
            if profiler:
                self.finish(because=f"the program started {profiler}, and CUPTI serves one profiler at a time")
            return original(*args, **kwargs)

        setattr(module, name, giving_way)

        def restore() -> None:
            if getattr(module, name) is giving_way:
                setattr(module, name, original)

        self._restore.append(restore)

    def finish(self, because: str = "", wait_s: float = _EXIT_WAIT_S) -> None:
        """Write what was counted; `because` says why it is not the whole run. Never raises, and works once."""
        # A process forked after CUDA was initialised has a copy of the session that is not its own.
        if self.proton is None or self.pid != os.getpid():
            return
        proton, self.proton = self.proton, None
        with contextlib.suppress(Exception):
            from tritonforge.worker.tracing.gpu_time_ending import settled

            for restore in self._restore:
                restore()
            if not settled(sys.modules["torch"].cuda.synchronize, wait_s):
                self._say("refused", f"the GPU was still busy {wait_s:.0f} s after the process had ended")
                return
            try:
                proton.finalize(self.number)
            except Exception as error:
                self._say("refused", f"Proton could not write its times ({_said(error)})")
            else:
                self._say("partial" if because else "complete", because)

    def _say(self, state: Any, reason: str = "") -> None:
        if self.note is None:
            return
        self.note = dataclasses.replace(self.note, state=state, reason=reason, ended_ns=time.monotonic_ns())
        text = json.dumps(self.note.as_json())
        with open(f"{self.path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib imports slowly
            file.write(text)
        os.replace(f"{self.path}.new", f"{self.path}.gputime")  # noqa: PTH105


def _who_profiles() -> str:
    """Say which profiler the program is under already, "" when none."""
    if getattr(sys.modules.get("torch.autograd.profiler"), "_is_profiler_enabled", False):
        return "the program was under torch.profiler already, and CUPTI serves one profiler at a time"
    flags = _proton_flags()
    if getattr(flags, "profiling_on", False) or getattr(flags, "command_line", False):
        return "the program was under Proton already, and CUPTI serves one profiler at a time"
    return ""


def _wants_device(args: tuple[Any, ...]) -> bool:
    """Tell whether a set of profiler activities among `args` has more than the CPU in it."""
    return any(
        getattr(activity, "name", "CPU") != "CPU" for a in args if isinstance(a, (set, frozenset)) for activity in a
    )


def _proton_flags() -> Any:
    module = sys.modules.get("triton.profiler.flags")
    return getattr(module, "flags", module)  # an object since Triton 3.4, the module itself before


def _set_proton_flag(*, on: bool) -> None:
    flags = _proton_flags()
    if hasattr(flags, "profiling_on"):
        flags.profiling_on = on


def _gpus() -> tuple[str, ...]:
    cuda = sys.modules["torch"].cuda
    with contextlib.suppress(Exception):
        return tuple(str(cuda.get_device_name(index)) for index in range(cuda.device_count()))
    return ()


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
