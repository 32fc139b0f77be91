"""Ways to have right results without computing them, or by luck, that the interpreter shows; and what only looks so."""

import json
import subprocess
import sys
import textwrap

import pytest

from tritonforge.domain.launch import Call, Distribution, Scalar, Tensor
from tritonforge.domain.messages import Compare, Program, Sanitize
from tritonforge.worker import sanitizing
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.sanitizer_report import errors_of, refusal_in

pytestmark = pytest.mark.triton

DOUBLE = """
def host(x):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return y
"""


def tensor(*shape, dtype="float32", **kwargs):
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= extent
    return Tensor(tuple(shape), tuple(strides), dtype, **kwargs)


def call(*arguments, seed=0, name="host"):
    return Call("c", "written.py", name, arguments, seed=seed)


@pytest.fixture
def compare(interpret_lane, written):
    """Compare two texts, each after the preamble; returns the outcome of the first input that is refused, and all."""

    def run(original, candidate, *calls):
        calls = calls or (call(tensor(300)), call(tensor(300), seed=1))
        result = interpret_lane.do(Compare(written(original), written(candidate), calls))
        last = next((o for o in result.outcomes if o.status != "equal"), result.outcomes[-1])
        return last, result

    return run


def refused(compared, check):
    outcome, result = compared
    assert outcome.status == "different", outcome
    assert outcome.check == check, outcome
    assert dict(result.checks)[check] == f"failed: {outcome.detail}"
    return outcome.detail


def passed(compared, *checks):
    outcome, result = compared
    assert outcome.status == "equal", outcome
    for check in checks:
        assert dict(result.checks)[check] == "passed", result.checks
    return result


# --- Races between programs

SHIFT = """
@triton.jit
def shift(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(x + i, value, mask=i < n)

def host(x):
    {before}
    shift[(triton.cdiv(x.numel(), {block}),)](x, x.numel(), B={block})
    return x
"""


def test_a_kernel_that_reads_what_another_program_overwrites_is_refused(compare):
    one_program = SHIFT.format(before="pass", block=512)
    said = refused(compare(one_program, SHIFT.format(before="pass", block=64)), "write conflicts")
    assert "shift (line" in said
    assert "program (1, 0, 0) changes element 64 of x, which program (0, 0, 0) reads in the same launch" in said


def test_the_same_race_in_the_original_is_noted_and_not_refused(compare):
    result = passed(compare(SHIFT.format(before="pass", block=128), SHIFT.format(before="pass", block=64)))
    assert any("write-after-read" in note for note in result.notes)


def test_values_that_flow_from_one_program_to_the_next_are_refused(compare):
    scan = """
@triton.jit
def scan(x, y, n, PARTS: tl.constexpr):
    part = tl.program_id(0)
    size = tl.cdiv(n, PARTS)
    total = 0.0
    if part > 0:
        total = tl.load(y + part * size - 1)
    for i in range(part * size, tl.minimum(part * size + size, n)):
        total += tl.load(x + i)
        tl.store(y + i, total)

def host(x):
    y = torch.empty_like(x)
    scan[({parts},)](x, y, x.numel(), PARTS={parts})
    return y
"""
    calls = (call(tensor(24)), call(tensor(24), seed=1))
    said = refused(compare(scan.replace("{parts}", "1"), scan.replace("{parts}", "3"), *calls), "write conflicts")
    assert "reads element 7 of y after program (0, 0, 0) wrote it in the same launch" in said


def test_programs_that_write_other_values_to_one_element_are_refused(compare):
    last = """
@triton.jit
def last(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y, tl.sum(tl.where(i == n - 1, tl.load(x + i, mask=i < n, other=0.0), 0.0), 0))

def host(x):
    y = torch.empty(1, device=x.device)
    last[(triton.cdiv(x.numel(), {block}),)](x, y, x.numel(), B={block})
    return y
"""
    said = refused(compare(last.replace("{block}", "512"), last.replace("{block}", "64")), "write conflicts")
    assert "program (4, 0, 0) writes another value than program (3, 0, 0) to element 0 of y" in said


