"""What is not compiled because a thread would have to hold far more registers than there are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import Config, Scalar
from tritonforge.optimize.foreseen import too_many_registers


def version(structure=(), *, compiled=(), **values):
    """Return a version: `compiled` holds (warps, registers, spilled bytes) of each launch."""
    parameters = tuple((name, str(value)) for name, value in values.items())
    rewrites = tuple((name, ()) for name in structure) + ((("launch-parameters", parameters),) if parameters else ())
    assessed = tuple(
        SimpleNamespace(
            compilation=SimpleNamespace(
                num_warps=warps, resources=SimpleNamespace(registers=registers, spill_bytes=spilled)
            )
        )
        for warps, registers, spilled in compiled
    )
    candidate = Candidate(title="", edits=(), origin="rule", rewrites=rewrites)
    return SimpleNamespace(candidate=candidate, assessed=assessed)


def search(*compiled, arch="sm_90", warps=8):
    """Return a search on a kernel with BLOCK=1024; the first of `compiled` is the launches of the original."""
    config = Config(constexprs=(("BLOCK", Scalar(1024)),), options=(("num_warps", Scalar(warps)),), grid=(1, 1, 1))
    original = version(compiled=compiled[0])
    original.config = config
    return SimpleNamespace(
        session=SimpleNamespace(arch=arch),
        original=original,
        attempts=dict(enumerate(compiled[1:])),
    )


def test_a_quarter_of_the_warps_holds_four_times_what_each_thread_held():
    known = search([(8, 128, 0)])
    assert too_many_registers(known, version(num_warps=2)) == (
        "would need about 440 registers a thread: not compiled"  # 24 + (128 - 24) * 4
    )
    assert too_many_registers(known, version(num_warps=4)) is None  # 232, of 255


def test_what_was_spilled_would_have_been_in_registers():
    assert too_many_registers(search([(8, 200, 0)]), version(num_warps=4)) is None  # 376
    assert too_many_registers(search([(8, 200, 48)]), version(num_warps=4))  # 400


@pytest.mark.parametrize(
    "other",
    [version(num_warps=8), version(num_warps=16), version(BLOCK=512), version(BLOCK=512, num_warps=2)],
    ids=["as many warps", "more warps", "a smaller tile", "a smaller tile and fewer warps"],
)
def test_a_version_of_which_nothing_is_known_is_compiled(other):
    assert too_many_registers(search([(8, 128, 0)]), other) is None


def test_a_larger_tile_needs_no_fewer():
    assert too_many_registers(search([(8, 128, 0)]), version(BLOCK=2048, num_warps=2))


def test_another_structure_is_judged_by_its_own_versions_only():
    lean = version(["chunks"], num_warps=4)
    assert too_many_registers(search([(8, 255, 400)]), lean) is None
    its_own = version(["chunks"], compiled=[(8, 240, 0)], num_warps=8)
    assert too_many_registers(search([(8, 40, 0)], its_own), lean)


def test_one_launch_that_needs_few_is_reason_enough_to_compile():
    assert too_many_registers(search([(8, 128, 0), (8, 32, 0)]), version(num_warps=2)) is None
    assert too_many_registers(search([(8, 128, 0), (2, 128, 0)]), version(num_warps=2)) is None


def test_other_makers_count_registers_otherwise():
    assert too_many_registers(search([(8, 255, 400)], arch="gfx942"), version(num_warps=1)) is None
