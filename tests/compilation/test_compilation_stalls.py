"""What a lone warp spends: written out as disassemblies of a few instructions."""

import pytest

from tritonforge.compilation import stalls
from tritonforge.compilation.machine import read_machine
from tritonforge.compilation.sass import count_lines
from tritonforge.compilation.stalls import MEMORY_CYCLES, paces

LOAD = "LDG.E R{0}, desc[UR4][R2.64]"
USE = "FADD R20, R{0}, R20"


def sass(*instructions, loop=None):
    """Instructions as nvdisasm writes them; `loop` is (first, last) of those that a branch repeats."""
    lines = []
    for number, text in enumerate(instructions):
        if loop and number == loop[0]:
            lines.append(".L_x_1:")
        lines.append(f"        /*{number * 16:04x}*/                   {text} ;")
        if loop and number == loop[1]:
            lines.append("        /*fff0*/              @P0 BRA `(.L_x_1) ;")
    return "\n".join(lines)


def spent(text):
    once, looped = paces(read_machine(text, "k.py", default_line=1))[1]
    return once, looped


def test_loads_in_a_row_are_one_wait_and_loads_used_at_once_are_many():
    together = [LOAD.format(n) for n in (10, 11, 12)] + [USE.format(n) for n in (10, 11, 12)]
    apart = [text.format(n) for n in (10, 11, 12) for text in (LOAD, USE)]
    assert spent(sass(*together))[0].waits == pytest.approx(1, abs=0.02)
    assert spent(sass(*apart))[0].waits == pytest.approx(3, abs=0.02)


def test_a_loop_that_loads_one_pass_ahead_hides_what_its_own_work_takes():
    chain = ["MUFU.EX2 R21, R21"] * 10  # 220 cycles
    ahead = ["MOV R11, R10", LOAD.format(10), *chain]
    _, hidden = spent(sass(LOAD.format(10), *ahead, loop=(1, len(ahead))))
    _, waited = spent(sass(LOAD.format(10), USE.format(10), *chain, loop=(0, 11)))
    assert waited.waits == pytest.approx(1, abs=0.02)
    assert hidden.waits == pytest.approx(1 - 220 / MEMORY_CYCLES, abs=0.05)


def test_copies_that_run_ahead_are_waited_for_as_far_as_the_passes_between_do_not_hide_them():
    def loop(behind):
        work = ["MUFU.EX2 R21, R21"] * 10
        return sass("LDGSTS.E [R4], desc[UR4][R2.64]", "LDGDEPBAR", *work, f"DEPBAR.LE SB0, {behind:#x}", loop=(0, 12))

    waits = [spent(loop(behind))[1].waits for behind in range(6)]
    assert waits[0] == pytest.approx(1 - 220 / MEMORY_CYCLES, abs=0.05)
    assert waits == sorted(waits, reverse=True)
    assert waits[5] == 0


def test_a_product_that_is_waited_for_at_once_costs_more_than_one_that_overlaps_the_next():
    def loop(left):
        return sass(
            "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24, gsb0", f"WARPGROUP.DEPBAR.LE gsb0, {left:#x}", loop=(0, 1)
        )

    drained, overlapped = (spent(loop(left))[1].matrix for left in (0, 1))
    assert drained == pytest.approx(64 + 18, abs=2)
    assert overlapped == pytest.approx(64, abs=3)


def test_dependent_matrix_instructions_wait_for_their_latency_and_independent_ones_for_the_unit():
    dependent = sass(*["HMMA.16816.F32 R8, R4, R6, R8"] * 4, loop=(0, 3))
    independent = sass(*(f"HMMA.16816.F32 R{r}, R4, R6, R{r}" for r in range(8, 72, 4)), loop=(0, 15))
    assert spent(dependent)[1].matrix == pytest.approx(4 * 32, rel=0.05)
    assert spent(independent)[1].matrix + 16 == pytest.approx(16 * 6.5, rel=0.1)


def test_work_outside_a_loop_counts_once_and_counting_lines_keeps_both():
    text = sass(LOAD.format(10), USE.format(10), "IADD3 R1, R1, 0x1, RZ", loop=(2, 2))
    once, looped = spent(text)
    assert (once.waits > 0.9, looped.waits, once.cycles > 0, looped.cycles > 0) == (True, 0, True, True)
    line = count_lines(read_machine(text, "k.py", default_line=1))[1]
    assert (line.pace, line.looped_pace) == (once, looped)


def numbered(*texts):
    """Instructions and labels in order, as nvdisasm writes them."""
    return "\n".join(
        text if text.endswith(":") else f"        /*{number * 16:04x}*/                   {text} ;"
        for number, text in enumerate(texts)
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no disassembly at all\n\x00\xff",
        numbered(".L_x_1:"),
        numbered("MOV R1, c[0x0][0x28]", ".L_x_1:"),
        numbered("@P0 BRA `(.L_x_9)"),
        numbered(".L_x_1:", "BRA `(.L_x_1)"),
        numbered("FADD R" + "9" * 5000 + ", R2, R3"),
        '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\nk:\n\tglobal_load_dword v[0:99999999999], v1, s[0:1]\n',
        numbered("DEPBAR.LE SB0, 0x0", "LDGDEPBAR", "WARPGROUP.DEPBAR.LE gsb0, 0xffffffffffffffffffff"),
        numbered("HGMMA.64x" + "9" * 5000 + "x16.F32 R24, gdesc[UR4], R24, gsb0"),
        '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\nk:\n.LBB0_1:\n\ts_branch .LBB0_1\n',
        sass(*[LOAD.format(n) for n in range(8)], loop=(0, 6))[:-40],
    ],
)
def test_whatever_stands_in_a_disassembly_is_walked_to_its_end(text):
    for once, looped in paces(read_machine(text, "k.py", default_line=1)).values():
        assert min(once.cycles, looped.cycles, once.waits, looped.waits) >= 0


@pytest.mark.parametrize("target", ["{0}", "{1}", "0"], ids=["interleaved", "nested", "one"])
def test_loops_that_overlap_are_each_walked_a_few_times(target):
    count = 300
    starts = [text for n in range(count) for text in (f".L_x_{n}:", "FADD R2, R2, R3")]
    ends = ["@P0 BRA `(.L_x_" + target.format(n, count - 1 - n) + ")" for n in range(count)]
    once, looped = spent(numbered(*starts, *ends))
    assert once.cycles == 0
    assert 2 * count <= looped.cycles < 6 * 2 * count


def test_the_walk_of_a_huge_loop_is_bounded(monkeypatch):
    steps = []
    step = stalls._step
    monkeypatch.setattr(stalls, "_MOST_STEPS", 1000)
    monkeypatch.setattr(stalls, "_step", lambda *given: steps.append(1) or step(*given))
    copies = ["LDGSTS.E [R2], desc[UR4][R4.64]", "FADD R2, R2, R3"]
    for pairs, passes in ((20, 10), (100, 4), (2000, 1)):
        steps.clear()
        spent(sass(*copies * pairs, loop=(0, 2 * pairs - 1)))
        assert len(steps) == passes * (2 * pairs + 1)
