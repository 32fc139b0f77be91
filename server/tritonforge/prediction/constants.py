"""The constants of the time model that no GPU's data sheet gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """One set of constants. Shares are 0–1 of a published rate.

    Known, and not fitted:
    `dram_share`: of memory bandwidth, what a long copy reaches (4.24 of 4.8 TB/s measured on an H200).
    `matrix_share`: of the matrix rate, what a good kernel reaches: power holds the rest back (cuBLAS in fp16 on an
    H200: 745 of 989 TFLOP/s measured).
    `old_share`: of the matrix rate of sm_90, what `mma` reaches (62 %: Luo et al., "Benchmarking and Dissecting the
    Nvidia Hopper GPU Architecture via Microbenchmarking", 2024).
    `port_bytes`: bytes a clock between an SM and L2 (NVIDIA's Ampere tuning guide).
    `spill_bytes`: of one lane's access to spilled registers: half of them are 64-bit.

    Fitted (`FITTED` says to what):
    `l2_share`: of L2's bandwidth; above 1, because requests of neighbouring SMs for one line are merged on the way.
    `latency_us`: a load from global memory that a program waits for.
    `start_us`: from one program leaving an SM to the first instruction of the next; `warp_us` more for each warp.
    `dispatch_us`: between the starts of two programs anywhere on the GPU.
    `pace`: the cycles that one warp takes over those that `compilation.stalls` counts: instructions that have to be
    fetched, and warps that take turns.
    `atomic_us`: between two atomic requests to one 32-byte sector.
    `overlap`: parts add up as a norm of this power (1: their sum, infinite: the largest).
    """

    dram_share: float = 0.884
    matrix_share: float = 0.75
    old_share: float = 0.62
    port_bytes: float = 64.0
    spill_bytes: float = 6.0
    l2_share: float = 1.0
    latency_us: float = 0.45
    start_us: float = 0.3
    warp_us: float = 0.005
    dispatch_us: float = 6e-4
    pace: float = 1.5
    atomic_us: float = 5.2e-3
    overlap: float = 4.0


FREE = (
    "l2_share", "latency_us", "start_us", "warp_us", "dispatch_us", "pace", "atomic_us", "overlap",
)  # fmt: skip
"""The constants that are fitted."""
START = Constants()
"""Where a fit starts: `atomic_us` as 19 other launches gave it, the others guessed."""
FITTED = Constants(
    l2_share=1.26,
    latency_us=0.423,
    start_us=0.210,
    warp_us=0.00460,
    dispatch_us=5.75e-4,
    pace=2.04,
    atomic_us=3.97e-3,
    overlap=3.88,
)
"""Fitted by `benchmarks/sweeps/fit.py` to 1,262 configurations of 26 kernels timed on an H200
(`benchmarks/results/2026-11-30-h200-sweeps-1.jsonl.xz`), rounded to three digits."""
