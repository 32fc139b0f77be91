"""From one launch of a Nsight Compute report to the nouns that a diagnosis reasons with."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tritonforge.compilation.architectures import Limiter, architecture, occupancy
from tritonforge.compilation.sass import TensorPath, access_width
from tritonforge.diagnosis.assessment import Yardstick
from tritonforge.domain.compilation import Compilation, LineInstructions, Occupancy, Resources
from tritonforge.domain.counters import Counters
from tritonforge.domain.instructions import TCGEN05, classify
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.kernel_report import Listing
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar
from tritonforge.domain.profile import Ceilings, Roofline, TimeDistribution
from tritonforge.prediction import GpuSpec, gpu_for
from tritonforge.profiling.nsight import ReportedDevice, ReportedLaunch
from tritonforge.profiling.nsight.opcodes import split
from tritonforge.profiling.roofline import roofline

_WARP = 32
_FP32_LANES = 128
"""Multiply-adds that an SM of Ampere's second generation to Blackwell does per clock in fp32."""
_ACCESSES = frozenset({"load_global", "store_global", "async_copy", "atomic"})
_REPEATED = 1.5
"""Executions per warp from which on an instruction is in a loop."""
_LIBRARY_CALL = re.compile(
    r"\b\w+\.(?:sum|max|min|argmax|argmin|xor_sum|reduce_or|softmax|sigmoid|zeros|zeros_like|sort|topk|flip|cumsum|"
    r"cumprod|interleave|ravel|swizzle2d|cdiv|gather|bitonic_merge|rand\w*|philox\w*|squeeze|unsqueeze)\s*\("
)
"""Calls of what Triton writes in its own language, whose code the compiler places in Triton's files."""


