"""What a candidate's text may not add, one cheat at a time; and what it may, one rewrite at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.verify.rules import broken_rule, dropped_masks

GOLDEN = Path(__file__).parent.parent / "golden" / "rewrite"

ORIGINAL = '''import torch
import triton
import triton.language as tl

SIZES = {}


@triton.jit
def kernel(x, o, M, N, factor, B: tl.constexpr):
    r = tl.program_id(0)
    for start in range(0, N, B):
        c = start + tl.arange(0, B)
        v = tl.load(x + r * N + c, mask=c < N, other=0.0) * factor
        tl.store(o + r * N + c, v, mask=c < N)


def torch_scale(x, factor=0.5):
    return torch.relu(x) * factor


def scale(x, factor=0.5):
    """Scale a matrix."""
    M, N = x.shape
    o = torch.empty_like(x)
    kernel[(M,)](x, o, M, N, factor, B=32)
    return o


def test_scale():
    import numpy

    print(numpy.abs(scale(torch.ones(3, 4, device="cuda")).cpu()).sum())


if __name__ == "__main__":
    print(scale(torch.ones(3, 4, device="cuda")))
'''
BODY = "    o = torch.empty_like(x)\n"
LAUNCH = "    kernel[(M,)](x, o, M, N, factor, B=32)\n"
RETURN = "    return o\n"

CHEATS = {
    "a library function": ((RETURN, "    return torch.relu(x) * factor\n"), "torch.relu"),
    "a library function under another name": ((RETURN, "    f = torch.matmul\n    return f(o, o)\n"), "torch.matmul"),
    "a library method": ((RETURN, "    return o.clamp(min=0)\n"), ".clamp()"),
    "an operator on tensors": ((RETURN, "    return o * factor\n"), "* on a tensor"),
    "an operator on a view": ((RETURN, "    y = o.view(-1)\n    return y + 1\n"), "+ on a tensor"),
    "an operator in place": ((RETURN, "    o += x\n    return o\n"), "+= on a tensor"),
    "a matrix product": ((RETURN, "    return o @ o\n"), "@"),
    "elements assigned": ((RETURN, "    o[0] = x[0]\n    return o\n"), "writes elements of a tensor"),
    "elements gathered": ((RETURN, "    return o[x]\n"), "gathers elements"),
    "the reference of the file": ((RETURN, "    return torch_scale(x, factor)\n"), "torch.relu"),
    "a library call in a helper": (
        (RETURN, "    return fix(o)\n\n\ndef fix(o):\n    return torch.nan_to_num(o)\n"),
        "torch.nan_to_num",
    ),
    "another module": ((BODY, BODY + "    import os\n"), "imports os"),
    "a module of the project": (("import torch\n", "import torch\nfrom helpers import launch\n"), "imports helpers"),
    "what another module knows": (
        ("import torch\n", "import os\nimport torch\n", BODY, "    o = torch.empty(int(os.environ['N']))\n"),
        "uses os.environ",
    ),
    "global state": ((BODY, "    global LAST\n    LAST = x\n" + BODY), "keeps state in LAST"),
    "a cache of its own": ((BODY, "    o = SIZES.setdefault((M, N), torch.empty_like(x))\n"), "keeps state in SIZES"),
    "a cache written by index": ((RETURN, "    SIZES[M] = o\n    return o\n"), "keeps state in SIZES"),
    "a cached function": (("def scale(", "import functools\n@functools.cache\ndef scale("), "functools.cache"),
    "an attribute of the function": ((BODY, BODY + "    scale.last = o\n"), "sets the attribute scale.last"),
    "a default that is kept": (("def scale(x, factor=0.5)", "def scale(x, factor=0.5, kept={})"), "the default {}"),
    "a default that is computed": (("def scale(x, factor=0.5)", "def scale(x, factor=float(1))"), "the default float(1)"),
    "a guarded launch": ((LAUNCH, f"    try:\n    {LAUNCH}    except Exception:\n        pass\n"), "catches exceptions"),
    "a file": ((RETURN, "    open('/tmp/x', 'w').write('')\n    return o\n"), "uses open"),
    "output": ((RETURN, "    print(o)\n    return o\n"), "uses print"),
    "code from text": ((RETURN, "    exec('o = x')\n    return o\n"), "uses exec"),
    "an attribute by name": ((RETURN, "    return getattr(torch, 're' + 'lu')(x)\n"), "uses getattr"),
    "the globals": ((RETURN, "    return globals()['o']\n"), "uses globals"),
    "dunder tricks": ((RETURN, "    return scale.__globals__['o']\n"), "__globals__"),
    "addresses": ((BODY, BODY + "    if x.data_ptr() % 4096 == 0:\n        return x\n"), "data_ptr"),
    "an address that decides what is returned": (
        (BODY, BODY + "    aligned = x.data_ptr() % 16 == 0\n    if aligned:\n        return x\n"), "data_ptr"
    ),
    "an address that a function inside returns by": (
        (LAUNCH, "    aligned = x.data_ptr() % 16 == 0\n" + LAUNCH.replace("B=32", "B=32, FLAG=aligned")
         + "    def out():\n        return x if aligned else o\n"), "data_ptr"
    ),
    "an address that a class inside keeps": (
        (BODY, BODY + "    class A:\n        aligned = x.data_ptr() % 16 == 0\n\n    if A.aligned:\n        return x\n"),
        "data_ptr",
    ),
    "a library function in a class inside": (
        (BODY, BODY + "    class A:\n        o = torch.relu(x)\n\n    return A.o\n"), "torch.relu"
    ),
    "an address for a function out of a dict": (
        (LAUNCH, "    aligned = x.data_ptr() % 16 == 0\n    out = {0: chosen}\n    out[0](x, flag=aligned)\n" + LAUNCH),
        "data_ptr",
    ),
    "an address in a tile": ((LAUNCH, LAUNCH.replace("32", "32 + x.data_ptr() % 16")), "data_ptr"),
    "an address among others": (
        (LAUNCH, "    tile = x.data_ptr() % 64 == 0\n" + LAUNCH.replace("B=32", "B=32, FLAG=tile")), "data_ptr"
    ),
    "identities": ((BODY, BODY + "    if id(x) == 7:\n        return x\n"), "uses id"),
    "values": ((BODY, BODY + "    if x.sum().item() == 0:\n        return x\n"), ".item()"),
    "a comparison of tensors": ((BODY, BODY + "    if x == o:\n        return x\n"), "values of a tensor"),
    "synchronisation": ((RETURN, "    torch.cuda.synchronize()\n    return o\n"), "torch.cuda.synchronize"),
    "another stream": ((LAUNCH, "    with torch.cuda.stream(torch.cuda.Stream()):\n    " + LAUNCH), "torch.cuda.Stream"),
    "a lower precision of the library": (
        ("SIZES = {}", "SIZES = {}\ntorch.backends.cuda.matmul.allow_tf32 = True"),
        "torch.backends.cuda.matmul.allow_tf32",
    ),
    "another dtype": ((BODY, "    x = x.half()\n" + BODY), ".half()"),
    "a hook of the launch": (
        ("@triton.jit", "@triton.autotune([], key=[], pre_hook=lambda a: a['o'].copy_(a['x']))\n@triton.jit"),
        ".copy_()",
    ),
    "output of the kernel": (("        tl.store", "        tl.device_print('x', v)\n        tl.store"), "prints"),
}  # fmt: skip

REWRITES = {
    "whether rows are aligned": (
        LAUNCH,
        "    aligned = x.data_ptr() % 16 == 0 and N % 4 == 0\n" + LAUNCH.replace("B=32", "B=32, ALIGNED=aligned"),
    ),
    "another tile": ("B=32", "B=128, num_warps=8"),
    "a tile by size": (LAUNCH, LAUNCH.replace("32", "triton.next_power_of_2(N)")),
    "a grid of counted programs": (LAUNCH, "    grid = (triton.cdiv(M, 4) * 4,)\n    kernel[grid](x, o, M, N, factor, B=32)\n"),
    "a scratch buffer": (BODY, BODY + "    part = torch.zeros((M, 4), device=x.device, dtype=torch.float32)\n"),
    "persistent programs": (BODY, BODY + "    sms = torch.cuda.get_device_properties(x.device).multi_processor_count\n"),
    "a view": (RETURN, "    return o.view(M, N)\n"),
    "a copy without gaps": (BODY, "    x = x.contiguous()\n" + BODY),
    "a transposed view": (BODY, BODY + "    t = x.t()\n    assert t.stride(1) >= 1\n"),
    "a helper of its own": (
        LAUNCH,
        "    kernel[grid_of(M)](x, o, M, N, factor, B=tile_of(N))\n",
        "def torch_scale",
        "def grid_of(rows):\n    return (max(rows, 1),)\n\n\ndef tile_of(n):\n    return min(64, 1 << n.bit_length())\n\n\ndef torch_scale",
    ),
    "an autotuner": ("@triton.jit", "@triton.autotune([triton.Config({'B': b}) for b in (32, 64)], key=['N'])\n@triton.jit"),
    "a heuristic": ("@triton.jit", "@triton.heuristics({'E': lambda a: a['N'] % a['B'] == 0})\n@triton.jit"),
    "arithmetic on sizes": (LAUNCH, "    warps = 4 if N * x.element_size() < 8192 else 8\n    kernel[(M,)](x, o, M, N, factor, B=32, num_warps=warps)\n"),
    "a list of grids": (LAUNCH, "    grids = []\n    grids.append((M,))\n    for grid in grids:\n    " + LAUNCH.replace("(M,)", "grid")),
    "mathematics": ("import torch\n", "import math\n\nimport torch\n", LAUNCH, LAUNCH.replace("32", "2 ** math.ceil(math.log2(N))")),
    "the device of the arguments": (LAUNCH, f"    with torch.cuda.device(x.device):\n    {LAUNCH}"),
    "an exponential of two": ("0.0) * factor\n", "0.0) * tl.exp2(factor)\n"),
    "a loop the other way round": ("range(0, N, B)", "range(N - N % B, -1, -B)"),
}  # fmt: skip


def edited(changes: tuple[str, ...]) -> str:
    text = ORIGINAL
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", CHEATS)
def test_what_adds_more_than_a_kernel_is_refused_with_its_line(name):
    changes, said = CHEATS[name]
    candidate = edited(changes)
    reason = broken_rule(ORIGINAL, candidate, ["scale"])
    assert said in reason
    line = int(reason.removeprefix("line ").partition(":")[0])
    assert candidate.splitlines()[line - 1].strip() not in map(str.strip, ORIGINAL.splitlines()) or said == "torch.relu"


@pytest.mark.parametrize("name", REWRITES)
def test_what_only_launches_differently_passes(name):
    candidate = edited(REWRITES[name])
    assert candidate != ORIGINAL
    assert broken_rule(ORIGINAL, candidate, ["scale"]) == ""
    assert dropped_masks(ORIGINAL, candidate) == ()


def test_what_the_original_does_itself_is_no_fault_of_the_candidate():
    original = edited((RETURN, "    print(o.sum().item())\n    return o\n"))
    candidate = original.replace("B=32", "B=64")
    assert broken_rule(original, candidate, ["scale"]) == ""
    twice = candidate.replace("    print(", "    print(o.sum())\n    print(")
    assert broken_rule(original, twice, ["scale"])


def test_tests_and_main_blocks_of_a_candidate_may_do_what_they_like():
    candidate = ORIGINAL.replace("print(numpy.abs", "torch.cuda.synchronize(); print(numpy.linalg.norm")
    assert broken_rule(ORIGINAL, candidate, ["scale"]) == ""


def test_a_parameter_that_is_known_to_be_a_tensor_counts_as_one():
    candidate = ORIGINAL.replace("    M, N = x.shape\n", "    M, N = sizes(x)\n").replace(
        RETURN, "    return factor * x\n"
    )
    candidate += "\n\ndef sizes(x):\n    return len(x), 1\n"
    assert broken_rule(ORIGINAL, candidate, ["scale"], ["x"])


def test_what_does_not_parse_is_refused():
    assert broken_rule(ORIGINAL, "def scale(:\n", ["scale"]) == "the candidate is no Python"


@pytest.mark.parametrize("case", sorted(p.parent.name for p in GOLDEN.glob("*/after.py")))
def test_what_the_rewriter_writes_passes(case):
    before, after = ((GOLDEN / case / name).read_text() for name in ("before.py", "after.py"))
    hosts = {site.host for kernel in analyze(before, "k.py").kernels for site in kernel.launch_sites if site.host}
    assert broken_rule(before, after, hosts) == ""
    assert dropped_masks(before, after) == ()


UNMASKED_LOAD = ("mask=c < N, other=0.0", "eviction_policy=''")
GUARDED = (
    "        v = tl.load(x + r * N + c, mask=c < N, other=0.0) * factor\n",
    """        if EVEN:
            v = tl.load(x + r * N + c) * factor
        else:
            v = tl.load(x + r * N + c, mask=c < N, other=0.0) * factor
