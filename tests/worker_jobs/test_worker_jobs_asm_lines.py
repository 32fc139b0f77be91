"""Locations inside inline assembly do not reach the line table."""

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from tritonforge.worker.asm_lines import whole_assembly_lines, without_inner_locations

pytestmark = pytest.mark.triton

PTX = """\
\t.loc\t1 34 21                         // k.py:34:21
\t// begin inline asm
\t.loc\t1 34 21                         // k.py:34:21
\tmov.u32 %r1, 0x0;
\t.loc\t1 35 21                         // k.py:35:21
\t@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];
\t// end inline asm
\t.loc\t1 36 9                          // k.py:36:9
\tadd.s32 \t%r2, %r1, 1;
"""


def test_the_location_before_a_block_of_assembly_holds_for_all_of_it():
    kept = without_inner_locations(PTX)
    assert [line.split()[2] for line in kept.splitlines() if ".loc" in line] == ["34", "36"]
    assert [line for line in kept.splitlines() if ".loc" not in line] == [
        line for line in PTX.splitlines() if ".loc" not in line
    ]


def test_text_without_assembly_stays_as_it_is():
    plain = PTX.replace("begin", "a").replace("end", "b")
    assert without_inner_locations(plain) == plain


def test_the_compiler_is_itself_again_afterwards():
    from triton.backends.nvidia.compiler import CUDABackend

    before = CUDABackend.make_cubin
    with whole_assembly_lines():
        assert CUDABackend.make_cubin is not before
    assert CUDABackend.make_cubin is before
