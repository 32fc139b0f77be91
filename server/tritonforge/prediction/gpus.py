"""Public figures of GPUs, for predictions where nothing was measured. Always shown as provenance `public`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tritonforge.domain.profile import Ceilings


@dataclass(frozen=True)
class GpuSpec:
    """One GPU as its maker describes it.

    `clock_ghz`: the boost clock behind the published matrix rates. `dram_gbps`, `l2_gbps`: peak GB/s (1e9 bytes/s) of
    memory and of the last-level cache shared by all SMs. `l2_bytes`: size of that cache. `tflops`: dense matrix rates
    by operand type with 32-bit accumulation, and `fp32` without matrix units. `special_per_clock`: special-function
    results per clock and SM. `int_per_clock`: 32-bit integer operations per clock and SM. `launch_us`: an empty kernel
    as seen by the GPU's own timer, an estimate: no maker says. `stand_in`: another GPU was asked for, and these are the
    nearest figures known.
    """

    name: str
    arch: str
    sms: int
    clock_ghz: float
    dram_gbps: float
    l2_bytes: int
    l2_gbps: float
    tflops: Mapping[str, float]
    special_per_clock: int = 16
    int_per_clock: int = 64
    launch_us: float = 3.0
    stand_in: bool = False

    @property
    def ceilings(self) -> Ceilings:
        """The same figures as the noun that measurements come in, marked `public`."""
        return Ceilings(self.name, self.dram_gbps, self.tflops, self.launch_us, self.l2_gbps, "public")


_MIB = 1 << 20

GPUS: Mapping[str, GpuSpec] = {
    spec.name: spec
    for spec in (
        # NVIDIA A100 80GB data sheet; L2: 40 MB and 5,120 bytes/clock from the white paper "NVIDIA A100 Tensor Core GPU
        # Architecture".
        GpuSpec(
            "NVIDIA A100 80GB", "sm_80", 108, 1.41, 2039, 40 * _MIB, 5.12 * 1410,
            {"fp16": 312, "bf16": 312, "tf32": 156, "int8": 624, "fp64": 19.5, "fp32": 19.5},
        ),
        # NVIDIA L40S data sheet; L2 size from the Ada architecture white paper. Ada's L2 bandwidth is not published:
        # about 2 KB/clock in public micro-benchmarks of AD102.
        GpuSpec(
            "NVIDIA L40S", "sm_89", 142, 2.52, 864, 96 * _MIB, 2.048 * 2520,
            {"fp16": 362, "bf16": 362, "tf32": 183, "fp8": 733, "int8": 733, "fp32": 91.6, "fp64": 1.43},
        ),
        # "NVIDIA Ada GPU Architecture" white paper, appendix A.
        GpuSpec(
            "NVIDIA GeForce RTX 4090", "sm_89", 128, 2.52, 1008, 72 * _MIB, 2.048 * 2520,
            {"fp16": 165.2, "bf16": 165.2, "tf32": 82.6, "fp8": 330.3, "int8": 660.6, "fp32": 82.6, "fp64": 1.29},
        ),
        # NVIDIA H100 data sheet (SXM, dense); the L2 is taken to read as many bytes per clock as the A100's.
        GpuSpec(
            "NVIDIA H100", "sm_90", 132, 1.83, 3352, 50 * _MIB, 5.12 * 1830,
            {"fp16": 989, "bf16": 989, "tf32": 494, "fp8": 1979, "int8": 1979, "fp64": 67, "fp32": 67},
        ),
        # NVIDIA H200 data sheet (SXM, dense): the H100's chip with faster memory.
        GpuSpec(
            "NVIDIA H200", "sm_90", 132, 1.83, 4800, 50 * _MIB, 5.12 * 1830,
            {"fp16": 989, "bf16": 989, "tf32": 494, "fp8": 1979, "int8": 1979, "fp64": 67, "fp32": 67},
        ),
        # NVIDIA HGX B200 data sheet (dense, per GPU; that of DGX B200 says 8 TB/s). No L2 figures are published: the
        # size is what drivers report, the bandwidth taken as twice the H100's (two dies).
        GpuSpec(
            "NVIDIA B200", "sm_100", 148, 1.85, 7700, 126 * _MIB, 10.24 * 1850,
            {"fp16": 2250, "bf16": 2250, "tf32": 1125, "fp8": 4500, "int8": 4500, "fp64": 37, "fp32": 75},
            int_per_clock=128,
        ),
        # "NVIDIA RTX Blackwell GPU Architecture" white paper, appendix A; L2 bandwidth as for Ada.
        GpuSpec(
            "NVIDIA GeForce RTX 5090", "sm_120", 170, 2.407, 1792, 96 * _MIB, 2.048 * 2407,
            {"fp16": 209.5, "bf16": 209.5, "tf32": 104.8, "fp8": 419, "int8": 838, "fp32": 104.8, "fp64": 1.64},
            int_per_clock=128,
        ),
        # AMD Instinct MI300X data sheet; cache: the 256 MB Infinity Cache at its peak 17.2 TB/s.
        GpuSpec(
            "AMD Instinct MI300X", "gfx942", 304, 2.1, 5300, 256 * _MIB, 17200,
            {"fp16": 1307, "bf16": 1307, "tf32": 653.7, "fp8": 2614, "int8": 2614, "fp64": 163.4, "fp32": 163.4},
            launch_us=6.0,
        ),
    )
}  # fmt: skip
"""By name as drivers report it, or the start of that name."""

_USUAL = {
    "sm_80": "NVIDIA A100 80GB", "sm_86": "NVIDIA L40S", "sm_89": "NVIDIA L40S", "sm_90": "NVIDIA H200",
    "sm_100": "NVIDIA B200", "sm_103": "NVIDIA B200", "sm_120": "NVIDIA GeForce RTX 5090",
    "gfx942": "AMD Instinct MI300X",
}  # fmt: skip


_VARIANTS = frozenset({"pcie", "nvl", "laptop", "40gb", "d"})
"""Words of names under which a model is sold with other memory or other clocks."""


def gpu_for(arch: str, gpu: str | None = None) -> GpuSpec | None:
    """Return the figures of `gpu` for code of `arch`, else of the usual GPU for `arch`; None when there are none.

    `gpu` is a name as drivers report it, or the model in it (`H200`, `rtx 4090`). One that is not known, or a GPU of
    another architecture, falls back to the usual one, so that something can still be ranked. What comes back is then a
    `stand_in`, and so it is where the usual GPU is not of `arch` itself. An empty `arch` fits every GPU.
    """
    plain = re.sub(r"^(sm_\d+)[af]$", r"\1", arch)
    words = re.findall(r"[a-z0-9]+", (gpu or "").lower())
    for spec in GPUS.values():
        model = _model(spec)
        if plain in {"", spec.arch} and (model in words or f"rtx{model}" in words):
            return replace(spec, stand_in=not _VARIANTS.isdisjoint(words))
    usual = GPUS.get(_USUAL.get(plain, ""))
    return replace(usual, stand_in=bool(words) or usual.arch != plain) if usual else None


def _model(spec: GpuSpec) -> str:
    """Return the word of a name that tells GPUs apart: `h200`, `4090`, `a100`."""
    return next(word for word in reversed(spec.name.lower().split()) if not word.endswith("gb"))
