"""What the tests of this room share: kernels from source text, and cases with as much evidence as a test asks for."""

from __future__ import annotations

import textwrap

from tritonforge.analysis import analyze
from tritonforge.diagnosis import Case, Gpu
from tritonforge.domain.compilation import (
    Compilation,
    LineInstructions,
    LineWork,
    Occupancy,
    Prediction,
    Resources,
    Work,
)
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar, Tensor
from tritonforge.domain.profile import Ceilings, TimeDistribution

H200 = Gpu(
    132,
    Ceilings("NVIDIA H200", copy_gbps=4297.0, tflops={"fp16": 680.0, "tf32": 340.0, "fp32": 50.0}, launch_us=2.5),
)
FILE = "kernels.py"
N = 1 << 26
"""Elements of the large one-dimensional problems."""
HEADER = "import torch\nimport triton\nimport triton.language as tl\n"


def kernel_of(source: str) -> Kernel:
    """The one kernel of `source`, which follows the usual three imports (so its first line is line 4)."""
    (kernel,) = analyze(HEADER + textwrap.dedent(source).lstrip("\n"), FILE).kernels
    return kernel


def line_of(source: str, text: str) -> int:
    """The line on which `text` first stands in the file that `kernel_of` analyses."""
    lines = (HEADER + textwrap.dedent(source).lstrip("\n")).splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def tensor(*shape: int, dtype: str = "float32") -> Tensor:
    strides = tuple(_product(shape[i + 1 :]) for i in range(len(shape)))
    return Tensor(shape, strides, dtype)


def launch_of(
    kernel: Kernel, grid: tuple[int, ...], *, options: dict[str, int] | None = None, **arguments: Tensor | int | str
) -> Launch:
    runtime, tiles = [], []
    for name, value in arguments.items():
        parameter = kernel.parameter(name)
        assert parameter is not None, name
        pair = (name, value if isinstance(value, Tensor) else Scalar(value))
        (tiles if parameter.constexpr else runtime).append(pair)
    x, y, z = (*grid, 1, 1)[:3]
    config = Config(tuple(tiles), tuple((k, Scalar(v)) for k, v in (options or {}).items()), (x, y, z))
    return Launch("L1", FILE, kernel.name, Problem(tuple(runtime)), config, CallSite(FILE, 1, ""))


def compilation_of(
    lines: dict[int, LineWork],
    launch: Launch | None,
    *,
    warps: int = 4,
    registers: int = 32,
    spill: int = 0,
    shared: int = 0,
    occupancy: Occupancy | None = None,
    tensor_path: str = "none",
    dot: tuple[tuple[int, int, int], str] | None = None,
    **more: object,
) -> Compilation:
    work = Work(
        lines,
        iterations=max((w.executions for w in lines.values()), default=1.0),
        dot_tile=dot[0] if dot else None,
        dot_dtype=dot[1] if dot else None,
    )
    return Compilation(
        launch=launch.id if launch else "",
        kernel="kernel",
        arch="sm_90",
        triton="3.7.1",
        num_warps=warps,
        resources=Resources(registers, spill, shared),
        occupancy=occupancy,
        work=work,
        tensor_path=tensor_path,  # type: ignore[arg-type]
        programs=launch.programs if launch else 0,
        **more,  # type: ignore[arg-type]
    )


def predicted(time_us: float, dominant: str = "dram", **parts: float) -> Prediction:
    return Prediction(time_us, (time_us * 0.8, time_us * 1.2), parts or {dominant: time_us}, dominant, "NVIDIA H200")


def measured(time_us: float) -> TimeDistribution:
    return TimeDistribution(time_us, (time_us * 0.99, time_us * 1.01), 30)


def _product(extents: tuple[int, ...]) -> int:
    out = 1
    for extent in extents:
        out *= extent
    return out


MATMUL = """
@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * sam + (k + rk)[None, :] * sak, mask=(k + rk)[None, :] < K, other=0.0)
        y = tl.load(b + (k + rk)[:, None] * sbk + rn[None, :] * sbn, mask=(k + rk)[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


def host(a, b, c):
    grid = (triton.cdiv(4096, {BM}), triton.cdiv(4096, {BN}))
    matmul[grid](a, b, c, 4096, 4096, 4096, 4096, 1, 4096, 1, BM={BM}, BN={BN}, BK=32)
"""


