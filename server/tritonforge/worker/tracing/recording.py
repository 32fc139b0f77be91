"""Record the launches and host calls of this process: started before its program, waiting for torch and Triton."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

_ON_BY_ENVIRONMENT = {"1", "true", "on", "yes", "y"}


def start(folder: str, options: dict[str, Any], imported: Any) -> None:
    """Wait for the imports that launches need. `options`: `root` (the workspace) and `arch` (to pretend)."""
    del folder
    process = _Process(options)
    imported.when(("torch",), process.guarded(process.pretend))
    imported.when(("torch", "triton"), process.guarded(process.record))
    imported.when(("torch", "triton.runtime.interpreter"), process.guarded(process.record_interpreted))


def gpu_is_there() -> bool:
    """Tell from the system whether this process may use a GPU: a process that initialised CUDA could not fork."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in {"", "-1", "NoDevFiles"}:
        return False
    try:
        devices = os.listdir("/dev")  # noqa: PTH208 - pathlib takes a while to import
    except OSError:
        return False
    return any((name.startswith("nvidia") and name[6:].isdigit()) or name in {"kfd", "dxg"} for name in devices)


def _interprets() -> bool:
    return os.environ.get("TRITON_INTERPRET", "").lower() in _ON_BY_ENVIRONMENT


class _Process:
    """What records in this process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._pretence: Any = None
        self._recorder: Any = None
        self._patches: Any = None
        self._mode = "gpu"
        self._clock: Any = None

    def guarded(self, then: Any) -> Any:
        """Return `then` with its failures kept to ourselves: without tracing, the program goes on."""

        def run() -> None:
            try:
                then()
            except Exception as error:
                from tritonforge.worker.tracing.spool import Spooled

                spool = self._recorder.spool if self._recorder else Spooled(self._options["spool"], self._describe)
                spool.fail("", f"nothing is recorded in a process: {type(error).__name__}: {error}"[:400])

        return run

    def pretend(self) -> None:
        """There is no GPU: have torch say that there is one, unless Triton's interpreter was asked for."""
        import torch

        if _interprets() or (gpu_is_there() and (torch.version.cuda or getattr(torch.version, "hip", None))):
            return
        from tritonforge.worker.tracing.pretending import Pretence

        self._pretence = Pretence(self._options.get("arch", "sm_90"))
        self._pretence.torch_side()
        self._mode = "pretended"

    def record(self) -> None:
        """Torch and Triton are there: see the launches."""
        from tritonforge.worker.tracing import running

        recorder = self._made()
        if self._pretence is not None:
            self._pretence.triton_side()
            running.pretended(recorder, self._pretence.mode, self._patches)
        elif not _interprets():
            from tritonforge.worker.tracing.clock import Clock
            from tritonforge.worker.tracing.graphs import Graphs

            self._clock = Clock(recorder.spool)
            running.on_gpu(recorder, self._clock, Graphs(recorder.spool), self._patches)
            atexit.register(self._clock.finish)

    def record_interpreted(self) -> None:
        """Triton's interpreter is there: see what it is given."""
        from tritonforge.worker.tracing import running

        running.interpreted(self._made(), self._patches)
        if _interprets():
            self._mode = "interpreted"

    def _made(self) -> Any:
        if self._recorder is not None:
            return self._recorder
        from tritonforge.worker.fakecuda.patches import Patches
        from tritonforge.worker.tracing.hosts import Hosts
        from tritonforge.worker.tracing.running import Recorder
        from tritonforge.worker.tracing.sightings import Sightings
        from tritonforge.worker.tracing.spool import Spooled
        from tritonforge.worker.values import Describing

        root = self._options["root"]
        spool = Spooled(self._options["spool"], self._describe)
        pretended = self._pretence is not None
        describing = Describing(unset=self._pretence.mode.unset) if pretended else Describing()
        hosts = Hosts(spool, root, describing, share=0.5 if pretended else 0.02)
        sightings = Sightings(spool, root, hosts, describing)
        self._patches = Patches()
        self._recorder = Recorder(spool, sightings, hosts)
        os.register_at_fork(after_in_child=self._forked)
        _hide_our_frames()
        hosts.start()
        return self._recorder

    def _forked(self) -> None:
        self._recorder.sightings.forked()
        self._recorder.hosts.forked()
        if self._clock is not None:
            self._clock.forked()

    def _describe(self, parent: str) -> Any:
        from tritonforge.domain.trace import TracedProcess

        torch, triton = sys.modules.get("torch"), sys.modules.get("triton")
        gpu = ""
        if self._mode == "gpu" and torch is not None and torch.cuda.is_initialized():
            gpu = torch.cuda.get_device_name()
        return TracedProcess(
            os.getpid(),
            tuple(getattr(sys, "orig_argv", sys.argv)),
            self._mode,
            sys.version.split()[0],
            str(getattr(torch, "__version__", "")),
            str(getattr(triton, "__version__", "")),
            gpu,
            parent,
        )


def _hide_our_frames() -> None:
    """Leave what stands in for Triton's functions out of tracebacks that nobody caught."""
    if sys.excepthook is not sys.__excepthook__:
        return
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - as in `co_filename`

    def excepthook(kind: Any, error: Any, trace: Any) -> None:
        seen: set[int] = set()
        todo = [error]
        while todo:
            one = todo.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            one.__traceback__ = _without(one.__traceback__, ours)
            todo += [one.__cause__, one.__context__]
        sys.__excepthook__(kind, error, _without(trace, ours))

    sys.excepthook = excepthook


def _without(trace: Any, ours: str) -> Any:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    at = trace
    while at is not None:
        following = at.tb_next
        while following is not None and following.tb_frame.f_code.co_filename.startswith(ours):
            following = following.tb_next
        at.tb_next = following
        at = following
    return trace
