"""Numbers that several rules need, derived from one `Case`: traffic, work, and the time no rewrite can beat.

Two kinds of bytes are told apart. *Moved* bytes are what the programs ask for, loop trip counts and repeated reads
included. *Useful* bytes are those that must cross the memory bus at least once: for each pointer parameter no more than
its tensor holds, loads and stores apart. The *floor* of a launch is the larger of useful bytes over copy bandwidth and
dot FLOPs over the tensor ceiling (the roofline model, Williams et al., CACM 2009).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tritonforge.diagnosis.case import Case
from tritonforge.domain.compilation import LineWork
from tritonforge.domain.kernel import Access, Kernel
from tritonforge.domain.launch import Launch, Scalar, Tensor

_ITEM_BYTES = (("128", 16), ("64", 8), ("32", 4), ("16", 2), ("8", 1))
_NAMED_BYTES = {"bool": 1, "double": 8, "float": 4, "half": 2, "long": 8, "int": 4, "short": 2, "fp8": 1, "i1": 1}
_TENSOR_PATHS = frozenset({"mma", "wgmma", "tcgen05", "mfma"})
_PUBLIC_MEMORY, _PUBLIC_TENSOR = 0.9, 0.7
"""What programs reach at best of data-sheet peaks (H200: 4.30 of 4.8 TB/s copied, 680 of 989 fp16 TFLOP/s)."""
WARP_LANES = 32
DEFAULT_WARPS = 4
"""Triton's own default for `num_warps`."""


def item_bytes(dtype: str) -> int:
    """Return the size in bytes of one element of `dtype`, as PyTorch (`float16`) or Triton (`fp16`, `f16`) names it."""
    if dtype in _NAMED_BYTES:
        return _NAMED_BYTES[dtype]
    if dtype.startswith(("float8", "fp8", "f8")):
        return 1
    if dtype.startswith("complex"):
        return int(dtype.removeprefix("complex") or 64) // 8
    return next((size for text, size in _ITEM_BYTES if dtype.endswith(text)), 4)


def tensor_bytes(tensor: Tensor) -> int:
    """Return how many bytes of memory `tensor` covers; broadcast dimensions (stride 0) count once."""
    elements = 1
    for extent, stride in zip(tensor.shape, tensor.strides, strict=False):
        elements *= extent if stride != 0 or extent == 0 else 1
    return elements * item_bytes(tensor.dtype)


def integers(launch: Launch | None) -> dict[str, int]:
    """Return every integer that `launch` passes, by parameter name: runtime arguments, constexprs and options."""
    if launch is None:
        return {}
    pairs = (
        *launch.problem.arguments,
        *launch.problem.constexprs,
        *launch.config.constexprs,
        *launch.config.options,
    )
    return {
        name: value.value
        for name, value in pairs
        if isinstance(value, Scalar) and isinstance(value.value, int) and not isinstance(value.value, bool)
    }


def tensors(launch: Launch | None) -> dict[str, Tensor]:
    """Return the tensor arguments of `launch` by parameter name."""
    if launch is None:
        return {}
    return {name: value for name, value in launch.problem.arguments if isinstance(value, Tensor)}