def test_a_race_is_named_beside_a_result_that_differs_too(compare):
    """The first program adds nothing, so that the sums differ as well as what programs do to each other."""
    one = """
@triton.jit
def summed(x, y, n, FIRST: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.sum(tl.load(x + i, mask=(i >= FIRST) & (i < n), other=0.0), 0)
    tl.store(y, tl.load(y) + total)

def host(x):
    y = torch.zeros(1, device=x.device)
    summed[(triton.cdiv(x.numel(), {block}),)](x, y, x.numel(), FIRST={first}, B={block})
    return y
"""
    right = one.replace("{block}", "512").replace("{first}", "0")
    wrong = one.replace("{block}", "64").replace("{first}", "64")
    outcome, _ = compare(right, wrong)
    assert "is allowed; besides, summed (line" in outcome.detail
    assert "reads element 0 of y after program (0, 0, 0) wrote it in the same launch" in outcome.detail


def test_a_maximum_over_lanes_that_a_load_leaves_undefined_is_refused(compare):
    """A maximum passes over NaN, so that other lanes have to hold something that it does not pass over."""
    largest = """
@triton.jit
def largest(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y, tl.max(tl.maximum(tl.zeros((B,), tl.float32), tl.load(x + i, mask=i < n{other})), 0))

def host(x):
    y = torch.empty(1, device=x.device)
    largest[(1,)](x, y, x.numel(), B=512)
    return y
"""
    outcome, _ = compare(largest.replace("{other}", ", other=0.0"), largest.replace("{other}", ""))
    assert outcome.status == "different"
    assert outcome.difference.got > 1e38


def test_a_last_tile_that_is_shifted_back_writes_the_same_values_twice_and_passes(compare):
    back = """
@triton.jit
def shifted(x, y, n, B: tl.constexpr):
    i = tl.minimum(tl.program_id(0) * B, n - B) + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i) * 2)

def host(x):
    y = torch.empty_like(x)
    shifted[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return y
"""
    passed(compare(DOUBLE, back), "write conflicts", "program order", "kept results")


SUM = """
@triton.jit
def total(x, y, lock, n, B: tl.constexpr, HOW: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    part = tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0)
    if HOW == "atomic":
        tl.atomic_add(y, part)
    elif HOW == "lock":
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(y, tl.load(y) + part)
        tl.atomic_xchg(lock, 0)
    elif HOW == "mixed":
        tl.atomic_add(y, part)
        if tl.program_id(0) == 4:
            tl.store(y, tl.load(y))
    else:
        tl.store(y, tl.load(y) + part)

def host(x):
    y = torch.zeros(1, device=x.device)
    lock = torch.zeros(1, device=x.device, dtype=torch.int32)
    total[(triton.cdiv(x.numel(), {block}),)](x, y, lock, x.numel(), B={block}, HOW="{how}")
    return y
"""


def in_parts(how, block=64):
    return SUM.replace("{how}", how).replace("{block}", str(block))


@pytest.mark.parametrize("how", ["atomic", "lock"])
def test_sums_by_atomics_or_under_a_lock_pass(compare, how):
    passed(compare(in_parts("plain", 512), in_parts(how)), "write conflicts", "program order")


def test_sums_without_either_are_refused(compare):
    assert "in the same launch" in refused(compare(in_parts("plain", 512), in_parts("plain")), "write conflicts")


def test_a_plain_access_to_what_other_programs_update_atomically_is_refused(compare):
    said = refused(compare(in_parts("plain", 512), in_parts("mixed")), "write conflicts")
    assert "one atomically and one not" in said


# --- The order of programs

TICKET = """
@triton.jit
def numbered(x, y, ticket, n, B: tl.constexpr, TICKET: tl.constexpr):
    part = tl.program_id(0)
    if TICKET:
        part = tl.atomic_add(ticket, 1)
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + part, mask=i < n)

def host(x):
    y = torch.empty_like(x)
    ticket = torch.zeros(1, device=x.device, dtype=torch.int32)
    numbered[(triton.cdiv(x.numel(), 64),)](x, y, ticket, x.numel(), B=64, TICKET={ticket})
    return y
"""


