"""What stands in for Triton's `run` while a program is traced: on a GPU, without one, and in Triton's interpreter.

A launch that was seen before costs a key, a look-up and an increment. A failure of ours ends the recording, never the
launch.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.launching import CompiledStub, LaunchEvent, bind, first_configs, resolve_grid, user_frame
from tritonforge.worker.tracing import launchers
from tritonforge.worker.tracing.clock import Clock
from tritonforge.worker.tracing.entrances import suits
from tritonforge.worker.tracing.graphs import Graphs
from tritonforge.worker.tracing.hosts import Hosts
from tritonforge.worker.tracing.sightings import Sightings, is_tuned
from tritonforge.worker.tracing.spool import NOWHERE, Spooled, slot_at

_modes: Callable[[], int] = getattr(torch._C, "_len_torch_function_stack", lambda: 1)


class Recorder:
    """Counts launches; `record` is to be called before each, and says where it was counted."""

    def __init__(self, spool: Spooled, sightings: Sightings, hosts: Hosts) -> None:
        self.spool = spool
        self.sightings = sightings
        self.hosts = hosts
        self.on = True
        self.kept = contextlib.ExitStack()
        """What has to hold for as long as the process lives; never left."""
        self.tuning: set[int] = set()
        """Threads in which an autotuner measures: what it launches is not the program's."""

    def record(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> tuple[int, int]:
        """Count a launch; return where (`NOWHERE` when not) and how often it was made by now."""
        try:
            if _modes():
                with torch._C.DisableTorchFunction():
                    index = self.sightings.index(kernel, args, kwargs, grid)
            else:
                index = self.sightings.index(kernel, args, kwargs, grid)
            counts = self.spool.counts
            n = counts[index] + 1
            counts[index] = n
            if self.hosts.watched and index != NOWHERE:
                self._tell_hosts(kernel, args, kwargs, grid, index)
        except Exception as error:
            self.fail(error)
            return NOWHERE, 0
        return index, n

    def _tell_hosts(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, index: int) -> None:
        with self.hosts.paused():
            stack = self.hosts.stack()
            if not stack:
                return
            bound, options = bind(kernel, args, kwargs)
            extents = resolve_grid(grid, bound)
            event = LaunchEvent(kernel, args, kwargs, bound, options, extents, user_frame(), is_tuned())
            self.hosts.launched(stack, event, slot_at(index))

    def take_back(self, index: int) -> None:
        """Uncount a launch that raised."""
        if index != NOWHERE:
            self.spool.counts[index] -= 1

    def fail(self, error: Exception) -> None:
        """End the recording because of a failure of ours."""
        self.on = False
        self.sightings.forget_derived()
        self.hosts.stop()
        self.spool.fail("", f"recording stopped in a process: {type(error).__name__}: {error}"[:400])


def on_gpu(recorder: Recorder, clock: Clock, graphs: Graphs, patches: Patches) -> None:
    """Record launches on their way to the GPU."""
    from triton.runtime.autotuner import Autotuner

    if suits():
        launchers.install(recorder, clock, graphs, patches)
    else:
        _before_triton(recorder, clock, graphs, patches)
    if "_bench" in vars(Autotuner):
        patches.set(Autotuner, "_bench", _tuning(Autotuner._bench, recorder.tuning))
    graphs.install(patches)


def _before_triton(recorder: Recorder, clock: Clock, graphs: Graphs, patches: Patches) -> None:
    """Record launches before Triton sees them, several microseconds each: for versions that launch in other ways."""
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run

    @functools.wraps(launch)
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if warmup or not recorder.on or threading.get_ident() in recorder.tuning:
            return launch(self, *args, grid=grid, warmup=warmup, **kwargs)
        index, n = recorder.record(self, args, kwargs, grid)
        if graphs.capturing:
            graphs.captured(index)
        try:
            if n >= clock.due.get(index, 2):
                recorder.hosts.rest()
                return clock.timed(index, n, functools.partial(launch, self, *args, grid=grid, warmup=False, **kwargs))
            return launch(self, *args, grid=grid, warmup=warmup, **kwargs)
        except BaseException:
            recorder.take_back(index)
            raise

    patches.set(JITFunction, "run", run)
    if "__getitem__" in vars(CompiledKernel):
        patches.set(CompiledKernel, "__getitem__", _compiled(CompiledKernel.__getitem__, recorder))


def _tuning(bench: Callable[..., Any], tuning: set[int]) -> Callable[..., Any]:
    @functools.wraps(bench)
    def _bench(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        thread = threading.get_ident()
        if thread in tuning:
            return bench(self, *args, **kwargs)
        tuning.add(thread)
        try:
            return bench(self, *args, **kwargs)
        finally:
            tuning.discard(thread)

    return _bench


def _compiled(getitem: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """Record launches of a compiled kernel itself (`kernel.warmup(…)[grid](…)`, caches of projects)."""

    @functools.wraps(getitem)
    def __getitem__(self: Any, grid: Any) -> Any:  # noqa: N807 - its name in tracebacks
        runner = getitem(self, grid)

        def launch(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if recorder.on and threading.get_ident() not in recorder.tuning:
                given = _parameters(self, args)
                if given is not None:
                    recorder.record(self.src.fn, given[0], given[1], grid)
            return runner(*args, **kwargs)

        return launch

    return __getitem__


def _parameters(compiled: Any, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    fn = getattr(getattr(compiled, "src", None), "fn", None)
    names = getattr(fn, "arg_names", None)
    if fn is None or names is None or len(args) != len(names):
        return None
    meta = compiled.metadata
    own = {n: getattr(meta, n) for n in ("num_warps", "num_stages", "num_ctas") if hasattr(meta, n) and n not in names}
    return args, own


def pretended(recorder: Recorder, mode: Any, patches: Patches) -> None:
    """Take launches out of Triton's hands: there is no GPU. Autotuners use their first configuration."""
    from triton.runtime.jit import JITFunction

    recorder.kept.enter_context(first_configs())

    @functools.wraps(JITFunction.run)
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if warmup:
            return CompiledStub(kwargs)
        for hook in getattr(self, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        mode.results_missing = True
        if recorder.on:
            recorder.record(self, args, kwargs, grid)
            recorder.sightings.written((*args, *kwargs.values()))
        return CompiledStub(kwargs)

    patches.set(JITFunction, "run", run)
    # Kernels do not run, so what checks their results would end the program at its first check.
    patches.set(torch.testing, "assert_close", lambda *_a, **_k: None)


def interpreted(recorder: Recorder, patches: Patches) -> None:
    """Record launches on their way to Triton's interpreter."""
    from triton.runtime.interpreter import InterpretedFunction

    launch = InterpretedFunction.run

    @functools.wraps(launch)
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if warmup or not recorder.on:
            return launch(self, *args, grid=grid, warmup=warmup, **kwargs)
        index, _ = recorder.record(self, args, kwargs, grid)
        try:
            return launch(self, *args, grid=grid, warmup=warmup, **kwargs)
        except BaseException:
            recorder.take_back(index)
            raise

    patches.set(InterpretedFunction, "run", run)
