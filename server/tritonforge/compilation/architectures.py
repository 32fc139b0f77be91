"""What one multiprocessor of an architecture holds, and the occupancy that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tritonforge.domain.compilation import Occupancy, OccupancyStep, Resources

Limiter = Literal["registers", "shared-memory", "warps", "programs"]
Exceeded = Literal["registers", "shared-memory"]


@dataclass(frozen=True)
class Architecture:
    """Limits of one SM (NVIDIA) or compute unit (AMD).

    `registers`: 32-bit registers (on AMD: vector registers, over all SIMDs, counted for one lane each).
    `register_unit`: registers are handed to a warp in multiples of this. `registers_per_thread`: the most one thread
    may use. `warps`, `programs`: resident at most. `shared_bytes`: shared memory that programs of the SM share;
    `shared_per_program`: the most one may use; `shared_reserved`: what the driver takes from each program on top;
    `shared_unit`: allocation granularity. Bytes throughout. `warp`: lanes of a warp.
    """

    name: str
    registers: int
    register_unit: int
    registers_per_thread: int
    warps: int
    programs: int
    shared_bytes: int
    shared_per_program: int
    shared_reserved: int
    shared_unit: int
    warp: int = 32
    schedulers: int = 4


_KIB = 1024


def _nvidia(name: str, warps: int, programs: int, shared_kib: int, shared_per_program_kib: int) -> Architecture:
    # The same for every compute capability from 8.0 to 12.x: 64 Ki registers per SM handed out to warps in units of
    # 256, at most 255 per thread, 1 KiB of shared memory reserved per program, shared memory in units of 128 bytes.
    # Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the limits in the
    # occupancy calculator of Nsight Compute (warp allocation granularity 4, register allocation per warp).
    return Architecture(
        name,
        registers=65536,
        register_unit=256,
        registers_per_thread=255,
        warps=warps,
        programs=programs,
        shared_bytes=shared_kib * _KIB,
        shared_per_program=shared_per_program_kib * _KIB,
        shared_reserved=_KIB,
        shared_unit=128,
    )


_ARCHITECTURES = {
    # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": resident warps, resident blocks,
    # shared memory per SM, shared memory per block.
    "sm_80": _nvidia("sm_80", 64, 32, 164, 163),
    "sm_86": _nvidia("sm_86", 48, 16, 100, 99),
    "sm_87": _nvidia("sm_87", 48, 16, 164, 163),
    "sm_89": _nvidia("sm_89", 48, 24, 100, 99),
    "sm_90": _nvidia("sm_90", 64, 32, 228, 227),
    "sm_100": _nvidia("sm_100", 64, 32, 228, 227),
    "sm_103": _nvidia("sm_103", 64, 32, 228, 227),
    "sm_120": _nvidia("sm_120", 48, 24, 100, 99),
    "sm_121": _nvidia("sm_121", 48, 24, 100, 99),
    # AMD "CDNA 2"/"CDNA 3" instruction set architecture guides: 4 SIMDs with 512 vector registers for each of 64 lanes
    # (architectural plus accumulation), handed out in units of 8 to a wave; 8 waves per SIMD; 64 KiB of local data
    # share, all of which one workgroup may use. 32 waves are at
    # most 32 workgroups.
    "gfx90a": Architecture("gfx90a", 4 * 512 * 64, 8 * 64, 512, 32, 32, 64 * _KIB, 64 * _KIB, 0, 512, warp=64),
    "gfx942": Architecture("gfx942", 4 * 512 * 64, 8 * 64, 512, 32, 32, 64 * _KIB, 64 * _KIB, 0, 512, warp=64),
    # AMD "CDNA 4" instruction set architecture guide: as CDNA 3, with 160 KiB of local data share in units of 1,280
    # bytes.
    "gfx950": Architecture("gfx950", 4 * 512 * 64, 8 * 64, 512, 32, 32, 160 * _KIB, 160 * _KIB, 0, 1280, warp=64),
}


def architecture(name: str) -> Architecture | None:
    """Return the limits of `name` (`sm_90`, `sm_90a`, `gfx942`), or None when they are not known."""
    return _ARCHITECTURES.get(name) or _ARCHITECTURES.get(name.rstrip("af"))


def occupancy(resources: Resources, num_warps: int, arch: Architecture) -> Occupancy | None:
    """Return how many programs of `num_warps` warps an SM holds at once, and what allows no further one.

    The rules are those of NVIDIA's occupancy calculator: registers are allocated per warp, rounded up to
    `register_unit`, and each of the four schedulers owns a quarter of the registers and of the warps; shared memory is
    rounded up to `shared_unit` after the reserved part is added. None when not even one program fits, or the numbers
    make no sense.
    """
    if num_warps < 1 or num_warps > arch.warps or resources.registers < 0:
        return None
    limits = _limits(resources.registers, resources.shared_bytes, num_warps, arch)
    programs = min(limits.values())
    if programs < 1:
        return None
    # When several are equally tight: a full SM is full of warps, else what a change of the kernel can relax first.
    order: tuple[Limiter, ...] = ("warps", "registers", "shared-memory", "programs")
    limiter = next(name for name in order if limits[name] == programs)
    warps = programs * num_warps
    step = _next_step(resources, num_warps, arch, programs)
    return Occupancy(warps / arch.warps, programs, warps, limiter, step)


def _limits(registers: int, shared_bytes: int, num_warps: int, arch: Architecture) -> dict[Limiter, int]:
    by_warps = arch.warps // num_warps
    by_registers = by_warps
    if registers:
        per_warp = _up(registers * arch.warp, arch.register_unit)
        per_scheduler = arch.registers // arch.schedulers // per_warp
        by_registers = per_scheduler * arch.schedulers // num_warps
    shared = _up(shared_bytes + arch.shared_reserved, arch.shared_unit)
    by_shared = arch.shared_bytes // shared if shared and shared_bytes <= arch.shared_per_program else 0
    if not shared:
        by_shared = arch.programs
    return {"warps": by_warps, "programs": arch.programs, "registers": by_registers, "shared-memory": by_shared}


def _next_step(resources: Resources, num_warps: int, arch: Architecture, programs: int) -> OccupancyStep | None:
    """Return what the next larger number of programs on an SM takes, or None when nothing makes room for it."""
    target = programs + 1
    if target > arch.programs or target * num_warps > arch.warps:
        return None
    warps_per_scheduler = _up(target * num_warps, arch.schedulers) // arch.schedulers
    per_warp = arch.registers // arch.schedulers // warps_per_scheduler // arch.register_unit * arch.register_unit
    registers = min(per_warp // arch.warp, arch.registers_per_thread)
    shared = arch.shared_bytes // target // arch.shared_unit * arch.shared_unit - arch.shared_reserved
    shared = min(shared, arch.shared_per_program)
    if registers < 1 or shared < 0:
        return None
    used: tuple[tuple[Exceeded, int, int], ...] = (
        ("registers", resources.registers, registers),
        ("shared-memory", resources.shared_bytes, shared),
    )
    exceeded = tuple(name for name, now, most in used if now > most)
    return OccupancyStep(target, target * num_warps / arch.warps, registers, shared, exceeded)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
