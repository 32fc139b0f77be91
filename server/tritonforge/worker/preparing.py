"""What a zygote does before it forks lanes."""

from __future__ import annotations

import os
import sys
from typing import Literal

from tritonforge.worker.failures import JobFailed


def prepare_zygote(kind: Literal["compile", "interpret"]) -> None:
    """Import torch and Triton in the mode asked for.

    Triton decides when it is imported whether kernels compile or are interpreted, so a process does one or the other.
    """
    interpret = kind == "interpret"
    if "triton" in sys.modules and (os.environ.get("TRITON_INTERPRET") == "1") != interpret:
        raise JobFailed("unsupported", "Triton was imported before this process was told to " + kind + ".")
    os.environ.pop("TRITON_INTERPRET", None)
    if interpret:
        os.environ["TRITON_INTERPRET"] = "1"
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            # Blocks are small, and lanes are forked from here: a pool of threads would cost more than it brings.
            os.environ.setdefault(name, "1")
    sys.dont_write_bytecode = True
    import torch
    import torch.utils._device
    import triton
    import triton.language
    import triton.testing

    del torch, triton
    if interpret:
        from tritonforge.worker.interpreter.shims import install

        install()
