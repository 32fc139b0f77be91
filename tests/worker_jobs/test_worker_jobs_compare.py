"""Comparing programs in the interpreter: what passes, and what each kind of mistake is called."""

import pytest

from tritonforge.domain.launch import Call, Distribution, Scalar, Symbol, Tensor
from tritonforge.domain.messages import Compare, Program, Reference, Tolerance

pytestmark = pytest.mark.triton


def tensor(*shape, dtype="float32", **kwargs):
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= extent
    return Tensor(tuple(shape), tuple(strides), dtype, **kwargs)


def matmul_call(dtype="float16", m=80, k=48, n=96):
    return Call("m", "examples/matmul.py", "matmul", (tensor(m, k, dtype=dtype), tensor(k, n, dtype=dtype)))


def shift_call(n=300, **kwargs):
    return Call("s", "examples/scale_shift.py", "scale_shift", (tensor(n, **kwargs), tensor(n), Scalar(0.5)))


BIGGER_TILES = (
    ("cdiv(M, 32), triton.cdiv(N, 32)", "cdiv(M, 64), triton.cdiv(N, 64)"),
    ("BLOCK_M=32, BLOCK_N=32", "BLOCK_M=64, BLOCK_N=64"),
)


@pytest.fixture
def compare(interpret_lane):
    def run(original, candidate, *inputs, **kwargs):
        return interpret_lane.do(Compare(original, candidate, inputs, **kwargs)).outcomes

    return run


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_bigger_tiles_compute_the_same(compare, example, dtype):
    (outcome,) = compare(example("matmul"), example("matmul", *BIGGER_TILES), matmul_call(dtype))
    assert outcome.status == "equal", outcome.detail
    assert outcome.outputs == 3
    assert outcome.original_error is not None
    assert 0 < outcome.original_error < 0.05


def test_a_small_error_in_the_sum_is_found(compare, example):
    wrong = example("matmul", ("acc += tl.dot(a, b)", "acc += tl.dot(a, b) * 1.01"))
    (outcome,) = compare(example("matmul"), wrong, matmul_call())
    assert outcome.status == "different"
    assert outcome.difference is not None
    assert outcome.difference.output == "returned"
    assert outcome.worst_error == pytest.approx(0.01, rel=0.2)


def test_a_wider_tolerance_lets_it_pass(compare, example):
    wrong = example("matmul", ("acc += tl.dot(a, b)", "acc += tl.dot(a, b) * 1.01"))
    (outcome,) = compare(example("matmul"), wrong, matmul_call(), tolerance=Tolerance(relative=0.02))
    assert outcome.status == "equal"


def test_tiles_that_are_never_launched_are_found_as_unwritten_memory(compare, example):
    (outcome,) = compare(example("matmul"), example("matmul", ("cdiv(M, 32)", "cdiv(M, 64)")), matmul_call())
    assert outcome.status == "different"
    assert "never written" in outcome.detail


def test_what_the_original_leaves_unwritten_must_stay_so(compare, example):
    half = example("scale_shift", ("mask = offsets < n_elements", "mask = offsets < n_elements // 2"))
    (same,) = compare(half, half, shift_call())
    assert same.status == "equal", same.detail
    (more,) = compare(half, example("scale_shift"), shift_call())
    assert more.status == "different"
    assert "leaves unwritten" in more.detail


def test_an_access_out_of_bounds_is_caught_with_its_line_and_program(compare, example):
    beyond = example("scale_shift", ("mask = offsets < n_elements", "mask = offsets < n_elements + 1"))
    (outcome,) = compare(example("scale_shift"), beyond, shift_call())
    assert outcome.status == "candidate-failed"
    assert "scale_shift_kernel (line 16, program (4, 0, 0)): reads element 300 of x_ptr" in outcome.detail
    (outcome,) = compare(beyond, example("scale_shift"), shift_call())
    assert outcome.status == "original-failed"


def test_lanes_left_undefined_by_a_masked_load_reach_the_result(compare, example):
    careless = example(
        "matmul",
        ("(offs_k[None, :] < K - k), other=0.0", "(offs_k[None, :] < K - k)"),
        ("(offs_n[None, :] < N), other=0.0", "(offs_n[None, :] < N)"),
    )
    (outcome,) = compare(example("matmul"), careless, matmul_call(k=40))
    assert outcome.status == "different"
    assert "nan instead of" in outcome.detail


def test_a_candidate_that_changes_its_input_is_refused(compare, example):
    careless = example("scale_shift", ("    return out", "    y[0] = 7.0\n    return out"))
    (outcome,) = compare(example("scale_shift"), careless, shift_call())
    assert outcome.status == "different"
    assert outcome.inputs_changed == ("y",)


