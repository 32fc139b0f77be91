"""What is not measured for what the compiler says of it."""

from types import SimpleNamespace

import pytest

from tritonforge.optimize.constraints import FEW_BYTES, FITS, SPILLS, broken


def version(*spilled, programs=2):
    """Return a version with a launch for each number of spilled bytes."""
    compiled = (
        SimpleNamespace(resources=SimpleNamespace(spill_bytes=one), occupancy=SimpleNamespace(programs_per_sm=programs))
        for one in spilled
    )
    return SimpleNamespace(assessed=[SimpleNamespace(compilation=one) for one in compiled])


@pytest.mark.parametrize(
    ("original", "spilled", "kept"),
    [((0,), (8,), True), ((0,), (0, FEW_BYTES), True), ((0,), (0, FEW_BYTES + 8), False), ((500,), (480,), True), ((500,), (520,), False)],
)  # fmt: skip
def test_a_few_bytes_spilled_are_measured_and_no_more_than_that_or_the_original_spills(original, spilled, kept):
    found = broken(version(*spilled), version(*original), measured=True)
    assert (found is None) == kept
    if found is not None:
        assert found[0] == SPILLS
        assert f"spills {max(spilled)} bytes" in found[1]


def test_what_cannot_be_measured_may_spill_no_byte_more_than_the_original():
    assert broken(version(8), version(0), measured=False) == (
        SPILLS,
        "spills 8 bytes of registers a thread: not measured",
    )
    assert broken(version(8), version(8), measured=False) is None


def test_what_fits_on_no_multiprocessor_is_not_measured():
    found = broken(version(0, programs=0), version(0), measured=True)
    assert found is not None
    assert found[0] == FITS
