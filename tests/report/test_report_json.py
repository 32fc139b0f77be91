"""JSON reports against the published schemas, and wrong objects that the schemas must refuse."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest
import report_samples as samples

from tritonforge.domain.errors import NoLaunchKnown
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.source import Edit, apply_edits
from tritonforge.report.json_analyze import analyze_json
from tritonforge.report.json_doctor import doctor_json
from tritonforge.report.json_optimize import optimize_json
from tritonforge.report.json_parts import error_json
from tritonforge.report.json_profile import profile_json
from tritonforge.report.json_program import program_json
from tritonforge.report.json_verify import verify_json

FOLDER = Path(__file__).parents[2] / "docs" / "json"
SCHEMAS = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in FOLDER.glob("*.json")}

TRACE = {
    "schema": "tritonforge/1",
    "command": ["python", "train.py"],
    "calls": [{"id": "c1", "function": "matmul", "launches": ["3f2a1b"]}],
    "launches": [
        {
            **analyze_json(samples.ANALYZE)["kernels"][0]["launches"][0],
            "kernel": optimize_json([samples.OPTIMIZED])["results"][0]["kernel"],
        }
    ],
    "failures": [{"kernel": "k", "reason": "generated source"}],
}
CHECK = {
    "schema": "tritonforge/1",
    "compared": "compiled",
    "results": [
        {
            "kernel": TRACE["launches"][0]["kernel"],
            "problem": "p",
            "status": "regressed",
            "ratio": None,
            "ratio_ci95": None,
            "changes": {"registers": [64, 96]},
        }
    ],
}
REPORTS = {
    "analyze": analyze_json(samples.ANALYZE),
    "profile": profile_json(samples.PROFILE),
    "program": program_json(samples.PROGRAM),
    "optimize": optimize_json([samples.OPTIMIZED, samples.AT_ROOF]),
    "verify": verify_json(samples.NOT_VERIFIED),
    "doctor": doctor_json(samples.DOCTOR),
    "error": error_json(NoLaunchKnown("no launch is known for k.", "Write a spec.")),
    "trace": TRACE,
    "check": CHECK,
}


def validate(name, value):
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    # As it goes over the wire: NaN and Infinity are not JSON.
    validator.validate(json.loads(json.dumps(value, allow_nan=False)))


@pytest.mark.parametrize("name", REPORTS)
def test_report_keeps_to_its_schema(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    validate(name, REPORTS[name])


def test_every_published_schema_is_tested():
    assert set(SCHEMAS) == set(REPORTS)


def test_a_definition_means_the_same_in_every_schema():
    seen = {}
    for name, schema in SCHEMAS.items():
        for definition, body in schema["$defs"].items():
            assert seen.setdefault(definition, body) == body, f"{definition} differs in {name}"


def objects(value, path=()):
    """Yield the path of every object inside `value` whose fields DESIGN fixes (maps by name are free)."""
    free = {"evidence", "args", "config", "lines", "stalls", "checks", "instructions", "changes"} | {
        "functions",
        "executed",
    }
    if isinstance(value, dict):
        is_times = path and path[-1] == "time_us" and not {"median", "value"} & set(value)
        if path and not (path[-1] in free and isinstance(path[-1], str)) and not is_times:
            yield path
        for key, item in value.items():
            yield from objects(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from objects(item, (*path, number))


def at(value, path):
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize("name", REPORTS)
def test_an_extra_field_is_refused_wherever_the_fields_are_fixed(name):
    paths = [(), *(p for p in objects(REPORTS[name]) if "checks" not in p[-1:] or name == "doctor")]
    for path in paths:
        wrong = copy.deepcopy(REPORTS[name])
        at(wrong, path)["surprise"] = 1
        with pytest.raises(jsonschema.ValidationError):
            validate(name, wrong)


@pytest.mark.parametrize("name", REPORTS)
def test_a_missing_field_is_refused(name):
    for path in [(), *objects(REPORTS[name])]:
        for field in at(REPORTS[name], path):
            wrong = copy.deepcopy(REPORTS[name])
            del at(wrong, path)[field]
            with pytest.raises(jsonschema.ValidationError):
                validate(name, wrong)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("analyze", ("schema",), "tritonforge/2"),
        ("analyze", ("kernels", 0, "line"), 0),
        ("analyze", ("kernels", 0, "file"), "examples\\matmul.py"),
        ("analyze", ("kernels", 0, "launch_note"), "a note beside launches"),
        ("analyze", ("kernels", 1, "launch_note"), ""),
        ("analyze", ("kernels", 0, "launches", 0, "grid"), [1, 1]),
        ("analyze", ("kernels", 0, "launches", 0, "args", "a_ptr"), {"shape": [1]}),
        ("analyze", ("kernels", 0, "compilations", 0, "occupancy"), 50),
        ("analyze", ("kernels", 0, "compilations", 0, "limiter"), "luck"),
        ("analyze", ("kernels", 0, "compilations", 0, "bottleneck", "class"), "slow"),
        ("analyze", ("kernels", 0, "compilations", 0, "lines", "0"), {}),
        ("analyze", ("kernels", 0, "findings", 0, "severity"), "fatal"),
        ("analyze", ("kernels", 0, "findings", 0, "code"), "E501"),
        ("analyze", ("kernels", 0, "findings", 0, "provenance"), "guessed"),
        ("profile", ("profiles", 0, "time_us"), 812.0),
        ("profile", ("profiles", 0, "time_us", "ci95"), [1]),
        ("profile", ("profiles", 1, "missing"), []),
        ("profile", ("profiles", 0, "roofline", "fraction"), 23.0),
        ("profile", ("profiles", 0, "bottleneck"), None),
        ("optimize", ("results", 0, "best", "provenance"), "derived"),
        ("optimize", ("results", 0, "best", "origin"), "human"),
        ("optimize", ("results", 0, "best", "verdict", "accepted"), False),
        ("optimize", ("results", 0, "best", "edits"), []),
        ("optimize", ("results", 0, "best", "time_us"), [1.0]),
        ("optimize", ("results", 0, "bottlenecks"), ["fast"]),
        ("verify", ("verdict", "checks", "results"), "failed"),
        ("verify", ("verdict", "checks", "results"), "unknown: why"),
        ("doctor", ("checks", 2, "mend"), ""),
        ("check", ("results", 0, "status"), "slower"),
        ("error", ("error", "exit_code"), 5),
    ],
)
def test_a_wrong_value_is_refused(name, path, value):
    wrong = copy.deepcopy(REPORTS[name])
    at(wrong, path[:-1])[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        validate(name, wrong)


def test_arguments_of_every_kind_have_their_json_form():
    found = optimize_json([samples.AT_ROOF])["results"][0]["launches"][0]
    assert found["args"] == {
        "x": {"shape": [], "strides": [], "dtype": "float32"},
        "eps": None,
        "nothing": None,
        "pair": [{"shape": [2, 3], "strides": [3, 1], "dtype": "float16"}, [True, "a"]],
        "fn": "<object>",
        "DTYPE": "float16",
    }
    assert found["config"] == {"num_warps": 1}
    assert found["grid"] == [2, 3, 4]
    assert found["time_us"] is None


def test_numbers_that_are_not_finite_become_null():
    assert REPORTS["optimize"]["results"][0]["trials"][4]["time_us"] == {"3f2a1b": 2100.0, "9c04de": None}
    assert REPORTS["optimize"]["results"][1]["baseline"]["time_us"] == {"0dd000": None}
    assert REPORTS["verify"]["verdict"]["worst_error"] is None
    assert REPORTS["analyze"]["kernels"][0]["findings"][0]["evidence"]["hit_rate"]["value"] is None
    assert REPORTS["analyze"]["kernels"][0]["compilations"][0]["lines"]["10"]["executions"] is None


def test_what_was_not_measured_is_null_and_named_missing():
    predicted = REPORTS["profile"]["profiles"][1]
    assert predicted["time_us"] is None
    assert predicted["missing"][0].startswith("time:")
    assert "1562.3" not in json.dumps(predicted), "a prediction must not pass for a measurement"


def test_a_kernel_without_launches_says_why_and_only_then():
    with_launches, without = REPORTS["analyze"]["kernels"]
    assert "launch_note" not in with_launches
    assert without["launch_note"]
    assert without["launches"] == []


def test_the_edits_of_a_report_rebuild_the_file_that_its_diff_shows():
    best = REPORTS["optimize"]["results"][0]["best"]
    edited = apply_edits(samples.SOURCE, tuple(Edit(**edit) for edit in best["edits"]))
    added = [text[1:] for text in best["diff"].splitlines() if text.startswith("+") and not text.startswith("+++")]
    assert added
    assert all(text in edited.splitlines() for text in added)


def test_a_suggestion_without_a_passed_verdict_cannot_be_reported():
    refused = samples.trial(64, (1.0, 1.0), verdict=samples.REFUSED)
    best = samples.Suggestion(refused, 2.0, (1.0, 3.0), "predicted", "--- a")
    result = OptimizeResult(samples.KERNEL, samples.LAB, (samples.BIG,), {}, "predicted", best)
    with pytest.raises(ValueError, match="no passed verdict"):
        optimize_json([result])
