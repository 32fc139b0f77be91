"""Whether the GPU was held back while it was measured, as its driver tells (NVML, by ctypes: nothing to install)."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

_SM_CLOCK = 1
REASONS = {
    0x4: "its power limit",
    0x8: "a hardware slowdown",
    0x20: "its temperature",
    0x40: "its temperature (hardware)",
    0x80: "the power brake",
}
"""Bits of `nvmlClocksEventReasons` that slow a busy GPU down; idling and clocks set by its owner are none."""
_STEADY = 0.97


class Health:
    """Watches clocks and throttle reasons of the current GPU; silent where the driver does not tell."""

    def __init__(self) -> None:
        self._nvml, self._device = open_nvml()
        self._clocks: list[int] = []
        self._reasons = 0

    def look(self) -> None:
        """Read both once, while the GPU is busy: an idle one has low clocks for good reason."""
        if self._nvml is None:
            return
        clock, reasons = ctypes.c_uint(0), ctypes.c_ulonglong(0)
        if self._nvml.nvmlDeviceGetClockInfo(self._device, _SM_CLOCK, ctypes.byref(clock)) == 0 and clock.value:
            self._clocks.append(clock.value)
        if self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._device, ctypes.byref(reasons)) == 0:
            self._reasons |= reasons.value

    def notes(self) -> list[str]:
        """Say what held the GPU back."""
        return describe(self._reasons, self._clocks)


def describe(reasons: int, clocks: list[int]) -> list[str]:
    """Say in words what throttle bits and SM clocks (MHz) seen while measuring mean; nothing when all was well."""
    causes = [text for bit, text in REASONS.items() if reasons & bit]
    low, high = (min(clocks), max(clocks)) if clocks else (0, 0)
    seen = f" (SM clock {low} to {high} MHz)" if low < high else f" (SM clock {low} MHz)" if clocks else ""
    if causes:
        return [f"the GPU was slowed down by {' and '.join(causes)} while measuring{seen}"]
    return [f"the GPU's clock moved while measuring{seen}"] if low < _STEADY * high else []


def open_nvml() -> tuple[Any, Any]:
    """Return the library and the current GPU in it; (None, None) where there is no driver of NVIDIA's."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return None, None
        device = ctypes.c_void_p()
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        bus = f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        found = nvml.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(), ctypes.byref(device)) == 0
    except (OSError, AttributeError, RuntimeError, ValueError):  # no driver of NVIDIA's, or a torch that does not say
        return None, None
    return (nvml, device) if found else (None, None)