def test_a_result_that_is_right_when_programs_run_in_order_is_refused(compare):
    plain, ticket = TICKET.replace("{ticket}", "False"), TICKET.replace("{ticket}", "True")
    assert "the order in which programs run" in refused(compare(plain, ticket), "program order")


def test_what_is_only_wanted_quickly_is_not_run_again(interpret_lane, written):
    plain, ticket = (written(TICKET.replace("{ticket}", said)) for said in ("False", "True"))
    result = interpret_lane.do(Compare(plain, ticket, (call(tensor(300)),), again=False))
    assert [one.status for one in result.outcomes] == ["equal"]
    assert dict(result.checks).keys() == {"host computation", "write conflicts"}


def test_an_original_that_depends_on_the_order_is_noted(compare):
    ticket = TICKET.replace("{ticket}", "True")
    result = passed(compare(ticket, ticket + "\n"))
    assert dict(result.checks)["program order"].startswith("skipped: the original itself")
    assert any("order in which programs run" in note for note in result.notes)


def test_a_program_that_waits_for_an_earlier_one_does_not_hang_the_check(compare):
    chain = """
@triton.jit
def chain(x, y, flags, n, B: tl.constexpr):
    part = tl.program_id(0)
    if part > 0:
        while tl.atomic_add(flags + part - 1, 0) == 0:
            pass
    i = part * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
    tl.atomic_xchg(flags + part, 1)

def host(x):
    y = torch.empty_like(x)
    flags = torch.zeros(triton.cdiv(x.numel(), 64), device=x.device, dtype=torch.int32)
    chain[(triton.cdiv(x.numel(), 64),)](x, y, flags, x.numel(), B=64)
    return y
"""
    assert "OutOfTime" in refused(compare(DOUBLE, chain), "program order")


# --- Results that were kept

KEEPING = """
_kept = {}

def host(x):
    key = {key}
    if key not in _kept:
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
        _kept[key] = y
    return _kept[key]{how}
"""


@pytest.mark.parametrize(
    ("key", "how"),
    [
        pytest.param("(x.data_ptr(), x.shape)", ".clone()", id="by address"),
        pytest.param("(x.data_ptr(), x.shape, x._version)", ".clone()", id="by address and version"),
    ],
)
def test_a_result_that_is_kept_for_the_next_call_is_refused(compare, key, how):
    outcome, _ = compare(DOUBLE, KEEPING.replace("{key}", key).replace("{how}", how))
    assert outcome.status == "different"
    assert outcome.check == "kept results"


def test_a_result_that_is_kept_by_shape_is_refused(compare):
    outcome, _ = compare(DOUBLE, KEEPING.replace("{key}", "x.shape").replace("{how}", ".clone()"))
    assert outcome.status == "different"


def test_a_result_that_is_kept_by_its_values_is_refused(compare):
    key = "x.numpy().tobytes()"
    outcome, _ = compare(DOUBLE, KEEPING.replace("{key}", key).replace("{how}", ".clone()"))
    assert outcome.status == "different"
    assert outcome.check in {"kept results", "host computation"}


def test_a_table_that_is_kept_as_the_original_keeps_it_passes(compare):
    table = """
_tables = {}

def table(n):
    if n not in _tables:
        t = torch.full((n,), 2.0, device="cuda")
        _tables[n] = t
    return _tables[n]

@triton.jit
def times(x, t, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * tl.load(t + i, mask=i < n), mask=i < n)

def host(x):
    y = torch.empty_like(x)
    times[(triton.cdiv(x.numel(), {block}),)](x, table(x.numel()), y, x.numel(), B={block})
    return y
"""
    passed(compare(table.replace("{block}", "64"), table.replace("{block}", "128")), "kept results")


