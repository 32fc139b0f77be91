"""Numbers in words."""

import math

import pytest
import report_samples as samples

from tritonforge.domain.provenance import Evidence
from tritonforge.report import wording


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, "0.5 µs".replace("0.5", "0.50")),
        (2.0, "2 µs"),
        (9.996, "10 µs"),
        (12.34, "12.3 µs"),
        (812.3, "812 µs"),
        (999.7, "1 ms"),
        (1562.3, "1.56 ms"),
        (99_960.0, "100 ms"),
        (2_500_000.0, "2.50 s"),
        (0.0, "0 µs"),
        (math.nan, "—"),
        (None, "—"),
    ],
)
def test_times_have_three_digits_and_the_unit_that_suits_them(value, shown):
    assert wording.time_us(value) == shown


def test_a_compilers_error_is_said_without_the_kernel_that_it_is_shown_under():
    assert wording.compile_error("scale does not compile: line 3: no such name") == "line 3: no such name"
    assert wording.compile_error("the worker ended") == "the worker ended"


def test_an_interval_says_a_shared_unit_once():
    assert wording.time_range_us((809.1, 820.9)) == "809–821 µs"
    assert wording.time_range_us((900.0, 1200.0)) == "900 µs–1.20 ms"
    assert wording.time_range_us((math.nan, 1.0)) == "—–1 µs"


@pytest.mark.parametrize(
    ("fact", "shown"),
    [
        (Evidence(8192, "bytes", "compiled"), "8 KiB"),
        (Evidence(100, "bytes", "compiled"), "100 bytes"),
        (Evidence(1_048_576, "1", "compiled"), "1,048,576"),
        (Evidence(0.93, "1", "derived"), "0.93"),
        (Evidence(12.5, "%", "derived"), "12.5 %"),
        (Evidence(4300.4, "GB/s", "measured"), "4,300 GB/s"),
        (Evidence(False, "1", "source"), "no"),
        (Evidence("32×32", "1", "source"), "32×32"),
        (Evidence(None, "µs", "source"), "—"),
        (Evidence(-math.inf, "µs", "source"), "—"),
        (Evidence(3e-7, "1", "source"), "3.0e-07"),
        (Evidence(6.9e10, "FLOP", "source"), "6.90e+10 FLOP"),
    ],
)
def test_evidence_is_shown_with_its_unit(fact, shown):
    assert wording.evidence(fact) == shown


def test_a_launch_says_strides_only_where_they_are_not_what_the_shape_implies():
    assert wording.problem(samples.BIG).replace("\N{NO-BREAK SPACE}", " ") == (
        "a_ptr float16[4096×4096], b_ptr float16[4096×4096] strides 1,4096, c_ptr float16[4096×4096], "
        "M=4096, N=4096, K=4096"
    )
    assert wording.grid(samples.BIG) == "128×128"
    assert wording.grid(samples.ODD) == "2×3×4"


def test_plurals_are_english():
    assert [wording.plural(n, "launch") for n in (0, 1, 2)] == ["0 launches", "1 launch", "2 launches"]
    assert wording.plural(1234, "kernel") == "1,234 kernels"