def num_warps(case: Case) -> int:
    """Return how many warps a program has: compiled, counted, as launched, else Triton's default."""
    if case.compilation is not None:
        return case.compilation.num_warps
    if case.counters is not None and case.counters.block is not None:
        x, y, z = case.counters.block
        return max(1, x * y * z // WARP_LANES)
    return integers(case.launch).get("num_warps", DEFAULT_WARPS)


def program_lanes(case: Case) -> int:
    """Return how many lanes a program has: warps of 32, or wavefronts of 64 on AMD's CDNA."""
    arch = case.compilation.arch if case.compilation is not None else ""
    return num_warps(case) * (2 * WARP_LANES if arch.startswith("gfx9") else WARP_LANES)


def uses_tensor_cores(case: Case) -> bool:
    """Tell whether the compiled dots run on matrix units."""
    return case.compiled is not None and case.compiled.tensor_path in _TENSOR_PATHS


def accesses_on(kernel: Kernel, line: int, kind: str) -> tuple[Access, ...]:
    """Return the accesses of `kind` whose text covers `line`."""
    return tuple(a for a in kernel.accesses if a.kind == kind and a.range.start.line <= line <= a.range.end.line)


@dataclass(frozen=True)
class Traffic:
    """Bytes and FLOPs of a whole launch, masked lanes left out where the mask is known.

    `loads` and `stores` map a pointer parameter (None: unknown) to the bytes moved through it; `useful` is the least
    that must be moved.
    """

    loads: Mapping[str | None, float] = field(default_factory=dict)
    stores: Mapping[str | None, float] = field(default_factory=dict)
    useful: float = 0.0
    dot_flops: float = 0.0
    atomics: float = 0.0

    @property
    def moved(self) -> float:
        """All bytes that programs load and store."""
        return sum(self.loads.values()) + sum(self.stores.values())


def traffic(case: Case) -> Traffic | None:
    """Add up what the programs of a launch move and compute; None without compiled work and a known grid."""
    compiled, programs = case.compiled, case.programs
    if compiled is None or compiled.work is None or not programs:
        return None
    loads: dict[str | None, float] = defaultdict(float)
    stores: dict[str | None, float] = defaultdict(float)
    known = tensors(case.launch)
    for line, work in compiled.work.lines.items():
        for kind, moved, by_pointer in (("load", work.load_bytes, loads), ("store", work.store_bytes, stores)):
            if moved:
                for pointer, share in _shares(case, line, kind, work).items():
                    by_pointer[pointer] += moved * work.unmasked_fraction * programs * share
    return Traffic(
        loads=dict(loads),
        stores=dict(stores),
        useful=_least_bytes(loads, known) + _least_bytes(stores, known),
        dot_flops=compiled.work.total("dot_flops") * programs,
        atomics=sum(_live(w) for w in compiled.work.lines.values()) * programs,
    )


def _least_bytes(moved: Mapping[str | None, float], known: Mapping[str, Tensor]) -> float:
    """What must cross the bus at least: per tensor no more than it holds; parameters that share one count once."""
    groups: dict[tuple[int, int] | str | None, float] = defaultdict(float)
    sizes: dict[tuple[int, int] | str | None, float] = defaultdict(float)
    for pointer, amount in moved.items():
        tensor = known.get(pointer) if pointer is not None else None
        shared = tensor is not None and tensor.buffer >= 0
        key = (tensor.buffer, tensor.offset) if tensor is not None and shared else pointer
        groups[key] += amount
        sizes[key] = max(sizes[key], tensor_bytes(tensor)) if tensor is not None else math.inf
    return sum(min(amount, sizes[key]) for key, amount in groups.items())


def useful_share(work: LineWork) -> float:
    """Return the bytes that one program loads and stores on a line, lanes that are masked off left out."""
    return (work.load_bytes + work.store_bytes) * work.unmasked_fraction


def _live(work: LineWork) -> float:
    return work.atomic_ops * work.unmasked_fraction


def _shares(case: Case, line: int, kind: str, work: LineWork) -> dict[str | None, float]:
    """Split a line's bytes among the pointers it accesses, by element size.

    The source says which access loads and which stores; where it does not know the pointer, the compiler's list helps.
    """
    pointers: list[str | None] = [a.pointer for a in accesses_on(case.kernel, line, kind)]
    if not pointers or None in pointers:
        pointers = list(work.pointers) or [None]
    known = tensors(case.launch)
    weights: dict[str | None, float] = defaultdict(float)
    for pointer in pointers:
        tensor = known.get(pointer) if pointer else None
        weights[pointer] += item_bytes(tensor.dtype) if tensor is not None else 4
    total = sum(weights.values())
    return {pointer: weight / total for pointer, weight in weights.items()}


def useful_bytes(case: Case) -> float | None:
    """Return the useful bytes of the launch: from its compiled work, else from the measured roofline."""
    known = traffic(case)
    if known is not None:
        return known.useful
    return case.roofline.bytes if case.roofline is not None else None


def copy_ceiling_gbps(case: Case) -> float | None:
    """Return the GB/s that a plain copy can reach on the GPU, or None when unknown."""
    if case.gpu is None or case.gpu.ceilings.copy_gbps <= 0:
        return None
    ceilings = case.gpu.ceilings
    return ceilings.copy_gbps * (_PUBLIC_MEMORY if ceilings.provenance == "public" else 1.0)


def tensor_ceiling_tflops(case: Case) -> float | None:
    """Return the TFLOP/s that the launch's dots could reach on tensor cores, or None when unknown."""
    if case.gpu is None:
        return None
    ceilings = case.gpu.ceilings.tflops
    work = case.compiled.work if case.compiled is not None else None
    dtype = work.dot_dtype if work is not None else None
    reach = _PUBLIC_TENSOR if case.gpu.ceilings.provenance == "public" else 1.0
    return next((ceilings[name] * reach for name in _ceiling_names(dtype) if name in ceilings), None)


@lru_cache(maxsize=64)
def _ceiling_names(dtype: str | None) -> tuple[str, ...]:
    """Candidate keys of `Ceilings.tflops` for an operand type, the best first."""
    if dtype is None:
        return ("fp16",)
    if dtype in {"bf16", "bfloat16"}:
        return ("bf16", "fp16")
    if dtype in {"f16", "fp16", "float16", "half"}:
        return ("fp16", "bf16")
    if dtype in {"f32", "fp32", "float32", "tf32"}:
        return ("tf32", "fp16")
    if item_bytes(dtype) == 1:
        return (dtype, "int8" if dtype.startswith(("i", "u")) else "fp8", "fp16")
    return (dtype, "fp64" if item_bytes(dtype) == 8 else "fp16")


def l2_gbps(case: Case) -> float | None:
    """Return L2 bandwidth in GB/s; where it was not measured, twice the copy bandwidth (A100 to H200: 2 to 3 times)."""
    if case.gpu is None:
        return None
    return case.gpu.ceilings.l2_gbps or 2.0 * case.gpu.ceilings.copy_gbps


@dataclass(frozen=True)
class Floor:
    """The least time of a launch in µs, by resource."""

    memory_us: float
    tensor_us: float

    @property
    def time_us(self) -> float:
        """The larger of the two: both units can work at once."""
        return max(self.memory_us, self.tensor_us)


def floor(case: Case) -> Floor | None:
    """Return the least time of the launch on this GPU; None without traffic or ceilings."""
    known = traffic(case)
    gbps = copy_ceiling_gbps(case)
    if known is None or gbps is None:
        return None
    tflops = tensor_ceiling_tflops(case)
    return Floor(
        memory_us=known.useful / (gbps * 1e3),
        tensor_us=known.dot_flops / (tflops * 1e6) if tflops else 0.0,
    )
