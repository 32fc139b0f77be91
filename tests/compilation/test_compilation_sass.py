import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from compilation_golden import artefacts, compilations, nsight

from tritonforge.compilation import read
from tritonforge.compilation.sass import access_width, classify, read_instructions, tensor_path
from tritonforge.domain.codec import decode
from tritonforge.domain.messages import CompiledLaunch
from tritonforge.prediction.load import load_of

CHAIN = """
\t//## File "/lib/standard.py", line 216 inlined at "/lib/standard.py", line 30
\t//## File "/lib/standard.py", line 30 inlined at "/home/me/k.py", line 16
\t//## File "/home/me/k.py", line 16
        /*0010*/              @!P1 SHFL.BFLY PT, R5, R10, 0x10, 0x1f ;
        /*0020*/                   FADD R5, R10, R5 ;
\t//## File "/home/me/k.py", line 17
        /*0030*/                   STG.E.U16 desc[UR6][R2.64], R5 ;
"""


def test_inlined_library_frames_are_charged_to_the_line_that_calls_them():
    found = read_instructions(CHAIN, "/home/me/k.py")
    assert found[16].instructions == {"shuffle": 1, "alu": 1}
    assert found[17].instructions == {"store_global": 1}
    assert found[17].access_bytes == (2,)


def test_without_a_chain_the_nearest_line_that_may_have_inlined_a_frame_is_charged():
    bare = "\n".join(
        line.split(" inlined at")[0] for line in CHAIN.splitlines() if 'k.py", line 16' not in line or "216" in line
    )
    callers = {("/lib/standard.py", 216): (16, 90)}
    found = read_instructions(bare, "/home/me/k.py", callers=callers)
    assert found[16].instructions == {"shuffle": 1, "alu": 1}


def test_two_compilers_with_and_without_chains_charge_reductions_to_the_same_lines():
    old, new = compilations("samples-3.7.1")["causal"], compilations("samples-3.9.0")["causal"]
    assert "inlined at" not in artefacts("samples-3.7.1")["causal"].artefacts["sass"]
    assert "inlined at" in artefacts("samples-3.9.0")["causal"].artefacts["sass"]
    for facts in (old, new):
        shuffles = {line for line, found in facts.instructions.items() if found.instructions.get("shuffle")}
        assert shuffles == {36, 37}


def test_a_helper_in_the_same_file_keeps_its_own_lines():
    found = compilations("samples-3.7.1")["uses_helper"].instructions
    assert found[10].instructions["special"] == 8
    assert sum(line.instructions.get("special", 0) for line in found.values()) == 8


@pytest.mark.parametrize(
    ("mnemonic", "kind"),
    [
        ("FFMA", "fma"), ("HFMA2", "fma"), ("FMUL", "alu"), ("IMAD", "int"), ("UIADD3", "int"), ("MUFU", "special"),
        ("HMMA", "mma"), ("IMMA", "mma"), ("HGMMA", "wgmma"), ("QGMMA", "wgmma"), ("UTCHMMA", "wgmma"),
        ("LDG", "load_global"), ("STG", "store_global"), ("LDSM", "load_shared"), ("STL", "store_local"),
        ("LDGSTS", "async_copy"), ("UTMALDG", "async_copy"), ("RED", "atomic"), ("BAR", "barrier"), ("SHFL", "shuffle"),
        ("F2FP", "convert"), ("BRA", "branch"), ("S2R", "other"), ("NEVERHEARDOF", "other"),
    ],
)  # fmt: skip
def test_instructions_fall_into_classes(mnemonic, kind):
    assert classify(mnemonic) == kind


@pytest.mark.parametrize(
    ("modifiers", "width"),
    [(".E", 4), (".E.128", 16), (".E.64", 8), (".E.U8", 1), (".E.U16", 2), (".E.BYPASS.128", 16)],
)
def test_access_widths_are_bytes_of_one_lane(modifiers, width):
    assert access_width(modifiers) == width


def test_a_wide_copy_and_a_tiny_one_show_in_their_access_widths():
    found = compilations("pathologies-3.6.0")
    widths = {
        name: {w for line in facts.instructions.values() for w in line.access_bytes} for name, facts in found.items()
    }
    assert widths["copy_at_bandwidth"] == {16}
    assert widths["copy_tiny_block"] == {4}


@pytest.mark.parametrize(
    ("golden", "name", "path"),
    [
        ("pathologies-3.6.0", "matmul_good", "wgmma"),
        ("pathologies-3.6.0", "matmul_small_tile", "mma"),
        ("pathologies-3.6.0", "matmul_ieee_fp32", "fma"),
        ("pathologies-3.6.0", "softmax_three_pass", "none"),
        ("samples-3.7.1-sm_80", "causal", "mma"),
        ("samples-3.7.1-sm_100", "causal", "tcgen05"),
        ("samples-3.7.1", "int8_dot", "wgmma"),
    ],
)
def test_the_tensor_path_is_the_instruction_family_of_the_dots(golden, name, path):
    assert compilations(golden)[name].tensor_path == path


# In `embedding_gather` one trip of a loop that was unrolled for many runs: which copy, a static count cannot tell.
@pytest.mark.parametrize("name", sorted(set(nsight()) - {"embedding_gather"}))
def test_warp_instructions_come_out_as_nsight_counted_them(name):
    """Static counts × trips, less unrolling, pipeline prologues, remainder loops and slow paths."""
    load = load_of(compilations("pathologies-3.6.0")[name], sms=132)
    counted = sum(load.instructions.values()) * load.programs
    assert counted == pytest.approx(nsight()[name]["warp_instructions"], rel=0.15)


def test_spills_inside_the_loop_are_told_from_those_outside():
    found = compilations("pathologies-3.6.0")["matmul_spilling"].instructions
    stores = sum(line.instructions.get("store_local", 0) for line in found.values())
    looped = sum(line.looped.get("store_local", 0) for line in found.values())
    assert 0 < looped < stores / 2


def test_the_slow_path_of_sin_is_rare():
    (line,) = [
        found for found in compilations("pathologies-3.6.0")["transcendental"].instructions.values() if found.rare
    ]
    assert line.rare["load_local"] == line.instructions["load_local"]


@pytest.mark.parametrize(
    "text", ["", "garbage", "/*0000*/", '//## File "', "\x00" * 50, "        /*0010*/ @P0 ;\n.L_x_1:\n"]
)
def test_odd_text_gives_nothing_and_no_error(text):
    assert read_instructions(text, "/k.py") == {}
    assert tensor_path(text, has_dot=True) == "none"


@pytest.mark.triton
def test_what_the_installed_compiler_writes_today_is_read_too(tmp_path):
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    root = Path(__file__).parents[2]
    out = tmp_path / "golden.json.xz"
    subprocess.run(
        [sys.executable, root / "benchmarks" / "compile_golden.py", out, "--only", "softmax_at_bandwidth"],
        check=True,
        capture_output=True,
        env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")},
    )
    (entry,) = json.loads(lzma.decompress(out.read_bytes())).values()
    found = read(decode(CompiledLaunch, entry), launch_id="x", kernel_file_path="/golden/pathologies.py")
    assert found.resources.registers > 8
    assert found.occupancy.fraction > 0
    assert found.work.exact
    assert found.work.total("load_bytes") == 8192 * 4
    reductions = {line for line, counts in found.instructions.items() if counts.instructions.get("shuffle")}
    assert reductions == {64, 65}
