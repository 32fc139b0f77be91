"""What analysis says of the examples, written out."""

from __future__ import annotations

from pathlib import Path

import pytest
from analysis_snippets import cut, only_kernel, only_site, value

from tritonforge.analysis import analyze
from tritonforge.domain.kernel import RunnableEntry

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    return source, analyze(source, name)


def test_matmul_is_one_kernel_without_errors():
    _, found = example("matmul.py")
    assert found.errors == ()
    assert [k.name for k in found.kernels] == ["matmul_kernel"]
    assert found.entries == (RunnableEntry("main", "__main__", 60),)


def test_matmul_parameters_have_their_roles():
    kernel = only_kernel(example("matmul.py")[1])
    roles = [p.role for p in kernel.parameters]
    assert roles == ["pointer"] * 3 + ["scalar"] * 3 + ["stride"] * 6 + ["tile"] * 3
    assert kernel.tiles == ("BLOCK_M", "BLOCK_N", "BLOCK_K")


def test_matmul_axes_name_the_tile_that_each_program_id_walks():
    assert only_kernel(example("matmul.py")[1]).program_axes == ((0, ("BLOCK_M",)), (1, ("BLOCK_N",)))


def test_matmul_launch_values_are_literals_that_can_be_edited_in_place():
    source, found = example("matmul.py")
    site = only_site(found)
    for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"):
        given = value(site, name)
        assert (given.source, given.text) == ("literal", "32")
        assert cut(source, given.range) == cut(source, given.origin) == "32"
        line = source.splitlines()[given.origin.start.line - 1]
        assert line[: given.origin.start.column - 1].endswith(f"{name}=")
    assert value(site, "num_warps").source == "absent"


def test_matmul_grid_is_resolved_to_the_tuple_behind_its_name():
    source, found = example("matmul.py")
    site = only_site(found)
    assert site.grid == "(triton.cdiv(M, 32), triton.cdiv(N, 32))"
    assert site.grid_kind == "variable"
    assert cut(source, site.grid_range) == site.grid
    assert site.host == "matmul"
    assert dict(site.arguments)["stride_bk"] == "b.stride(0)"


def test_matmul_loads_feed_the_dot_inside_the_loop():
    kernel = only_kernel(example("matmul.py")[1])
    a, b, c = kernel.accesses
    assert [(x.kind, x.pointer, x.block, x.loops, x.feeds) for x in (a, b, c)] == [
        ("load", "a_ptr", True, (0,), ("dot",)),
        ("load", "b_ptr", True, (0,), ("dot",)),
        ("store", "c_ptr", True, (), ()),
    ]
    assert a.other == "0.0"
    assert c.mask == "(offs_m[:, None] < M) & (offs_n[None, :] < N)"
    (loop,) = kernel.loops
    assert (loop.kind, loop.start, loop.stop, loop.step, loop.step_tile) == ("range", "0", "K", "BLOCK_K", "BLOCK_K")
    assert not loop.scalar
    assert [(d.name, d.arguments, d.loops) for d in kernel.dots] == [("dot", ("a", "b"), (0,))]


def test_matmul_ranges_hold_the_kernel_and_its_name():
    source, found = example("matmul.py")
    kernel = only_kernel(found)
    assert cut(source, kernel.range).startswith("@triton.jit\ndef matmul_kernel(")
    assert cut(source, kernel.name_range) == "matmul_kernel"


def test_softmax_block_comes_from_a_parameter_with_a_default():
    source, found = example("row_softmax.py")
    given = value(only_site(found), "BLOCK")
    assert given.source == "parameter"
    assert cut(source, given.range) == "block"
    assert cut(source, given.origin) == "128"
    assert value(only_site(found), "num_warps").text == "1"


def test_softmax_rows_are_walked_in_three_passes():
    kernel = only_kernel(example("row_softmax.py")[1])
    assert [loop.step_tile for loop in kernel.loops] == ["BLOCK"] * 3
    assert [r.name for r in kernel.reductions] == ["max", "sum"]
    assert [(m.name, m.loops) for m in kernel.math] == [("exp", (1,)), ("exp", (2,)), ("/", (2,))]
    assert [x.feeds for x in kernel.accesses] == [("reduction",), ("reduction",), ("store",), ()]


def test_scale_shift_block_is_a_module_constant():
    source, found = example("scale_shift.py")
    given = value(only_site(found), "BLOCK_SIZE")
    assert (given.source, given.text) == ("module", "64")
    assert cut(source, given.origin) == "64"
    assert given.origin.start.line == 7
    assert found.entries == (RunnableEntry("function", "test_scale_shift", 30),)


@pytest.mark.parametrize("name", ["matmul.py", "row_softmax.py", "scale_shift.py"])
def test_examples_give_the_same_as_bytes_and_as_text(name):
    raw = (EXAMPLES / name).read_bytes()
    assert analyze(raw, name) == analyze(raw.decode(), name)
