"""A GPU on which kernels are compiled, loaded and launched, and nothing runs: Triton's own way to a launch is taken."""

from __future__ import annotations

import contextlib
import gc

import torch

from tritonforge.worker.fakecuda.devices import device_for
from tritonforge.worker.fakecuda.driver import fake_driver


class Launched:
    """What reached the driver: the grid and the kernel's arguments of each launch. `fails` is raised by the next."""

    def __init__(self):
        self.given = []
        self.fails = None

    def launcher(self, src, metadata):
        return _Launcher(self, metadata)


class _Launcher:
    def __init__(self, launched, metadata):
        self.launched = launched
        self.num_ctas = getattr(metadata, "num_ctas", 1)

    def __call__(self, *given):
        grid, (enter, leave), args = given[:3], given[7:9], given[9:]
        if self.launched.fails is not None:
            raise self.launched.fails
        for hook in (enter, leave):
            if hook is not None:
                hook(given[6])
        self.launched.given.append((grid, args))


class _Event:
    def __init__(self, **_options):
        self.recorded = 0

    def record(self, *_stream):
        self.recorded += 1

    def query(self):
        return True

    def elapsed_time(self, _end):
        return 0.25


@contextlib.contextmanager
def idle_gpu(monkeypatch):
    """Make it the active GPU, and yield what is `Launched` on it."""
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime import driver

    launched = Launched()
    ours = fake_driver(device_for("sm_90"))
    ours.launcher_cls = launched.launcher
    ours.utils.load_binary = lambda *_args: (object(), object(), 32, 0, 1024)
    ours.utils.unload_module = lambda _module: None
    monkeypatch.setattr(torch.cuda, "Event", _Event)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    before = dict(vars(driver))
    driver.set_active(ours)
    try:
        yield launched
    finally:
        if hasattr(CompiledKernel, "__del__"):  # from Triton 3.9: unloads with the driver that is active then
            gc.collect()
        vars(driver).clear()
        vars(driver).update(before)