def matmul(bm: object, bn: object) -> str:
    return MATMUL.replace("{BM}", str(bm)).replace("{BN}", str(bn))


COPY = """
@triton.jit
def copy(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


def host(x, o):
    n = x.numel()
    copy[(triton.cdiv(n, {BLOCK}),)](x, o, n, BLOCK={BLOCK})
"""


def copy(block: object) -> str:
    return COPY.replace("{BLOCK}", str(block))


SCALAR_SUM = """
@triton.jit
def row_sum(x, o, n):
    row = tl.program_id(0)
    acc = 0.0
    for j in range(0, n):
        acc += tl.load(x + row * n + j)
    tl.store(o + row, acc)
"""


ROW_SUM = """
@triton.jit
def total(x, o, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    v = tl.load(x + c, mask=c < n)
    tl.store(o, tl.sum(v, 0))
"""


def matmul_case(bm: int, bn: int, *, m: int = 4096, path: str = "wgmma", **more: object) -> Case:
    """A fp16 matmul of m × 4096 × 4096, compiled."""
    source = matmul(bm, bn)
    kernel = kernel_of(source)
    a, b, c = (tensor(m, 4096, dtype="float16"), tensor(4096, 4096, dtype="float16"), tensor(m, 4096, dtype="float16"))
    launch = launch_of(kernel, (-(-m // bm), 4096 // bn), a=a, b=b, c=c, BM=bm, BN=bn, BK=32)
    steps = 4096 / 32
    lines = {
        line_of(source, "x = tl.load"): LineWork(steps, load_bytes=bm * 4096 * 2.0),
        line_of(source, "y = tl.load"): LineWork(steps, load_bytes=bn * 4096 * 2.0),
        line_of(source, "tl.dot("): LineWork(steps, dot_flops=2.0 * bm * bn * 4096),
        line_of(source, "tl.store"): LineWork(1, store_bytes=bm * bn * 2.0),
    }
    compilation = compilation_of(lines, launch, tensor_path=path, dot=((bm, bn, 32), "fp16"), **more)  # type: ignore[arg-type]
    return Case(kernel, launch, compilation, gpu=H200)


def copy_case(block: int, *, n: int = N, warps: int = 4) -> Case:
    source = copy(block)
    kernel = kernel_of(source)
    launch = launch_of(kernel, (n // block,), x=tensor(n), o=tensor(n), n=n, BLOCK=block)
    line = line_of(source, "tl.store")
    lines = {line: LineWork(1, load_bytes=4.0 * block, store_bytes=4.0 * block, moved_bytes=8.0 * block)}
    return Case(kernel, launch, compilation_of(lines, launch, warps=warps), gpu=H200)


def scalar_case(iterations: float) -> Case:
    kernel = kernel_of(SCALAR_SUM)
    launch = launch_of(kernel, (8192,), x=tensor(8192, 8192), o=tensor(8192), n=8192)
    lines = {line_of(SCALAR_SUM, "acc +="): LineWork(iterations, load_bytes=4.0 * iterations)}
    return Case(kernel, launch, compilation_of(lines, launch), gpu=H200)


def sum_case(live: float) -> Case:
    kernel = kernel_of(ROW_SUM)
    launch = launch_of(kernel, (1,), x=tensor(1000), o=tensor(1), n=1000, BLOCK=1024)
    lines = {line_of(ROW_SUM, "tl.load"): LineWork(1, load_bytes=4096.0, unmasked_fraction=live)}
    return Case(kernel, launch, compilation_of(lines, launch), gpu=H200)


def spilling_case(spill: int, local: int) -> Case:
    line = line_of(matmul(256, 256), "tl.dot(")
    mix = {line: LineInstructions({"load_local": local, "store_local": local, "wgmma": 8})}
    return matmul_case(256, 256, spill=spill, registers=255, instructions=mix)
