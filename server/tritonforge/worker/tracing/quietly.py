"""Reading tensors of a running program without its noticing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


def is_capturing() -> bool:
    """Tell whether a CUDA graph is being captured, when nothing may wait for the GPU."""
    try:
        return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
    except Exception:
        return True


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Run torch operations that no mode, hook or gradient of the program sees."""
    from torch.utils._python_dispatch import _disable_current_modes

    # Tensors made in inference mode count no versions, which telling whether they changed needs.
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.no_grad():
        yield
