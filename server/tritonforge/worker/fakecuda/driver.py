"""A Triton driver that answers for a pretended GPU and never launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritonforge.worker.fakecuda.devices import FakeDevice


def fake_driver(device: FakeDevice) -> Any:
    """Return a driver for Triton's `driver.set_active`."""
    import torch
    from triton.backends.driver import DriverBase

    class FakeDriver(DriverBase):  # type: ignore[misc,unused-ignore]
        """Answers what `JITFunction.run(warmup=True)`, autotuners and host code ask of a driver."""

        def __init__(self) -> None:
            self.utils = _Utils(device)
            self.launcher_cls = _never_launched

        @classmethod
        def is_active(cls) -> bool:
            return True

        def get_current_target(self) -> Any:
            return device.target()

        # Kernels keep one cache for each device: a name for each architecture keeps their binaries apart.
        def get_current_device(self) -> Any:
            return f"tritonforge:{device.arch}"

        def set_current_device(self, _device: Any) -> None:
            return None

        def get_current_stream(self, _device: Any = None) -> int:
            return 0

        def get_device_capability(self, _device: Any = None) -> tuple[int, int]:
            return device.capability

        def get_active_torch_device(self) -> Any:
            return torch.device("cuda", 0)

        def get_device_interface(self) -> Any:
            return torch.cuda

        def get_benchmarker(self) -> Callable[..., Any]:
            return bench_once

        def get_empty_cache_for_benchmark(self) -> Any:
            return torch.empty(1, dtype=torch.int32)

        def clear_cache(self, _cache: Any) -> None:
            return None

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

    return FakeDriver()


class _Utils:
    def __init__(self, device: FakeDevice) -> None:
        self._device = device

    def get_device_properties(self, _device: Any = None) -> dict[str, int]:
        d = self._device
        return {
            "max_shared_mem": d.shared_bytes,
            "max_num_regs": 65536,
            "multiprocessor_count": d.sms,
            "warpSize": d.warp_size,
            "sm_clock_rate": 1_980_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5120,
        }

    def load_binary(self, *_args: Any) -> Any:
        raise RuntimeError("A kernel was to be loaded while nothing may be launched.")

    def set_printf_fifo_size(self, _size: int) -> None:
        return None

    def build_signature_metadata(self, _signature: Any) -> bytes:
        return b""


def _never_launched(*_args: Any, **_kwargs: Any) -> Any:
    raise RuntimeError("A kernel was to be launched while nothing may be launched.")


def bench_once(
    fn: Callable[[], Any],
    *_args: Any,
    quantiles: Any = None,
    return_mode: str = "mean",
    **_kwargs: Any,
) -> Any:
    """Stand in for `triton.testing.do_bench`: call once, and answer one millisecond."""
    fn()
    if quantiles is not None:
        return [1.0] * len(quantiles) if len(quantiles) != 1 else 1.0
    return [1.0] if return_mode == "all" else 1.0