def test_a_buffer_for_intermediate_values_that_is_kept_passes_when_each_call_fills_it(compare):
    scratch = """
_scratch = {}

def host(x):
    if x.shape not in _scratch:
        _scratch[x.shape] = torch.empty_like(x)
    half, y = _scratch[x.shape], torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 64),)](x, half, x.numel(), B=64)
    double[(triton.cdiv(x.numel(), 64),)](half, y, x.numel(), B=64)
    return y
"""
    fresh = scratch.replace("_scratch[x.shape], torch", "torch.empty_like(x), torch")
    passed(compare(fresh, scratch), "kept results")


# --- Torch in a kernel's name

ROWS = """
@triton.jit
def rows(x, y, n, B: tl.constexpr, PARTS: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    size = tl.cdiv(n, PARTS)
    i = tl.arange(0, B)
    inside = (i < size) & (part * size + i < n)
    values = tl.load(x + row * n + part * size + i, mask=inside, other=0.0)
    tl.store(y + row * PARTS + part, tl.sum(values, 0))

def launch(x, parts):
    y = torch.empty(x.shape[0], parts, device=x.device)
    rows[(x.shape[0], parts)](x, y, x.shape[1], B=64, PARTS=parts)
    return y

def host(x):
    {body}
"""
ROWS_CALLS = (call(tensor(6, 40)), call(tensor(6, 40), seed=1))


def rows(body):
    return ROWS.replace("{body}", body)


@pytest.mark.parametrize(
    "body",
    [
        "launch(x, 1); return x.sum(1, keepdim=True)",
        "launch(x, 1); return torch.sum(x, 1, keepdim=True)",
        "launch(x, 1); return torch.einsum('ij->i', x)[:, None]",
        "launch(x, 1); return torch.ops.aten.sum.dim_IntList(x, [1], True)",
        "y = launch(x, 1); return torch.where(y == y, x.sum(1, keepdim=True), y)",
        "launch(x, 1); return x @ torch.ones(x.shape[1], 1)",
        "launch(x, 1); return torch.tensor([[sum(r)] for r in x.tolist()], device=x.device)",
        "launch(x, 1); return torch.from_numpy(x.numpy().sum(1, keepdims=True))",
    ],
)
def test_a_library_that_computes_while_a_kernel_is_launched_is_refused(compare, body):
    refused(compare(rows("return launch(x, 1)"), rows(body), *ROWS_CALLS), "host computation")


@pytest.mark.parametrize(
    "body",
    [
        "return launch(x, 4).sum(1, keepdim=True)",
        "y = torch.zeros(x.shape[0], 1, device=x.device); rows[(6, 1)](x, y, 40, B=64, PARTS=1); return y.contiguous()",
        "return launch(x.clone(), 1).view(6, 1)",
        "return launch(x, 1).to(torch.float64).to(torch.float32)",
    ],
)
def test_what_splitting_and_moving_need_passes(compare, body):
    passed(compare(rows("return launch(x, 1)"), rows(body), *ROWS_CALLS), "host computation")


def test_operations_that_the_original_has_too_pass(compare):
    original, candidate = (
        rows("return launch(x * 2, 1) + 1"),
        rows("return launch(torch.mul(x, 2), 2).sum(1, True).add(1)"),
    )
    passed(compare(original, candidate, *ROWS_CALLS), "host computation")


TRANSPOSE = """
@triton.jit
def transpose(x, y, rows, cols, B: tl.constexpr):
    i, j = tl.program_id(0) * B + tl.arange(0, B)[:, None], tl.program_id(1) * B + tl.arange(0, B)[None, :]
    inside = (i < rows) & (j < cols)
    tl.store(y + j * rows + i, tl.load(x + i * cols + j, mask=inside), mask=inside)

def launch(x, y, block=16):
    grid = (triton.cdiv(x.shape[0], block), triton.cdiv(x.shape[1], block))
    transpose[grid](x, y, x.shape[0], x.shape[1], B=block)

def host(x):
    y = torch.empty(x.shape[1], x.shape[0], device=x.device)
    {body}
    return y
"""


