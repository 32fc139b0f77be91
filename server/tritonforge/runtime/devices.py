"""Which GPU an argument is on, as whatever library the program already uses tells: nothing is imported here."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceInfo:
    """A GPU's name and architecture, as `tritonforge` writes them; None each where the argument is on no GPU."""

    name: str | None = None
    arch: str | None = None


def device_info(device: Any) -> DeviceInfo:
    """Return which GPU a tensor's `device` is."""
    return _of_device(device) if getattr(device, "type", None) == "cuda" else DeviceInfo()


@functools.cache
def _of_device(device: Any) -> DeviceInfo:
    torch = sys.modules.get("torch")
    if torch is None:
        return DeviceInfo()
    try:
        properties = torch.cuda.get_device_properties(device)
    except (RuntimeError, AssertionError):  # a torch without CUDA, whose tensors only claim to be on a GPU
        return DeviceInfo()
    hip = getattr(torch.version, "hip", None)
    arch = str(properties.gcnArchName).partition(":")[0] if hip else f"sm_{properties.major}{properties.minor}"
    return DeviceInfo(str(properties.name), arch)
