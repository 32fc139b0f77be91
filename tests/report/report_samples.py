"""Results as the other rooms make them: a matmul with small tiles, refused and accepted candidates, odd numbers."""

import difflib
import math
from pathlib import Path

from tritonforge.compilation import waves
from tritonforge.domain.blocks import Atomic, Conversion, Dot, GlobalAccess, SharedAccess
from tritonforge.domain.blocks import Loop as LoopFacts
from tritonforge.domain.candidate import Candidate, Suggestion, Trial, Verdict
from tritonforge.domain.compilation import (
    Compilation,
    LineInstructions,
    LineWork,
    Occupancy,
    Prediction,
    Resources,
    Work,
)
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.kernel import (
    Access,
    CommentProblem,
    Kernel,
    LaunchSite,
    Loop,
    Operation,
    Parameter,
    SourceError,
)
from tritonforge.domain.launch import CallSite, Config, Items, Launch, Opaque, Problem, Scalar, Symbol, Tensor
from tritonforge.domain.messages import Difference
from tritonforge.domain.profile import LineHeat, Profile, Roofline, TargetInfo, TimeDistribution
from tritonforge.domain.program import OtherKernel, ProgramResult, RankedKernel
from tritonforge.domain.provenance import Evidence
from tritonforge.domain.results import (
    AnalyzedKernel,
    AnalyzeResult,
    Assessment,
    DoctorCheck,
    DoctorResult,
    OptimizeResult,
    ProfileResult,
    VerifyResult,
)
from tritonforge.domain.source import Edit, Range, apply_edits

FILE = "examples/matmul.py"
SOURCE = '''\
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Compute one tile."""
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, 32):
        a = tl.load(a_ptr + k, mask=k < K, other=0.0)
        b = tl.load(b_ptr + k, mask=k < K, other=0.0)
        acc += tl.dot(a, b)
    tl.store(c_ptr, acc)


def matmul(a, b):
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](a, b, c, M, N, K, BLOCK_M=32, BLOCK_N=32)
    return c
'''

_LOOP = Loop("range", Range.of(10, 5, 13, 28), "k", "0", "K", "32", 0)
_SITE = LaunchSite(FILE, "matmul", Range.of(19, 5, 19, 70), "(…)", "tuple", None, (), (), (), "51te")
KERNEL = Kernel(
    FILE,
    "matmul_kernel",
    Range.of(6, 1, 14, 25),
    Range.of(7, 5, 7, 18),
    tuple(
        Parameter(name, i, name.startswith("BLOCK"), "tile" if name.startswith("BLOCK") else "pointer")
        for i, name in enumerate(("a_ptr", "b_ptr", "c_ptr", "M", "N", "K", "stride_am", "BLOCK_M", "BLOCK_N"))
    ),
    loops=(_LOOP,),
    accesses=tuple(
        Access(kind, Range.of(n, 9, n, 20), "a_ptr", "a_ptr + k", None, None, True)
        for kind, n in (("load", 11), ("load", 12), ("store", 14))
    ),
    dots=(Operation("dot", Range.of(13, 16, 13, 28), ("a", "b")),),
    launch_sites=(_SITE,),
    code_hash="5d1f0c",
)
ROW_KERNEL = Kernel("examples/rows.py", "Rows.softmax", Range.of(3, 5, 20, 9), Range.of(4, 9, 4, 16), ())


def matrix(rows: int, columns: int, strides: tuple[int, int] | None = None) -> Tensor:
    return Tensor((rows, columns), strides or (columns, 1), "float16")