@pytest.mark.parametrize(
    "body",
    [
        "launch(x, y); y = x.t().contiguous()",
        "launch(x, y); y = torch.empty_like(y).copy_(x.t())",
        "launch(x[:16], torch.empty_like(y)); y.copy_(x.t())",
    ],
)
def test_a_copy_by_torch_in_place_of_the_kernels_is_refused(compare, body):
    calls = (call(tensor(24, 40)), call(tensor(24, 40), seed=1))
    compared = compare(TRANSPOSE.replace("{body}", "launch(x, y)"), TRANSPOSE.replace("{body}", body), *calls)
    assert "copies an argument" in refused(compared, "host computation")


def test_a_copy_that_the_kernel_then_changes_passes(compare):
    in_place = """
@triton.jit
def twice(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

def host(x):
    y = x.clone()
    twice[(triton.cdiv(x.numel(), 64),)](y, x.numel(), B=64)
    return y
"""
    passed(compare(DOUBLE, in_place), "host computation", "write conflicts", "program order", "kept results")


def test_memory_without_values_is_poisoned_whichever_way_it_is_made(compare):
    legacy = DOUBLE.replace("torch.empty_like(x)", "torch.Tensor(x.numel())").replace(
        "x.numel(), B", "x.numel() - 1, B"
    )
    outcome, _ = compare(DOUBLE, legacy)
    assert outcome.status == "different"
    assert "never written" in outcome.detail


# --- Coverage

BRANCHES = """
@triton.jit
def helped(v, FLAG: tl.constexpr):
    if FLAG:
        return v * 2
    return v + 1

@triton.jit
def branching(x, y, n, bias, B: tl.constexpr, EVEN: tl.constexpr):
    part = tl.program_id(0)
    i = part * B + tl.arange(0, B)
    if EVEN:
        v = tl.load(x + i)
    else:
        v = tl.load(x + i, mask=i < n)
    if bias is not None:
        v += 1.0
    if part == 7:
        v = v * 1.0
    scale = 1.0 if part < 100 else 2.0
    v = helped(v, FLAG=True) * scale
    tl.store(y + i, v, mask=i < n)

def host(x):
    y = torch.empty_like(x)
    branching[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), None, B=64, EVEN=False)
    return y
"""


def test_what_never_ran_is_told_apart_from_what_constexprs_rule_out(compare, written):
    lines = written(BRANCHES).overlays[0][1].splitlines()

    def line(text):
        return 1 + next(i for i, one in enumerate(lines) if text in one)

    result = passed(compare(DOUBLE, BRANCHES))
    by_name = {one.kernel: one for one in result.coverage}
    assert set(by_name) == {"branching", "helped"}
    kernel = by_name["branching"]
    assert kernel.file.endswith("written.py")
    assert (kernel.branches, kernel.branches_taken) == (4, 2)
    assert kernel.missed_branches == ((line("if part == 7"), "true"), (line("scale = "), "false"))
    assert kernel.missed_lines == (line("v = v * 1.0"),)
    assert (line("if EVEN"), "true") in kernel.constexpr_branches
    assert (line("if bias"), "true") in kernel.constexpr_branches
    assert kernel.lines - kernel.lines_run == 1
    assert by_name["helped"].missed_lines == ()


def test_coverage_adds_up_over_the_inputs(compare):
    larger = (call(tensor(300)), call(tensor(7 * 64 + 1)))
    kernel = next(c for c in compare(DOUBLE, BRANCHES, *larger)[1].coverage if c.kernel == "branching")
    assert kernel.missed_lines == ()


def test_a_comparison_of_a_program_with_itself_runs_nothing_again(compare):
    result = passed(compare(DOUBLE, DOUBLE))
    assert "program order" not in dict(result.checks)