def test_in_place_results_are_compared(compare, program):
    indices = tensor(3, dtype="int32", values=Distribution("uniform", low=0, high=9))
    call = Call("i", "kernels.py", "scale_in_place", (tensor(10), indices), (("factor", Scalar(3.0)),))
    (same,) = compare(program("kernels.py"), program("kernels.py"), call)
    assert same.status == "equal", same.detail
    worse = program("kernels.py", ("tl.load(x_ptr + at) * factor", "tl.load(x_ptr + at) * factor * 2"))
    (other,) = compare(program("kernels.py"), worse, call)
    assert other.status == "different"
    assert other.difference is not None
    assert other.difference.output == "x"


def test_a_test_function_without_results_is_compared_by_its_launches_buffers(compare, program):
    plain = program("kernels.py", ("    return out\n\n\ndef test_fails", "\n\ndef test_fails"))
    wrong = program("kernels.py", ("    return out\n\n\ndef test_fails", "\n\ndef test_fails"), ("x + 1", "x + 2"))
    call = Call("t", "kernels.py", "test_inline", ())
    assert compare(plain, plain, call)[0].status == "equal"
    (outcome,) = compare(plain, wrong, call)
    assert outcome.difference is not None
    assert outcome.difference.output == "out_ptr"


def test_tuned_heuristic_and_factory_kernels_are_interpreted(compare, program):
    calls = [
        Call("a", "kernels.py", "add_one_tuned", (tensor(700),)),
        Call("b", "kernels.py", "row_sums", (tensor(3, 50),)),
        Call("c", "kernels.py", "times_three", (tensor(100),)),
    ]
    outcomes = compare(program("kernels.py"), program("kernels.py"), *calls)
    assert [o.status for o in outcomes] == ["equal"] * 3, outcomes


def test_comparing_stops_at_the_first_difference_unless_told_otherwise(compare, example):
    wrong = example("scale_shift", ("x * scale + y", "x * scale - y"))
    calls = (shift_call(), shift_call(65))
    assert len(compare(example("scale_shift"), wrong, *calls)) == 1
    assert len(compare(example("scale_shift"), wrong, *calls, stop_at_first=False)) == 2


def test_inputs_differ_with_the_seed_and_repeat_with_it(compare, example):
    import dataclasses

    wrong = example("scale_shift", ("x * scale + y", "x * scale - y"))
    values = [
        compare(example("scale_shift"), wrong, dataclasses.replace(shift_call(), seed=seed))[0].difference.expected
        for seed in (1, 1, 2)
    ]
    assert values[0] == values[1] != values[2]


def test_strided_aliased_and_misaligned_arguments_are_rebuilt(compare, example):
    x = Tensor((50,), (1,), "float32", buffer=0, offset=1, alignment=4)
    y = Tensor((50,), (1,), "float32", buffer=0, offset=60, alignment=16)
    call = Call("s", "examples/scale_shift.py", "scale_shift", (x, y, Scalar(2.0)))
    (outcome,) = compare(example("scale_shift"), example("scale_shift", ("BLOCK = 64", "BLOCK = 256")), call)
    assert outcome.status == "equal", outcome.detail


@pytest.mark.parametrize("operator", ["rms_norm", "swiglu", "softmax", "layer_norm"])
def test_liger_operators_run_forward_and_backward_in_the_interpreter(compare, program, operator):
    pytest.importorskip("liger_kernel")
    (outcome,) = compare(program("liger.py"), program("liger.py"), Call("l", "liger.py", f"test_{operator}", ()))
    assert outcome.status == "equal", outcome.detail
    assert outcome.outputs >= 1


def test_a_candidate_that_raises_says_so_with_its_line(compare, example):
    broken = example("scale_shift", ("    return out", "    return undefined_name"))
    (outcome,) = compare(example("scale_shift"), broken, shift_call())
    assert outcome.status == "candidate-failed"
    assert "NameError" in outcome.detail
    assert "examples/scale_shift.py:27" in outcome.detail


def test_a_class_method_recorded_while_the_file_ran_as_main_is_repeated(compare, example):
    method = """
class Ops:
    @classmethod
    def scaled(cls, x, y):
        return scale_shift(x, y, 0.5)


def test_scale_shift():
"""
    program = example("scale_shift", ("\ndef test_scale_shift():\n", method))
    arguments = (Symbol("function", "__main__:Ops"), tensor(70), tensor(70))
    (outcome,) = compare(program, program, Call("m", "examples/scale_shift.py", "Ops.scaled", arguments))
    assert outcome.status == "equal", outcome.detail


