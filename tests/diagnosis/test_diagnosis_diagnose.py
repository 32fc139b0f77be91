"""Order, selection and suppression of findings."""

from __future__ import annotations

import dataclasses

import pytest
from diagnosis_cases import copy, copy_case, kernel_of, matmul, matmul_case, measured, spilling_case

from tritonforge.diagnosis import Case, diagnose
from tritonforge.diagnosis.diagnose import is_selected
from tritonforge.domain.finding import SEVERITIES
from tritonforge.domain.kernel import Suppression


@pytest.mark.parametrize(
    ("select", "ignore", "wanted"),
    [
        ((), (), True),
        (("TF2",), (), True),
        (("TF203",), (), True),
        (("TF3",), (), False),
        ((), ("TF2",), False),
        ((), ("TF3",), True),
        (("TF203",), ("TF2",), True),
        (("TF2",), ("TF203",), False),
        (("TF203",), ("TF203",), False),
    ],
)
def test_the_longest_prefix_decides_whether_tf203_is_wanted(select: tuple, ignore: tuple, wanted: bool):
    assert is_selected("TF203", select, ignore) is wanted


def test_findings_come_gravest_first_then_by_gain_then_by_line():
    case = dataclasses.replace(spilling_case(788, 300), time=measured(400.0))
    small = dataclasses.replace(matmul_case(32, 32), time=measured(1181.0))
    findings = diagnose(case.kernel, [case, small])
    keys = [(SEVERITIES.index(f.severity), -(f.estimated_gain or 1.0), f.range.start) for f in findings]
    assert keys == sorted(keys)
    assert [f.code for f in findings][:2] == ["TF203", "TF106"], "the one with a known gain comes first"


def test_without_a_launch_the_source_is_judged():
    assert {f.launch for f in diagnose(kernel_of(copy(16)))} == {None}


def test_what_two_launches_show_at_one_place_is_said_once_for_the_gravest():
    slow = dataclasses.replace(matmul_case(32, 32), time=measured(400.0))
    assert slow.launch is not None
    slower = dataclasses.replace(slow, launch=dataclasses.replace(slow.launch, id="L2"), time=measured(1500.0))
    (finding,) = [f for f in diagnose(slow.kernel, [slow, slower]) if f.code == "TF203"]
    assert finding.launch == "L2"


def test_a_comment_on_the_line_silences_the_rule_it_names_and_no_other():
    source = matmul(32, 32).replace("tl.dot(x, y, acc)", "tl.dot(x, y, acc)  # tritonforge: ignore[TF203]")
    codes = {f.code for f in diagnose(kernel_of(source))}
    assert "TF203" not in codes
    assert "TF404" in codes


def test_suppressions_take_codes_prefixes_and_names_for_a_line_or_a_kernel():
    kernel = kernel_of(matmul(32, 32))
    dot_line = kernel.dots[0].range.start.line

    def codes(*suppressions: Suppression) -> set[str]:
        return {f.code for f in diagnose(dataclasses.replace(kernel, suppressions=suppressions))}

    assert codes() == {"TF203", "TF404"}
    assert codes(Suppression(dot_line, ("TF2",))) == {"TF404"}
    assert codes(Suppression(dot_line, ("tile-too-small",))) == {"TF404"}
    assert codes(Suppression(dot_line, ("TF404",))) == {"TF203", "TF404"}
    assert codes(Suppression(1, ("TF203",), whole_kernel=True)) == {"TF404"}
    assert codes(Suppression(1, (), whole_kernel=True)) == set()


def test_every_finding_says_where_each_number_comes_from_and_links_to_its_page():
    cases = [
        dataclasses.replace(copy_case(16), time=measured(2561.0)),
        dataclasses.replace(copy_case(4096), time=measured(136.0)),
        matmul_case(32, 32),
        spilling_case(788, 300),
    ]
    findings = [f for case in cases for f in diagnose(case.kernel, [case])]
    assert len({f.code for f in findings}) >= 4
    for finding in findings:
        assert finding.evidence, finding.code
        assert all(fact.unit and fact.provenance for fact in finding.evidence.values())
        assert finding.url == f"docs/rules/{finding.code}.md"
        assert finding.message.endswith(".")
        assert "\n" not in finding.message


def test_a_launch_that_does_not_compile_gives_no_compiled_findings():
    case = spilling_case(788, 300)
    assert case.compilation is not None
    broken = dataclasses.replace(case, compilation=dataclasses.replace(case.compilation, error="out of resource"))
    found = {f.code for f in diagnose(case.kernel, [broken])}
    assert "TF603" in found
    assert found <= {"TF404", "TF502", "TF603"}


def test_a_case_of_the_kernel_alone_equals_no_case():
    kernel = kernel_of(matmul(32, 32))
    assert diagnose(kernel) == diagnose(kernel, [Case(kernel)])
