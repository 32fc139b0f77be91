"""CUDA without a GPU: real CPU tensors that say they are CUDA tensors, and answers to what code asks of CUDA.

Tensor attributes are replaced on the class, so that they hold in `backward`, in other threads and in custom operators
too; functions are seen by a `TorchFunctionMode`. Tensors say `cuda` unless they are known to be the CPU's (made without
a device, or by `.cpu()`): whatever escapes the mode is then taken for CUDA, which kernels need.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tritonforge.worker.fakecuda.devices import FakeDevice, device_for
from tritonforge.worker.fakecuda.driver import fake_driver
from tritonforge.worker.fakecuda.mode import FakeCudaMode
from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.fakecuda.torch_side import patch_torch
from tritonforge.worker.fakecuda.triton_side import patch_triton

__all__ = ["FakeCudaMode", "FakeDevice", "Patches", "device_for", "faked"]


@contextlib.contextmanager
def faked(arch: str = "sm_90", *, fill_empty: Callable[[Any], None] | None = None) -> Iterator[FakeCudaMode]:
    """Run a block as if this machine had one GPU of `arch`; kernels still need someone to take their launches.

    `fill_empty` fills what `torch.empty` and its like return; without it they are zero, because wild values would
    steer host code.
    """
    device = device_for(arch)
    mode = FakeCudaMode(fill_empty)
    patches = Patches()
    grad, dtype, threads = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    try:
        patch_torch(patches, mode, device)
        patch_triton(patches, fake_driver(device))
        with mode:
            yield mode
    finally:
        patches.restore()
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