""",
    "B: tl.constexpr", "EVEN: tl.constexpr, B: tl.constexpr",
)  # fmt: skip


def test_a_dropped_mask_is_found_with_its_line():
    (dropped,) = dropped_masks(ORIGINAL, edited(UNMASKED_LOAD))
    assert (dropped.parameter, dropped.kind, dropped.line) == ("x", "load", 13)
    (dropped,) = dropped_masks(ORIGINAL, edited(("v, mask=c < N)", "v)")))
    assert (dropped.parameter, dropped.kind, dropped.line) == ("o", "store", 14)


def test_a_dropped_mask_under_another_name_of_the_parameter_is_found():
    candidate = edited(UNMASKED_LOAD).replace("tl.load(x +", "tl.load(source +").replace("kernel(x,", "kernel(source,")
    assert [dropped.parameter for dropped in dropped_masks(ORIGINAL, candidate)] == ["source"]


def test_a_mask_may_go_where_a_heuristic_proves_that_the_tile_divides():
    heuristic = ("@triton.jit", "@triton.heuristics({'EVEN': lambda a: a['N'] % a['B'] == 0})\n@triton.jit")
    assert dropped_masks(ORIGINAL, edited(GUARDED + heuristic)) == ()


def test_a_mask_may_go_where_every_launch_proves_that_the_tile_divides():
    candidate = edited((*GUARDED, "factor, B=32)", "factor, EVEN=N % 32 == 0, B=32)"))
    assert dropped_masks(ORIGINAL, candidate) == ()


def test_a_flag_that_proves_nothing_guards_nothing():
    candidate = edited((*GUARDED, "factor, B=32)", "factor, EVEN=N > 32, B=32)"))
    assert [dropped.line for dropped in dropped_masks(ORIGINAL, candidate)] == [14]


def test_the_other_branch_of_a_proof_is_not_guarded_by_it():
    swapped = GUARDED[1].replace("if EVEN:", "if not EVEN:")
    candidate = edited((GUARDED[0], swapped, *GUARDED[2:], "factor, B=32)", "factor, EVEN=N % 32 == 0, B=32)"))
    assert dropped_masks(ORIGINAL, candidate)


WIDE = """import triton
import triton.language as tl


