"""A GPU for a whole process that has none: torch's side when torch is imported, Triton's when Triton is.

Not both at once: a program may set `TRITON_INTERPRET` between the two imports, and Triton reads it when it is imported.
"""

from __future__ import annotations

from typing import Any

from tritonforge.worker.fakecuda.patches import Patches


class Pretence:
    """What was put in place of CUDA, for as long as the process lives."""

    def __init__(self, arch: str) -> None:
        from tritonforge.worker.fakecuda.devices import device_for

        self._device = device_for(arch)
        self._patches = Patches()
        self.mode: Any = None

    def torch_side(self) -> None:
        """Make tensors and `torch.cuda` answer as if there were a GPU, in this thread and those that it starts."""
        from tritonforge.worker.fakecuda.mode import FakeCudaMode
        from tritonforge.worker.fakecuda.torch_side import patch_torch

        self.mode = FakeCudaMode(None)
        patch_torch(self._patches, self.mode, self._device)
        self.mode.__enter__()

    def triton_side(self) -> None:
        """Give Triton a driver that answers for that GPU."""
        from tritonforge.worker.fakecuda.driver import fake_driver
        from tritonforge.worker.fakecuda.triton_side import patch_triton

        patch_triton(self._patches, fake_driver(self._device))