# --- oracles, references, and outputs that are no tensors ------------------------------------------------------------

REFERENCES = """

def doubled(x, y, scale):
    return (x * scale + y) * 2


def exact(x, y, scale):
    assert x.dtype == y.dtype == torch.float64
    return x * scale + y


def other_shape(x, y, scale):
    return (x * scale + y).sum()


def broken(x, y, scale):
    raise ValueError("no such case")
"""


@pytest.fixture
def referred(compare, example):
    def run(function, *changes):
        program = example("scale_shift", ("    return out\n", "    return out\n" + REFERENCES))
        text = program.overlays[0][1]
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        candidate = Program(program.root, program.file, ((program.file, text),))
        return compare(program, candidate, shift_call(), reference=Reference(program, function))[0]

    return run


def test_a_reference_is_called_in_float64_and_is_the_oracle(referred):
    outcome = referred("exact")
    assert (outcome.status, outcome.oracle, outcome.note) == ("equal", "reference", ""), outcome
    assert 0 < outcome.original_error < 1e-6
    outcome = referred("exact", ("x * scale + y, mask", "x * scale * 1.00001 + y, mask"))
    assert outcome.status == "different"
    assert outcome.oracle == "reference"


def test_an_original_that_is_far_from_its_reference_is_told_and_judged_without_it(referred):
    outcome = referred("doubled")
    assert (outcome.status, outcome.oracle) == ("equal", "widened")
    assert "far from its reference, which was not used: returned differs" in outcome.note
    assert referred("doubled", ("x * scale + y, mask", "x * scale * 1.01 + y, mask")).status == "different"


def test_a_reference_that_says_nothing_is_told(referred):
    assert "nothing of the shape of an output" in referred("other_shape").note
    outcome = referred("broken")
    assert (outcome.status, outcome.oracle) == ("equal", "widened")
    assert "ValueError: no such case" in outcome.note


def test_a_difference_says_what_was_expected_what_came_and_what_was_allowed(compare, example):
    wrong = example("matmul", ("acc += tl.dot(a, b)", "acc += tl.dot(a, b) * 1.01"))
    (outcome,) = compare(example("matmul"), wrong, matmul_call())
    found = outcome.difference
    assert found.output == "returned"
    assert 0 < found.allowed < abs(found.got - found.expected)
    assert f"the first at {list(found.index)}: {found.got:.6g} instead of {found.expected:.6g}" in outcome.detail
    assert f"where {found.allowed:.2g} is allowed" in outcome.detail
    assert outcome.norm_error == pytest.approx(0.01, rel=0.1)
    assert outcome.original_norm_error < 1e-3


def test_outputs_of_no_elements_agree_but_do_not_count_as_compared(compare, example):
    (outcome,) = compare(example("scale_shift"), example("scale_shift", ("BLOCK = 64", "BLOCK = 256")), shift_call(0))
    assert (outcome.status, outcome.outputs) == ("equal", 0), outcome


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        ("out.sum().item() * (1 + 1e-7)", True),
        ("out.sum().item() * (1 + 1e-4)", False),
        ("out.numel()", False),
        ("str(out.sum().item())", False),
    ],
)
def test_a_float_that_is_returned_has_the_tolerance_of_floats(compare, example, value, accepted):
    first = example("scale_shift", ("    return out", "    return out.sum().item()"))
    (outcome,) = compare(first, example("scale_shift", ("    return out", f"    return {value}")), shift_call())
    assert (outcome.status == "equal") is accepted, outcome.detail


@pytest.mark.parametrize(("value", "accepted"), [("out.numel()", True), ("out.numel() + 1", False), ("300.0", False)])
def test_a_whole_number_that_is_returned_must_be_the_same(compare, example, value, accepted):
    first = example("scale_shift", ("    return out", "    return out.numel()"))
    (outcome,) = compare(first, example("scale_shift", ("    return out", f"    return {value}")), shift_call())
    assert (outcome.status == "equal") is accepted, outcome.detail


def test_what_equals_the_original_to_the_last_bit_needs_no_other_oracle(compare, example):
    same = example("scale_shift", ("BLOCK = 64", "BLOCK = 256"))
    first, second = compare(example("scale_shift"), same, shift_call(), shift_call(65))
    assert (first.oracle, second.oracle) == ("widened", "original")
    assert second.status == "equal"
    assert second.worst_error == 0
