"""`check --format junit`: one test case for each kernel and problem, as CI systems show them."""

from __future__ import annotations

import re

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite

from tritonforge.domain.baseline import CheckResult, Comparison
from tritonforge.report import check_wording

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_junit(result: CheckResult) -> str:
    """Return the report of `check` as JUnit XML.

    A regression is a failure, what could not be judged an error, what is new or missing is skipped; times are seconds
    of one launch.
    """
    suite = TestSuite(f"tritonforge check ({result.compared})")
    properties = Properties()
    properties.append(Property("compared", result.compared))
    properties.append(Property("baseline", _clean(result.baseline)))
    if result.archs:
        properties.append(Property("archs", _clean(", ".join(result.archs))))
    suite.append(properties)
    for one in result.comparisons:
        suite.add_testcase(_case(one))
    report = JUnitXml("tritonforge")
    report.add_testsuite(suite)
    text = report.tostring()
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)


def _case(one: Comparison) -> TestCase:
    name = f"{check_wording.kernel_and_problem(one)} on {check_wording.where(one)}"
    time = one.after_us / 1e6 if one.after_us is not None and one.provenance == "measured" else 0.0
    case = TestCase(_clean(name), _clean(one.file.removesuffix(".py").replace("/", ".")), time)
    said = _clean(check_wording.sentence(one))
    if one.status == "regressed":
        case.result = [_with_text(Failure(said, "regression"), one)]
    elif one.status == "error" and not one.doubtful:
        case.result = [_with_text(Error(said, "error"), one)]
    elif one.status in {"new", "missing", "error"}:
        case.result = [Skipped(said)]
    case.system_out = said
    return case


def _with_text(result: Failure | Error, one: Comparison) -> Failure | Error:
    lines = [f"{one.file}:{one.line}", *one.reasons, *check_wording.changed(one), *one.notes]
    result.text = _clean("\n".join(lines))
    return result


def _clean(text: str) -> str:
    """Leave out what XML 1.0 cannot hold."""
    return _FORBIDDEN.sub("", text)