def launch(identity: str, size: int, *, count: int = 1, rank: int = 1) -> Launch:
    arguments = (
        ("a_ptr", matrix(size, size)),
        ("b_ptr", matrix(size, size, (1, size))),
        ("c_ptr", matrix(size, size)),
        ("M", Scalar(size)),
        ("N", Scalar(size)),
        ("K", Scalar(size)),
        ("stride_am", Scalar(size)),
    )
    config = Config(
        (("BLOCK_M", Scalar(32)), ("BLOCK_N", Scalar(32))),
        (("num_warps", Scalar(4)), ("num_stages", Scalar(3))),
        (size // 32, size // 32, 1),
    )
    return Launch(
        identity, FILE, "matmul_kernel", Problem(arguments), config, CallSite(FILE, 19, "matmul"), count, rank
    )


BIG = launch("3f2a1b", 4096, count=12)
SMALL = launch("9c04de", 512, rank=2)
ODD = Launch(
    "0dd000",
    "examples/rows.py",
    "Rows.softmax",
    Problem(
        (
            ("x", Tensor((), (), "float32")),
            ("eps", Scalar(math.nan)),
            ("nothing", Scalar(None)),
            ("pair", Items("tuple", (matrix(2, 3), Items("list", (Scalar(True), Scalar("a")))))),
            ("fn", Opaque("<object>")),
        ),
        (("DTYPE", Symbol("dtype", "float16")),),
    ),
    Config((), (("num_warps", Scalar(1)),), (2, 3, 4)),
    CallSite("examples/rows.py", 30, ""),
    time_us=math.inf,
)

OFFLINE = TargetInfo("offline", "offline", None, None, "2.13.0", "3.7.1")
LAB = TargetInfo("lab", "ssh", "NVIDIA H200", "580.82", "2.11.0", "3.6.0")

TILE = Finding(
    "TF203",
    "tile-too-small",
    "warning",
    FILE,
    Range.of(13, 16, 13, 28),
    "Each program computes a 32×32 tile: 16 FLOP per byte loaded, while NVIDIA H200 needs about 131 to keep its tensor "
    "cores busy from L2; a larger tile reuses each byte more often.",
    "compiled",
    {
        "tile": Evidence("32×32", "1", "compiled"),
        "intensity": Evidence(16.0, "FLOP/byte", "compiled"),
        "intensity_needed": Evidence(131.4, "FLOP/byte", "derived"),
        "tile_traffic": Evidence(8_589_934_592, "bytes", "derived"),
        "time": Evidence(1562.3, "µs", "predicted"),
        "coalesced": Evidence(True, "1", "compiled"),
        "hit_rate": Evidence(math.nan, "1", "predicted"),
    },
    2.4,
    "3f2a1b",
)
TUNING = Finding(
    "TF404",
    "no-tuning",
    "hint",
    FILE,
    Range.of(7, 5, 7, 18),
    "Block sizes and warps are fixed.",
    "source",
    {},
)
MASK = Finding(
    "TF502",
    "masked-load-without-other",
    "information",
    FILE,
    Range.of(11, 13, 11, 54),
    "Lanes that the mask turns off are undefined and reach the dot.",
    "source",
)
STAGES = Finding(
    "TF301", "low-occupancy", "hint", FILE, Range.of(10, 5, 10, 8), "Few warps are resident.", "derived", {}, 1.1
)

COMPILATION = Compilation(
    "3f2a1b",
    "matmul_kernel",
    "sm_90",
    "3.7.1",
    resources=Resources(64, 0, 8192),
    occupancy=Occupancy(0.5, 8, 32, "registers"),
    instructions={
        13: LineInstructions({"mma": 8, "load_shared": 4}, executed={"mma": 4096.0, "load_shared": 2048.0}),
        11: LineInstructions({"load_global": 2}, (16, 16)),
    },
    work=Work({11: LineWork(128.0, load_bytes=262144.0), 10: LineWork(math.inf)}),
    tensor_path="mma",
    accesses=(
        GlobalAccess(11, "async-copy", "a_ptr", "f16", (32, 32), 10, 128.0, 16, 16, True, 16.0, 16.0, 1.0, 1, False),
    ),
    shared_accesses=(SharedAccess(13, "load", "f16", (32, 32), "swizzled_shared", 10, 128.0, 1.0),),
    conversions=(Conversion(14, "mma", "blocked", "f32", (32, 32), 4096.0, through="shared"),),
    dots=(Dot(13, "mma", (32, 32, 32), "f16", "f16", "f32", 10, 128.0, (16, 8)),),
    atomics=(Atomic(14, "fadd", "f32", (), "relaxed", "gpu"),),
    loops=(LoopFacts(10, trips=128.0, stages_asked=3, stages_used=3, buffers=2, async_copies=2, dots=1),),
)
SPILLING = Compilation(
    "9c04de", "matmul_kernel", "sm_90", "3.7.1", resources=Resources(255, 1536, 100_000), occupancy=None
)
BROKEN = Compilation("3f2a1b", "matmul_kernel", "gfx942", "3.7.1", error="out of resource: shared memory")
PREDICTION = Prediction(1562.3, (1210.0, 1980.0), {"l2": 1500.0, "launch": 2.0}, "l2", "NVIDIA H200")
BOTTLENECK = Bottleneck(
    "tile-too-small", 0.85, "compiled", "loading its tiles takes 1.5 ms where the dots need 0.2 ms.", 13
)

ANALYZE = AnalyzeResult(
    (
        AnalyzedKernel(
            KERNEL,
            (BIG, SMALL),
            "",
            (
                Assessment(COMPILATION, PREDICTION, BOTTLENECK, waves=waves(16384, 8, 132)),
                Assessment(SPILLING),
                Assessment(BROKEN),
            ),
            (TILE, MASK, TUNING),
        ),
        AnalyzedKernel(
            ROW_KERNEL,
            launch_note="Nothing in the file runs it. Add a [[launch]] table to tritonforge.toml, or record one with "
            "`tritonforge trace -- python train.py`.",
        ),
    ),
    (SourceError("examples/broken.py", 7, "invalid syntax"),),
    OFFLINE,
    comment_problems=(
        CommentProblem(FILE, Range.of(9, 22, 9, 24), "no rule is named between the brackets: write ignore[TF203]."),
    ),
)

MEASURED_PROFILE = Profile(
    KERNEL,
    LAB,
    BIG,
    TimeDistribution(812.34, (809.1, 820.9), 30),
    Roofline(1.0e8, 1.37e11, 124.0, 169.2, 4300.0, 718.0, 0.2357, "compute"),
    BOTTLENECK,
    (TUNING, TILE, MASK, STAGES),
    {"long_scoreboard": 0.62, "barrier": 0.2, "wait": 0.1, "selected": 0.05, "other": 0.03},
    {
        11: LineHeat(0.41, {"long_scoreboard": 0.8, "wait": 0.2}),
        12: LineHeat(0.12),
        14: LineHeat(0.02),
        13: LineHeat(0.45, {"barrier": 1.0}),
        999: LineHeat(math.nan),
    },
    "pcsampling",
)
PREDICTED_PROFILE = Profile(
    KERNEL,
    OFFLINE,
    SMALL,
    None,
    None,
    Bottleneck("at-roofline", 0.9, "predicted", "91 % of the copy bandwidth."),
    missing=("time: this target has no GPU", "counters: this target has no GPU"),
)
PROFILE = ProfileResult((MEASURED_PROFILE, PREDICTED_PROFILE), {"9c04de": PREDICTION})


def accepted() -> Verdict:
    return Verdict(
        True,
        "same results on 3 inputs",
        (
            "matmul(float16[96×96], float16[96×96]), seed 7: equal (one size over a tile, with a tail)",
            "matmul(float16[64×64], float16[64×64]), seed 8: equal (sizes that divide evenly; sorted, ascending)",
            "matmul(float16[96×96], float16[96×96]), seed 9: equal (over a tile; large maxima)",
            "skipped, the original fails: kernel (line 8): reads element 1 of x (one row expanded to all)",
            "skipped, it takes too long in the interpreter: it runs on a GPU only (as recorded)",
        ),
        "the original kernel through its host function in Triton's interpreter",
        "2 ulp of the output's type plus 4e-06 of the output's scale; integers, NaN and Inf exact",
        1.2e-4,
        0.9e-4,
        {"results": "passed", "inputs unchanged": "passed", "on the GPU": "skipped: this target has no GPU"},
        "0a1b2c3d",
    )


def edits(tile: int) -> tuple[Edit, ...]:
    out = []
    for old, new in (("cdiv(M, 32)", f"cdiv(M, {tile})"), ("BLOCK_M=32", f"BLOCK_M={tile}")):
        at = SOURCE.index(old)
        out.append(Edit(FILE, at, at + len(old), new))
    return tuple(out)


def trial(tile: int, times: tuple[float, float] | None, *, verdict: Verdict | None = None, reason: str = "") -> Trial:
    candidate = Candidate(
        f"BLOCK_M={tile}, grid follows", edits(tile), (("tiles", (("BLOCK_M", str(tile)),)),), treats=("TF203",)
    )
    return Trial(
        candidate,
        verdict,
        {"3f2a1b": times[0], "9c04de": times[1]} if times else None,
        accepted=verdict is not None and verdict.accepted and not reason,
        reason=reason,
    )


REFUSED = Verdict(
    False,
    "output c[17, 3] is 1.5, not 1.25, on matmul(float16[96×96], float16[96×96]) (off the tile)",
    (
        "matmul(float16[64×64], float16[64×64]): equal (on the tile)",
        "matmul(float16[96×96], …): different (off the tile)",
    ),
    "the original kernel through its host function in Triton's interpreter",
    "2 ulp of the output's type plus 4e-06 of the output's scale",
    math.inf,
    None,
    {
        "results": "failed: 1,024 of 9,216 elements differ",
        "inputs unchanged": "passed",
        "on the GPU": "skipped: no GPU",
    },
    "0a1b2c3d-c0.1",
)

BEST = trial(128, (651.2, 8.1), verdict=accepted())
TRIALS = (
    trial(64, (790.0, 8.9), verdict=accepted()),
    trial(256, None, verdict=REFUSED, reason="results differ off the tile"),
    BEST,
    trial(
        512, None, reason="does not compile: out of resource: shared memory, Required: 294912, Hardware limit: 232448"
    ),
    trial(16, (2100.0, math.nan), reason="slower"),
)
DIFF = "".join(
    difflib.unified_diff(
        SOURCE.splitlines(keepends=True),
        apply_edits(SOURCE, BEST.candidate.edits).splitlines(keepends=True),
        f"a/{FILE}",
        f"b/{FILE}",
    )
)
OPTIMIZED = OptimizeResult(
    KERNEL,
    OFFLINE,
    (BIG, SMALL),
    {"3f2a1b": 1562.3, "9c04de": 9.4},
    "predicted",
    Suggestion(BEST, 2.39, (1.71, 2.9), "predicted", DIFF),
    TRIALS,
    (BOTTLENECK, Bottleneck("tensor-core", 0.6, "predicted")),
    (TILE, MASK, TUNING),
    BIG.config,
    "nothing improved",
    14.23,
    ("Checked in Triton's interpreter only; run it on a GPU before you rely on the gain.",),
)
AT_ROOF = OptimizeResult(
    ROW_KERNEL,
    LAB,
    (ODD,),
    {"0dd000": math.inf},
    "measured",
    None,
    (),
    (Bottleneck("at-roofline", 0.95, "measured", "93 % of the copy bandwidth."),),
    stopped_because="at its roofline",
)

VERIFIED = VerifyResult(accepted(), KERNEL, "candidate.py::matmul_kernel")
NOT_VERIFIED = VerifyResult(
    REFUSED,
    KERNEL,
    "candidate.py::matmul_kernel",
    "matmul(float16[96×96], float16[96×96])",
    Difference("c", (17, 3), 1.25, 1.5, 1024, 9216, allowed=3.9e-4),
)

DOCTOR = DoctorResult(
    LAB,
    (
        DoctorCheck("reach the target", True, "ssh -T gpu1 answered in 0.4 s"),
        DoctorCheck("triton", True, "3.6.0, within the supported 3.2 to 3.9"),
        DoctorCheck(
            "counters",
            False,
            "the driver answers ERR_NVGPUCTRPERM: only administrators may read performance counters on this machine",
            "Ask for NVreg_RestrictProfilingToAdminUsers=0; until then times are measured and counters are left out.",
        ),
    ),
)


def write_source(root: Path) -> None:
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).write_text(SOURCE, encoding="utf-8")


PROGRAM = ProgramResult(
    ("python", "train.py"), 0, 12.3, "cupti", "NVIDIA H200", 1e7, 0.33, 0.67,
    (
        RankedKernel(
            "matmul_kernel", 0.3, 3e6, 12, KERNEL, "examples/matmul.py:5", (BIG, SMALL), BOTTLENECK, 1.5, "", 1.11,
            in_workspace=True,
        ),
        RankedKernel("triton_poi_fused_add_0", 0.03, math.nan, 100, headroom_note="generated by torch.compile"),
    ),
    (OtherKernel("_ZN2at6native18elementwise_kernelE", 0.67, 6.7e6, 9000),),
    ("class of triton_poi_fused_add_0: generated by torch.compile",), 1,
)  # fmt: skip