def test_inputs_that_name_values_exactly_are_checked_with_what_can_be_changed(compare):
    gather = """
@triton.jit
def gather(x, index, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + tl.load(index + i, mask=i < n), mask=i < n), mask=i < n)

def host(x, index, scale):
    y = torch.empty(index.numel(), device=x.device)
    gather[(triton.cdiv(index.numel(), {block}),)](x, index, y, index.numel(), B={block})
    return y
"""
    index = tensor(200, dtype="int32", values=Distribution("uniform", low=0, high=49))
    one = call(tensor(50), index, Scalar(1.0))
    compared = compare(gather.replace("{block}", "64"), gather.replace("{block}", "32"), one)
    passed(compared, "program order", "kept results", "write conflicts")


# --- Repeats, whose loop is the same on every device

REPEATED = """
import ctypes, itertools, json, sys
from pathlib import Path
from tritonforge.worker.preparing import prepare_zygote
prepare_zygote("interpret")
import tritonforge.worker.racing as racing
from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Compare, Program
from tritonforge.worker import comparing_interpreted
from tritonforge.worker.comparing import Where, compare

class Context:
    def progress(self, message, fraction=None): pass
    def output(self): return ""

racing._SECONDS = 0.0
root, names = sys.argv[1], sys.argv[2:]
where = Where("cpu", comparing_interpreted._around, further=racing.run_again)
call = Call("c", "host.py", "host", (Tensor((30,), (1,), "float32"),))
for original, candidate in itertools.pairwise(names):
    programs = [Program(root, "host.py", (("host.py", Path(root, name).read_text()),)) for name in (original, candidate)]
    result = compare(Compare(*programs, (call,)), Context(), where)
    print(json.dumps([result.outcomes[0].check, result.outcomes[0].detail, dict(result.checks), result.notes]))
"""
STEADY = """
import ctypes, torch
calls = 0
def host(x):
    global calls
    calls += 1
    return x * 2 {more}
"""


def test_repeats_show_what_varies_and_what_is_read_beside_a_buffer(tmp_path):
    beside = "+ 0 * ctypes.c_float.from_address(x.data_ptr() + 4 * x.numel()).value"
    texts = {
        "steady.py": "",
        "other.py": "+ 0",
        "varying.py": "+ (calls % 5 == 0) * 1e-6",
        "varying_too.py": "+ (calls % 7 == 0) * 1e-6",
        "wild.py": "+ (calls % 5 == 0) * 1e-3",
        "last.py": "- 0",
        "beside.py": beside,
    }
    (tmp_path / "host.py").touch()
    for name, more in texts.items():
        (tmp_path / name).write_text(STEADY.replace("{more}", more))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(REPEATED), str(tmp_path), *texts],
        capture_output=True,
        text=True,
        check=True,
    )
    steady, varying, too, wild, calm, beside = map(json.loads, done.stdout.splitlines())
    assert steady == ["", "", {"races": "passed", "memory beside buffers": "passed"}, []]
    assert varying[0] == "races"
    assert "returned varies from run to run" in varying[1]
    assert too[0] == ""
    assert "The original's returned varies from run to run" in too[3][0]
    assert wild[0] == "races"
    assert "the original's by up to" in wild[1]
    assert calm[0] == ""
    assert beside[0] == "memory beside buffers"