def launch_of(reported: ReportedLaunch, kernel: Kernel) -> Launch:
    """Return what a report tells of the launch: its grid and its warps; arguments and constexprs it does not know.

    Its id depends on kernel, grid, block, registers and shared memory, which tells the configs of a kernel apart.
    """
    block = reported.block or (0, 1, 1)
    threads = block[0] * block[1] * block[2]
    parts = (kernel.file, kernel.name, reported.grid, block, *(reported.metrics.get(n) for n in _TELL_APART))
    options = (("num_warps", Scalar(threads // _WARP)),) if threads >= _WARP else ()
    return Launch(
        id=hashlib.sha256(repr(parts).encode()).hexdigest()[:12],
        kernel_file=kernel.file,
        kernel=kernel.name,
        problem=Problem(()),
        config=Config((), options, reported.grid or (1, 1, 1)),
        call_site=CallSite(kernel.file, kernel.name_range.start.line, ""),
        time_us=reported.metrics.get("time_us"),
    )


_TELL_APART = ("registers", "shared_bytes_static", "shared_bytes_dynamic")


def library_callers(kernel: Kernel, text: str) -> frozenset[int]:
    """Return the lines of a kernel and its helpers that call what Triton writes in its own language, and inlines."""
    ranges = [kernel.range, *(helper.range for helper in kernel.helpers if helper.range is not None)]
    lines = text.splitlines()
    return frozenset(
        number
        for place in ranges
        for number in range(place.start.line, min(place.end.line, len(lines)) + 1)
        if _LIBRARY_CALL.search(lines[number - 1])
    )


def compilation_of(
    reported: ReportedLaunch, counters: Counters, launch: Launch, kernel: Kernel, placed: Sequence[int | None]
) -> Compilation:
    """Return what a report tells of the machine code: registers, shared memory, occupancy, instructions by line.

    What programs do (trip counts, bytes) is not in a report: `work` is None, and the counters stand in for it.
    """
    metrics = counters.metrics
    arch = reported.device.arch or ""
    warps = max(1, _warps(reported))
    resources = None
    if "registers" in metrics:
        shared = int(metrics.get("shared_bytes", 0))
        resources = Resources(int(metrics["registers"]), _stack_bytes(reported), shared)
    known = architecture(arch)
    return Compilation(
        launch=launch.id,
        kernel=kernel.name,
        arch=arch,
        triton="",
        num_warps=warps,
        resources=resources,
        occupancy=_occupancy(metrics, warps) or (occupancy(resources, warps, known) if resources and known else None),
        instructions=_by_line(reported, placed, warps * launch.programs),
        tensor_path=_tensor_path(reported, has_dot=bool(kernel.dots)),
        programs=launch.programs,
    )


def _warps(reported: ReportedLaunch) -> int:
    x, y, z = reported.block or (0, 1, 1)
    return x * y * z // _WARP


def _stack_bytes(reported: ReportedLaunch) -> int:
    """Return how far into its stack a thread reaches: a report does not say how large it is."""
    reach = 0
    for one in reported.instructions:
        mnemonic, modifiers, operands = split(one.sass)
        if mnemonic in {"LDL", "STL"} and (place := _STACK.search(operands)):
            reach = max(reach, int(place[1] or "0", 16) + access_width(modifiers))
    return reach


_STACK = re.compile(r"\[R1(?:\+(0x[0-9a-f]+))?\]")


def _occupancy(metrics: Mapping[str, float], warps: int) -> Occupancy | None:
    limits = {limiter: int(metrics[name]) for limiter, name in _LIMITS.items() if name in metrics}
    if len(limits) < len(_LIMITS) or min(limits.values()) < 1:
        return None
    programs = min(limits.values())
    limiter = next(name for name, limit in limits.items() if limit == programs)
    return Occupancy(metrics.get("theoretical_occupancy", 0.0), programs, programs * warps, limiter)


_LIMITS: Mapping[Limiter, str] = {
    "warps": "programs_by_warps",
    "registers": "programs_by_registers",
    "shared-memory": "programs_by_shared",
    "programs": "programs_by_blocks",
}


def _by_line(reported: ReportedLaunch, placed: Sequence[int | None], warps: int) -> dict[int, LineInstructions]:
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    looped: defaultdict[int, Counter[str]] = defaultdict(Counter)
    rare: defaultdict[int, Counter[str]] = defaultdict(Counter)
    widths: defaultdict[int, list[int]] = defaultdict(list)
    counted = any(one.executed for one in reported.instructions)
    for one, line in zip(reported.instructions, placed, strict=True):
        mnemonic, modifiers, _ = split(one.sass)
        if line is None or not mnemonic or mnemonic == "NOP":
            continue
        kind = classify(mnemonic)
        counts[line][kind] += 1
        if counted and one.executed > _REPEATED * warps:
            looped[line][kind] += 1
        elif counted and one.executed == 0:
            rare[line][kind] += 1
        if kind in _ACCESSES:
            widths[line].append(access_width(modifiers))
    return {
        line: LineInstructions(dict(c), tuple(sorted(widths[line])), dict(looped[line]), dict(rare[line]))
        for line, c in sorted(counts.items())
    }


def _tensor_path(reported: ReportedLaunch, *, has_dot: bool) -> TensorPath:
    mnemonics = {split(one.sass)[0] for one in reported.instructions}
    kinds = {classify(mnemonic) for mnemonic in mnemonics}
    if mnemonics & TCGEN05:
        return "tcgen05"
    if "wgmma" in kinds:
        return "wgmma"
    if "mma" in kinds:
        return "mma"
    return "fma" if has_dot and reported.instructions else "none"


def code_of(reported: ReportedLaunch, placed: Sequence[int | None], file: str | None) -> Listing:
    """Return the machine code that a report holds, its rows placed on the user's lines, with their stall samples."""
    total = sum(sum(one.stalls.values()) for one in reported.instructions)
    chains = (tuple(dict.fromkeys(line for name, line in one.frames if name == file)) for one in reported.instructions)
    return Listing(
        "sass",
        tuple(f"{one.address:04x}  {one.sass}" for one in reported.instructions),
        # Where nothing may be placed, no frame counts either: it speaks of another version of the file.
        tuple((chain or (line,)) if line is not None else () for line, chain in zip(placed, chains, strict=True)),
        {
            row: samples / total
            for row, one in enumerate(reported.instructions)
            if (samples := sum(one.stalls.values()))
        },
    )


def yardstick_of(device: ReportedDevice) -> tuple[Yardstick | None, str]:
    """Return the GPU to judge a report by, and a sentence on where its ceilings come from.

    Memory bandwidth comes from the attributes that the report has of its GPU; matrix rates are in no report and come
    from public figures. None when neither is known.
    """
    spec = gpu_for(device.arch or "", device.name)
    named = spec if spec is not None and device.name and _same_gpu(spec, device.name) else None
    if named is None and (device.dram_gbps is None or device.sms is None or device.clock_khz is None):
        return None, "ceilings: neither does the report describe its GPU nor are public figures of it known"
    own = device.dram_gbps
    fp32 = device.sms * _FP32_LANES * 2 * device.clock_khz * 1e3 / 1e12 if device.sms and device.clock_khz else None
    if named is None:
        assert own is not None
        tflops = {"fp32": fp32} if fp32 else {}
        base = spec or gpu_for("sm_90")
        assert base is not None
        name = device.name or "the report's GPU"
        ceilings = Ceilings(name, own, tflops, base.launch_us, None, "public")
        judged = replace(base, name=name, sms=device.sms or base.sms, dram_gbps=own, tflops=tflops)
        return Yardstick(
            judged, ceilings
        ), "ceilings: from the GPU's attributes in the report; matrix rates are not known"
    ceilings = replace(named.ceilings, gpu=device.name or named.name, copy_gbps=own or named.dram_gbps)
    source = "memory from the GPU's attributes in the report" if own else "memory from public figures"
    return (
        Yardstick(replace(named, sms=device.sms or named.sms, dram_gbps=own or named.dram_gbps), ceilings),
        f"ceilings: {source}, matrix rates from public figures of {named.name}; measured ones are lower",
    )


def _same_gpu(spec: GpuSpec, name: str) -> bool:
    words = re.findall(r"[a-z0-9]+", name.lower())
    model = [word for word in re.findall(r"[a-z0-9]+", spec.name.lower()) if word not in _MAKERS]
    return bool(model) and (model[0] in words or "".join(model) in "".join(words))


_MAKERS = frozenset({"nvidia", "geforce", "amd", "instinct"})


def time_of(reported: ReportedLaunch) -> TimeDistribution | None:
    """Return the one time that the report has of the launch."""
    time = reported.metrics.get("time_us")
    return TimeDistribution(time, (time, time), 1) if time else None


def roofline_of(counters: Counters, ceilings: Ceilings) -> Roofline | None:
    """Place a launch under its roofline by what was counted: bytes that crossed the memory bus, operations executed."""
    metrics = counters.metrics
    if not counters.time_us or "dram_bytes" not in metrics:
        return None
    rates = {name.partition(".")[2]: value for name, value in metrics.items() if name.startswith("tensor_flops.")}
    dtype = max(rates, key=lambda name: rates[name]) if rates else None
    return roofline(
        useful_bytes=metrics["dram_bytes"],
        flops=metrics.get("tensor_flops") or metrics.get("scalar_flops", 0.0),
        dtype=dtype,
        time_us=counters.time_us,
        ceilings=ceilings,
    )
