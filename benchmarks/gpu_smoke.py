"""Exercise every job of the worker on a machine with a GPU, one line each. Needs torch and triton only.

PYTHONPATH=server python benchmarks/gpu_smoke.py
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "server"))
os.environ.setdefault("TRITONFORGE_CACHE_DIR", tempfile.mkdtemp(prefix="tritonforge-"))

from tritonforge.domain import messages as m  # noqa: E402 - the path is set above
from tritonforge.domain.launch import Call, Distribution, Scalar, Tensor  # noqa: E402
from tritonforge.worker import handlers  # noqa: E402

failed = []


class Context:
    """A job context that reports nothing."""

    def progress(self, message, fraction=None):
        """Ignore progress."""

    def output(self):
        """Return no output."""
        return ""


def do(request):
    return handlers.HANDLERS[type(request)](request, Context())


def step(name, action):
    """Run one step; print its time, what it returned, and PASS or FAIL."""
    began = time.perf_counter()
    try:
        said = action()
    except Exception as error:  # noqa: BLE001 - every step stands alone
        failed.append(name)
        print(f"FAIL {name:44s} {time.perf_counter() - began:7.2f} s  {type(error).__name__}: {error}", flush=True)
        traceback.print_exc()
        detail = getattr(getattr(error, "failure", None), "detail", "")
        if detail:
            print(detail, file=sys.stderr, flush=True)
        return
    print(f"PASS {name:44s} {time.perf_counter() - began:7.2f} s  {said}", flush=True)


def program(name, *changes):
    file = f"examples/{name}.py"
    if not changes:
        return m.Program(str(ROOT), file)
    text = (ROOT / file).read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return m.Program(str(ROOT), file, ((file, text),))


def tensor(*shape, dtype="float32", **kwargs):
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= extent
    return Tensor(tuple(shape), tuple(strides), dtype, **kwargs)


def matmul_call(n):
    return Call("m", "examples/matmul.py", "matmul", (tensor(n, n, dtype="float16"), tensor(n, n, dtype="float16")))


def shift_call(n):
    return Call("s", "examples/scale_shift.py", "scale_shift", (tensor(n), tensor(n), Scalar(0.5)))


def softmax_call(rows, cols):
    return Call("r", "examples/row_softmax.py", "row_softmax", (tensor(rows, cols),))


TILES = (
    ("cdiv(M, 32), triton.cdiv(N, 32)", "cdiv(M, 128), triton.cdiv(N, 256)"),
    ("BLOCK_M=32, BLOCK_N=32, BLOCK_K=32", "BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=4"),
)
SMALL_TILES = (
    ("cdiv(M, 32), triton.cdiv(N, 32)", "cdiv(M, 64), triton.cdiv(N, 64)"),
    ("BLOCK_M=32, BLOCK_N=32, BLOCK_K=32", "BLOCK_M=64, BLOCK_N=64, BLOCK_K=32"),
)
BIG_BLOCK = (("BLOCK = 64", "BLOCK = 1024"),)
WIDE_ROWS = (("block=128", "block=4096"), ("num_warps=1", "num_warps=8"))
IN_PLACE = (("out = torch.empty_like(x)", "out = x"),)


def compared(original, candidate, call, wanted="equal"):
    request = m.Compare if os.environ.get("TRITON_INTERPRET") == "1" else m.CompareOnDevice
    (outcome,) = do(request(original, candidate, (call,))).outcomes
    assert outcome.status == wanted, outcome
    return f"{outcome.status} worst={outcome.worst_error} original={outcome.original_error} {outcome.detail}"


def timed(call, *programs, samples=30):
    result = do(m.Time(programs, call, samples=samples, budget_s=10.0))
    errors = [p.error for p in result.programs if p.error]
    assert not errors, errors
    parts = []
    for entry in result.programs:
        for launch in entry.launches:
            spread = statistics.quantiles(launch.samples, n=4)
            parts.append(
                f"{launch.launch.kernel} {statistics.median(launch.samples):.1f} us "
                f"[{spread[0]:.1f}, {spread[2]:.1f}] n={len(launch.samples)} restored={launch.restored}"
            )
    return "; ".join([*parts, *result.notes])


def recorded(name, entry, function=""):
    result = do(m.Record(program(name), entry, function))
    assert result.calls, result
    call = result.calls[0]
    return (
        f"{[c.function for c in result.calls]} {call.launches[0].kernel} grid={call.launches[0].grid} {result.failures}"
    )


def compiled(call, arch, *changes):
    (launch,) = do(m.Compile(program(Path(call.file).stem, *changes), call, arch)).launches
    assert launch.error is None, launch.error
    usage = next((line for line in launch.artefacts["resources"].splitlines() if "REG:" in line), "").split("STACK")[0]
    return f"{launch.compile_ms:.0f} ms, sass {len(launch.artefacts['sass'])} characters, {usage.strip()}"


def refused(call):
    (launch,) = do(
        m.Compile(
            program(
                "matmul",
                (TILES[0][0], "cdiv(M, 256), triton.cdiv(N, 256)"),
                (TILES[1][0], "BLOCK_M=256, BLOCK_N=256, BLOCK_K=128, num_warps=8"),
            ),
            call,
            "sm_90",
        )
    ).launches
    assert launch.error, launch
    return launch.error


def ceilings():
    found = do(m.MeasureCeilings())
    rates = {k: round(v, 1) for k, v in found.tflops.items()}
    return f"copy {found.copy_gbps:.0f} GB/s, L2 {found.l2_gbps}, {rates} TFLOP/s, launch {found.launch_us:.2f} us"


def scaled_in_place():
    """Time a kernel that reads and writes one buffer, which has to be restored."""
    call = Call("i", "examples/scale_shift.py", "scale_shift", (tensor(1 << 22), tensor(1 << 22), Scalar(1.5)))
    said = timed(call, program("scale_shift", *IN_PLACE), samples=10)
    assert "restored=True" in said, said
    return said


def device_steps():
    handlers.prepare("compile")
    import torch

    assert not torch.cuda.is_initialized(), "preparing a zygote initialised CUDA"
    step("record matmul main (cold)", lambda: recorded("matmul", "main"))
    step("record matmul main (warm)", lambda: recorded("matmul", "main"))
    step("record row_softmax main", lambda: recorded("row_softmax", "main"))
    step("record scale_shift test", lambda: recorded("scale_shift", "function", "test_scale_shift"))
    step("recording leaves the GPU alone", lambda: "untouched" if not torch.cuda.is_initialized() else 1 / 0)
    for name, call in (
        ("matmul", matmul_call(4096)),
        ("scale_shift", shift_call(1 << 24)),
        ("row_softmax", softmax_call(8192, 4096)),
    ):
        step(f"compile {name} sm_90", lambda call=call: compiled(call, "sm_90"))
        step(f"compile {name} sm_90 (warm)", lambda call=call: compiled(call, "sm_90"))
    step("compile matmul big tiles sm_90", lambda: compiled(matmul_call(4096), "sm_90", *TILES))
    step("compile matmul gfx942", lambda: compiled(matmul_call(4096), "gfx942"))
    step("too much shared memory is an error", lambda: refused(matmul_call(4096)))
    step("describe", lambda: do(m.Describe()))
    step("compare matmul 1000", lambda: compared(program("matmul"), program("matmul", *TILES), matmul_call(1000)))
    step("compare matmul 4096", lambda: compared(program("matmul"), program("matmul", *TILES), matmul_call(4096)))
    step(
        "compare matmul unwritten",
        lambda: compared(
            program("matmul"), program("matmul", ("cdiv(M, 32)", "cdiv(M, 64)")), matmul_call(1024), "different"
        ),
    )
    step(
        "compare matmul wrong",
        lambda: compared(
            program("matmul"),
            program("matmul", ("acc += tl.dot(a, b)", "acc += tl.dot(a, b) * 1.01")),
            matmul_call(1024),
            "different",
        ),
    )
    step(
        "compare scale_shift",
        lambda: compared(program("scale_shift"), program("scale_shift", *BIG_BLOCK), shift_call(1_000_003)),
    )
    step(
        "compare scale_shift changes its input",
        lambda: compared(program("scale_shift"), program("scale_shift", *IN_PLACE), shift_call(1_000_003), "different"),
    )
    step(
        "compare row_softmax",
        lambda: compared(program("row_softmax"), program("row_softmax", *WIDE_ROWS), softmax_call(1000, 3001)),
    )
    step("time matmul 4096", lambda: timed(matmul_call(4096), program("matmul"), program("matmul", *TILES)))
    step(
        "time scale_shift 2^24",
        lambda: timed(shift_call(1 << 24), program("scale_shift"), program("scale_shift", *BIG_BLOCK)),
    )
    step(
        "time scale_shift 2^12 (short)",
        lambda: timed(shift_call(1 << 12), program("scale_shift"), program("scale_shift", *BIG_BLOCK)),
    )
    step(
        "time row_softmax",
        lambda: timed(softmax_call(8192, 4096), program("row_softmax"), program("row_softmax", *WIDE_ROWS)),
    )
    step("time an in-place kernel", scaled_in_place)
    step(
        "time the same program twice",
        lambda: timed(matmul_call(4096), program("matmul", *TILES), program("matmul", *TILES)),
    )
    step("record after the GPU was used", lambda: recorded("matmul", "main"))
    step("ceilings", ceilings)


def interpreted_steps():
    handlers.prepare("interpret")
    ints = tensor(1000, values=Distribution("normal", mean=3.0, std=0.1))
    step("interpret matmul 100", lambda: compared(program("matmul"), program("matmul", *SMALL_TILES), matmul_call(100)))
    step("interpret matmul 256", lambda: compared(program("matmul"), program("matmul", *SMALL_TILES), matmul_call(256)))
    step(
        "interpret matmul unwritten",
        lambda: compared(
            program("matmul"), program("matmul", ("cdiv(M, 32)", "cdiv(M, 64)")), matmul_call(100), "different"
        ),
    )
    step(
        "interpret scale_shift",
        lambda: compared(program("scale_shift"), program("scale_shift", *BIG_BLOCK), shift_call(1003)),
    )
    step(
        "interpret scale_shift out of bounds",
        lambda: compared(
            program("scale_shift"),
            program("scale_shift", ("mask = offsets < n_elements", "mask = offsets < n_elements + 1")),
            shift_call(1003),
            "candidate-failed",
        ),
    )
    step(
        "interpret row_softmax",
        lambda: compared(
            program("row_softmax"), program("row_softmax", ("block=128", "block=512")), softmax_call(7, 300)
        ),
    )
    step(
        "interpret scale_shift positive",
        lambda: compared(
            program("scale_shift"),
            program("scale_shift", *BIG_BLOCK),
            Call("p", "examples/scale_shift.py", "scale_shift", (ints, ints, Scalar(2.0))),
        ),
    )


def main():
    if "--interpret" in sys.argv:
        interpreted_steps()
        return len(failed)
    import_began = time.perf_counter()
    device_steps()
    print(f"device steps took {time.perf_counter() - import_began:.1f} s", flush=True)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, __file__, "--interpret"], env=environment, check=False)
    print(
        "FAILED: " + ", ".join(failed) if failed else "device: all passed", f"; interpreter: {done.returncode} failed"
    )
    return len(failed) + done.returncode


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