@triton.jit
def row_of(x, row, stride):
    return x + row * stride


@triton.jit
def kernel(x, o, M, N, sx, so, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    first = row_of(x, row, sx)
    for start in range(0, N, B):
        c = start + tl.arange(0, B)
        v = tl.load(first + c, mask=c < N, other=0.0)
        tl.store(o + row * so + c, v, mask=c < N)
"""
ROW = "    row = tl.program_id(0).to(tl.int64)\n"
NARROWED = {
    "the cast is gone": ("x", (ROW, "    row = tl.program_id(0)\n")),
    "the cast comes too late": ("o", ("row * so", "(tl.program_id(0) * so).to(tl.int64)")),
    "the cast is to 32 bits": ("x", (ROW, ROW.replace("int64", "int32"))),
    "the row is narrowed on the way": ("o", ("row * so", "row.to(tl.int32) * so")),
    "one side in a helper": ("x", ("x, row, sx", "x, tl.program_id(0), sx")),
    "a loop over rows": (
        "o",
        (
            "        tl.store(o + row * so + c, v, mask=c < N)\n",
            "        for r in range(tl.program_id(0), M, M):\n            tl.store(o + r * so + c, v, mask=c < N)\n",
        ),
    ),
    "a size for a stride": ("o", ("row * so", "tl.program_id(0) * N")),
}
WIDE_STILL = {
    "a function for the method": (ROW, "    row = tl.cast(tl.program_id(0), tl.int64)\n"),
    "another name of the type": (ROW, "    wide = tl.int64\n    row = tl.program_id(0).to(wide)\n"),
    "strides for the row": (
        ROW,
        "    row = tl.program_id(0)\n    sx = sx.to(tl.int64)\n    so = tl.cast(so, dtype=tl.int64)\n",
    ),
    "annotated strides": (ROW, "    row = tl.program_id(0)\n", "sx, so,", "sx: tl.int64, so: tl.int64,"),
    "an unsigned row": (ROW, ROW.replace("int64", "uint64")),
    "zero of 64 bits": (ROW, "    row = tl.program_id(0) + tl.zeros((), dtype=tl.int64)\n"),
    "rows the other way round": (ROW, "    row = (M - 1 - tl.program_id(0)).to(tl.int64)\n"),
    "numbers of rows in 32 bits": (ROW, "    row = (tl.program_id(0) * 2 + tl.arange(0, 1)).to(tl.int64)\n"),
    "an address made before the loop": (
        "    for start",
        "    at = o + row * so\n    for start",
        "(o + row * so",
        "(at",
    ),
    "programs over rows": (ROW, "    row = (tl.program_id(0) % M).to(tl.int64)\n"),
}


@pytest.mark.parametrize("name", NARROWED)
def test_an_offset_that_loses_its_64_bits_is_refused(name):
    pointer, (old, new) = NARROWED[name]
    assert WIDE.count(old) == 1
    reason = broken_rule(WIDE, WIDE.replace(old, new), [])
    assert f"computes the offset of {pointer} in 32 bits, where the original uses 64" in reason
    assert reason.startswith("line ")


@pytest.mark.parametrize("name", WIDE_STILL)
def test_an_offset_may_get_its_64_bits_elsewhere(name):
    candidate = WIDE
    changes = WIDE_STILL[name]
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert candidate.count(old) == 1
        candidate = candidate.replace(old, new)
    assert broken_rule(WIDE, candidate, []) == ""


def test_an_original_of_32_bits_asks_for_no_more():
    narrow = WIDE.replace(".to(tl.int64)", "")
    assert broken_rule(narrow, narrow.replace("row * so", "(row + 0) * so"), []) == ""


ENDS = """
import triton
import triton.language as tl


@triton.jit
def sums(x, o, first, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    acc = tl.zeros((B,), dtype=tl.float32)
    end = tl.minimum(first + 1, n) // B * B
    for start in range(0, end, B):
        c = start + lanes
        acc += tl.load(x + c)
    for start in range(end, n, B):
        c = start + lanes
        acc += tl.load(x + c, mask=c < n, other=0.0)
    tl.store(o + lanes, acc)
"""
WHOLE = ENDS.replace("tl.load(x + c)", "tl.load(x + c, mask=c < n, other=0.0)")


def test_a_mask_may_go_where_the_loop_ends_before_it_would_say_no():
    assert dropped_masks(WHOLE, ENDS) == ()
    assert dropped_masks(WHOLE, ENDS.replace("end = tl.minimum(first + 1, n)", "end = n")) == ()
    both = "(c < n) & (c < first)"
    assert dropped_masks(WHOLE.replace("mask=c < n", f"mask={both}"), ENDS.replace("mask=c < n", f"mask={both}").replace(
        "tl.minimum(first + 1, n)", "min(first, n)"
    )) == ()  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.minimum(first + 1, n) // B * B", "tl.minimum(first + 1, n)"),
        ("tl.minimum(first + 1, n) // B * B", "tl.maximum(first + 1, n) // B * B"),
        ("tl.minimum(first + 1, n) // B * B", "(n + B) // B * B"),
        ("tl.minimum(first + 1, n) // B * B", "first // B * B"),
        ("// B * B", "// B * 2"),
        ("range(0, end, B)", "range(1, end, B)"),
        ("range(0, end, B)", "range(0, end, 2 * B)"),
        ("range(0, end, B)", "range(0, end + B, B)"),
        ("        c = start + lanes\n        acc += tl.load(x + c)", "        c = start + 2 * lanes\n        acc += tl.load(x + c)"),
        ("        c = start + lanes\n        acc += tl.load(x + c)", "        c = start + lanes\n        c += 1\n        acc += tl.load(x + c)"),
        ("lanes = tl.arange(0, B)", "lanes = tl.arange(1, B + 1)"),
        ("    for start in range(0", "    B = 2 * B\n    for start in range(0"),
        ("    for start in range(0", "    n += 8\n    for start in range(0"),
        ("    for start in range(0", "    end = end + B\n    for start in range(0"),
        ("        c = start + lanes\n        acc += tl.load(x + c)", "        acc += tl.load(x + c)\n        c = start + lanes"),
        ("first, n, B", "first, n, end, B"),
        ("first, n, B", "first, n, lanes, B"),
    ],
)  # fmt: skip
def test_a_loop_that_may_go_beyond_it_is_no_reason_to_drop_a_mask(old, new):
    assert old in ENDS
    (dropped,) = dropped_masks(WHOLE, ENDS.replace(old, new, 1))
    assert (dropped.parameter, dropped.kind) == ("x", "load")