# --- compute-sanitizer

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at matmul_kernel+0xec0 in matmul.py:43
=========     by thread (18,0,0) in block (0,0,0)
=========     Access to 0x74505bcccca0 is out of bounds
=========     and is 161 bytes after the nearest allocation at 0x74505bccc800 of size 1,024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernelEx [0x2f26f0] in libcuda.so.1
=========
========= Invalid __global__ read of size 16 bytes
=========     at matmul_kernel+0xec0 in matmul.py:43
=========     by thread (19,0,0) in block (0,0,0)
=========     Access to 0x74505bccccb0 is out of bounds
=========     and is 177 bytes after the nearest allocation at 0x74505bccc800 of size 1,024 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at 0xda0 in /home/me/moe.py:175:fused_moe_kernel
=========     by thread (96,0,0) in block (44,0,0)
=========     Address 0x763995f9f002 is misaligned
=========     Host Frame:PyObject_Call [0x22d1ab]
=========                in /usr/bin/python3
=========
========= Program hit cudaErrorIllegalAddress (error 700) due to "an illegal memory access" on CUDA API call.
=========     Saved host backtrace up to driver entry point at error
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum_kernel+0x200 in a.py:37
=========     and Read access at sum_kernel+0x220 in a.py:20 [16 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
RACE = (
    "racecheck: Race reported between Write access at sum_kernel+0x200 in a.py:37 and Read access at "
    "sum_kernel+0x220 in a.py:20"
)
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def test_what_a_sanitizer_reports_becomes_one_sentence_for_each_place():
    first, second = errors_of(MEMCHECK, "memcheck")
    assert first == (
        "memcheck: Invalid __global__ read of size 16 bytes at matmul_kernel+0xec0 in matmul.py:43 which is after the "
        "nearest allocation of size 1,024 bytes (2 times)"
    )
    assert second == (
        "memcheck: Invalid __global__ write of size 4 bytes at 0xda0 in /home/me/moe.py:175:fused_moe_kernel "
        "at a misaligned address"
    )
    assert list(errors_of(RACECHECK, "racecheck")) == [
        RACE,
    ]


@pytest.mark.parametrize("text", ["", "\x00=========", "=========", CLEAN, "========= \n=========     at nothing\n"])
def test_what_is_no_report_is_no_error(text):
    assert errors_of(text, "memcheck") == ()


@pytest.mark.parametrize(
    ("said", "status", "why"),
    [
        (CLEAN, 0, ""),
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, ""),
        ("========= Error: Device not supported. Please refer to the documentation.", 1, "it does not know this GPU"),
        ("========= Error: No attachable process found. compute-sanitizer timed-out.", 1, "could not watch"),
        ("something nobody has seen", 3, "it ended with status 3: something nobody has seen"),
        ("", -9, "it ended with status -9"),
    ],
)
def test_why_a_sanitizer_said_nothing_is_told(said, status, why):
    found = refusal_in(said, status)
    assert (why in found) if why else found == ""


class Quiet:
    def progress(self, message, fraction=None): ...
    def output(self):
        return ""


def request(**kwargs):
    return Sanitize(Program("/", "a.py"), Call("c", "a.py", "f", ()), **kwargs)


def test_a_machine_without_a_sanitizer_says_so(monkeypatch):
    monkeypatch.setattr(sanitizing, "find_sanitizer", lambda: None)
    assert sanitizing.sanitize(request(), Quiet()).skipped == "compute-sanitizer is not installed"


def test_a_sanitizer_on_the_path_is_run_and_its_log_read(monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    (tmp_path / "memcheck").write_text(MEMCHECK)
    (tmp_path / "racecheck").write_text("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n")
    tool.write_text(
        f"""#!/bin/sh
[ "$1" = --version ] && echo "Version 2025.1.0" && exit 0
tool=$2
while [ "$1" != --log-file ]; do shift; done
cp {tmp_path}/$tool "$2"
"""
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = sanitizing.sanitize(request(), Quiet())
    assert len(found.errors) == 2
    assert found.checked == ("memcheck", "racecheck")
    assert (found.skipped, found.tool) == ("", "compute-sanitizer 2025.1.0")


def test_a_sanitizer_that_does_not_end_is_stopped(monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\nsleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setattr(sanitizing, "find_sanitizer", lambda: str(tool))
    monkeypatch.setattr(sanitizing, "version_of", lambda _tool: "")
    found = sanitizing.sanitize(request(budget_s=0.3), Quiet())
    assert found.errors == ()
    assert found.checked == ()
    assert found.skipped == "memcheck: it did not end in time; racecheck: no time was left for it"


def test_a_program_that_fails_by_itself_fails_the_job(monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text('#!/bin/sh\nwhile [ "$1" != --log-file ]; do shift; done\nshift 2\nexec "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(sanitizing, "find_sanitizer", lambda: str(tool))
    monkeypatch.setattr(sanitizing, "version_of", lambda _tool: "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(JobFailed) as failed:
        sanitizing.sanitize(request(), Quiet())
    assert failed.value.failure.kind == "unsupported"
