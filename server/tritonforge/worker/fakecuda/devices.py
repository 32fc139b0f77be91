"""What the pretended GPU of an architecture says of itself.

Figures are those of the vendors' data sheets and of the CUDA programming guide's table of technical specifications; for
an architecture that several GPUs have, those of the usual one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import SimpleNamespace

from tritonforge.worker.failures import JobFailed


@dataclass(frozen=True)
class FakeDevice:
    """One GPU model. `shared_bytes` is the most one program may use (opt-in), `sms` its multiprocessors."""

    arch: str
    name: str
    backend: str
    capability: tuple[int, int]
    sms: int
    memory_bytes: int
    shared_bytes: int
    l2_bytes: int
    threads_per_sm: int = 2048
    warp_size: int = 32

    def target(self) -> object:
        """Return Triton's own name for it."""
        from triton.backends.compiler import GPUTarget

        if self.backend == "hip":
            return GPUTarget("hip", self.arch, self.warp_size)
        return GPUTarget("cuda", self.capability[0] * 10 + self.capability[1], self.warp_size)

    def properties(self) -> SimpleNamespace:
        """Return what `torch.cuda.get_device_properties` would."""
        return SimpleNamespace(
            name=self.name,
            major=self.capability[0],
            minor=self.capability[1],
            total_memory=self.memory_bytes,
            multi_processor_count=self.sms,
            warp_size=self.warp_size,
            max_threads_per_multi_processor=self.threads_per_sm,
            max_threads_per_block=1024,
            regs_per_multiprocessor=65536,
            shared_memory_per_block=49152,
            shared_memory_per_block_optin=self.shared_bytes,
            shared_memory_per_multiprocessor=self.shared_bytes + 1024,
            L2_cache_size=self.l2_bytes,
            is_integrated=0,
            is_multi_gpu_board=0,
            gcnArchName=self.arch,
            uuid="GPU-00000000-0000-0000-0000-000000000000",
            clock_rate=1_980_000,
            memory_clock_rate=2_619_000,
            memory_bus_width=5120,
        )


_GB = 1 << 30
_DEVICES = {
    "sm_70": ("Tesla V100-SXM2-32GB", 80, 32, 98304, 6 << 20, 2048),
    "sm_75": ("Tesla T4", 40, 16, 65536, 4 << 20, 1024),
    "sm_80": ("NVIDIA A100-SXM4-80GB", 108, 80, 166912, 40 << 20, 2048),
    "sm_86": ("NVIDIA A10", 72, 24, 101376, 6 << 20, 1536),
    "sm_89": ("NVIDIA L40S", 142, 48, 101376, 96 << 20, 1536),
    "sm_90": ("NVIDIA H100 80GB HBM3", 132, 80, 232448, 50 << 20, 2048),
    "sm_100": ("NVIDIA B200", 148, 180, 232448, 126 << 20, 2048),
    "sm_103": ("NVIDIA B300", 148, 270, 232448, 126 << 20, 2048),
    "sm_120": ("NVIDIA RTX PRO 6000 Blackwell", 188, 96, 101376, 128 << 20, 1536),
    "gfx90a": ("AMD Instinct MI250X", 110, 64, 65536, 8 << 20, 2048),
    "gfx942": ("AMD Instinct MI300X", 304, 192, 65536, 256 << 20, 2048),
    "gfx950": ("AMD Instinct MI355X", 256, 288, 163840, 256 << 20, 2048),
    "gfx1100": ("AMD Radeon RX 7900 XTX", 96, 24, 65536, 96 << 20, 2048),
}
_GFX = re.compile(r"gfx(\d+)([0-9a-f])([0-9a-f])")


def device_for(arch: str) -> FakeDevice:
    """Return the pretended GPU for an architecture as compilers name it (`sm_90`, `gfx942`).

    Raises:
        JobFailed: `unsupported`, when `arch` is no architecture's name.
    """
    name = arch.removesuffix("a") if arch.startswith("sm_") else arch
    sm, gfx = re.fullmatch(r"sm_(\d+)(\d)", name), _GFX.fullmatch(name)
    if sm is None and gfx is None:
        raise JobFailed("unsupported", f"{arch!r} is no architecture: write sm_90, sm_100, gfx942 and so on.")
    title, sms, memory, shared, l2, threads = _DEVICES.get(
        name, (arch, 100, 80, 98304 if sm else 65536, 40 << 20, 1536)
    )
    if gfx is not None:
        capability = (int(gfx[1]), int(gfx[2], 16))
        return FakeDevice(name, title, "hip", capability, sms, memory * _GB, shared, l2, threads, _wave(name))
    assert sm is not None
    return FakeDevice(name, title, "cuda", (int(sm[1]), int(sm[2])), sms, memory * _GB, shared, l2, threads)


def _wave(gfx: str) -> int:
    return 64 if gfx.startswith("gfx9") else 32
