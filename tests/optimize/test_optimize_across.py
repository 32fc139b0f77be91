"""One source for several targets: what is kept, how the values are written, and that the gate judges it everywhere."""

import asyncio
import dataclasses
import json
import textwrap
from contextlib import AsyncExitStack
from pathlib import Path

import jsonschema
import pytest

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.diagnosis.assessment import assess, yardstick
from tritonforge.domain.across import AcrossResult, AcrossVersion, Cell
from tritonforge.domain.candidate import Candidate, Suggestion, Trial, Verdict
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.source import apply_edits
from tritonforge.jobs.session import open_session
from tritonforge.optimize.across import Party, across, choose
from tritonforge.optimize.across_sources import _same, architecture_table, autotune_list, values_of
from tritonforge.report.json_across import across_json
from tritonforge.report.text import plain
from tritonforge.report.text_across import across_text
from tritonforge.rewrite.rules.launch_parameters import rewrite_launch
from tritonforge.store import open_store
from tritonforge.workload.gather import FileWorkload

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("a", "b")
KERNEL = "@triton.jit\ndef k(x, N: tl.constexpr):\n    tl.store(x, N)\n"


def rows(*pairs):
    return [dict(zip(NAMES, pair, strict=True)) for pair in pairs]


@pytest.mark.parametrize(
    ("matrix", "place"),
    [
        (rows((1.0, 1.0)), 0),
        (rows((1.0, 1.0), (2.0, 1.97), (1.99, 2.0)), 1),  # the first that is good everywhere
        (rows((1.0, 1.0), (2.0, 1.2), (1.1, 2.0), (1.95, 1.95)), 3),
        (rows((1.0, 1.0), (2.0, 1.2), (1.1, 2.0), (2.0, None)), 1),  # refused on one target
        (rows((1.0, 1.0), (3.0, 0.5)), 0),  # it loses more there than it gains elsewhere is worth
        (rows((1.0, 1.0), (0.99, 1.0)), 0),  # no faster anywhere
    ],
)
def test_what_is_good_everywhere_is_kept_and_else_what_loses_least(matrix, place):
    assert choose(matrix, NAMES)[0] == place


def test_the_loss_is_that_of_the_target_that_loses_most():
    assert choose(rows((1.0, 1.0), (2.0, 1.5), (1.0, 2.0)), NAMES) == (1, 0.25)


@pytest.fixture
def matmul():
    text = (EXAMPLES / "matmul.py").read_text()
    (kernel,) = analyze(text, "matmul.py").kernels
    return kernel, text


def found_for(kernel, text, **wanted):
    candidate = rewrite_launch(kernel, {kernel.file: text}, wanted)
    assert isinstance(candidate, Candidate)
    return candidate


def test_values_by_architecture_stand_in_a_table_above_the_kernel(matmul):
    kernel, text = matmul
    ampere = found_for(kernel, text, BLOCK_M=128, BLOCK_N=128, num_warps=8)
    hopper = found_for(kernel, text, BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=4)
    made = architecture_table(kernel, text, [("sm_80", ampere), ("sm_90", hopper)])
    after = apply_edits(text, made.edits)
    assert '(9, 0): {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 4},' in after
    assert 'None: {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},' in after
    assert 'BLOCK_N=_value_of_matmul_kernel("BLOCK_N")' in after
    assert "@triton.jit\ndef matmul_kernel(" in after
    space = {}
    exec(  # the table and its function alone, with a torch that says which GPU it is
        after[after.index("_MATMUL_KERNEL_VALUES") : after.index("@triton.jit")], space
    )
    for capability, expected in (((9, 0), 256), ((8, 0), 128), ((8, 6), 32)):
        cuda = type("cuda", (), {"get_device_capability": staticmethod(lambda c=capability: c)})
        space["torch"] = type("torch", (), {"cuda": cuda})
        assert space["_value_of_matmul_kernel"]("BLOCK_N") == expected


def test_an_amd_gpu_has_no_capability_to_look_up(matmul):
    kernel, text = matmul
    some = found_for(kernel, text, BLOCK_M=64)
    refused = architecture_table(kernel, text, [("gfx942", some), ("sm_90", some)])
    assert "gfx942 has no compute capability" in refused.reason


def launch_of(kernel, **values):
    config = Config(tuple((name, Scalar(value)) for name, value in values.items()), (), (1, 1, 1))
    (site,) = kernel.launch_sites
    place = CallSite(kernel.file, site.range.start.line, site.host or "")
    return Launch("l", kernel.file, kernel.name, Problem(()), config, place)


def test_an_autotuners_list_has_every_targets_values_and_todays(matmul):
    kernel, text = matmul
    launch = launch_of(kernel, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    made = autotune_list(kernel, text, [{"BLOCK_M": 64}, {"BLOCK_M": 128, "num_warps": 8}], launch)
    assert isinstance(made, Candidate), made.reason
    after = apply_edits(text, made.edits)
    (tuned,) = analyze(after, "matmul.py").kernels
    assert tuned.autotune is not None
    for entry in ('{"BLOCK_M": 64}', '{"BLOCK_M": 128}', '{"BLOCK_M": 32}', "num_warps=8"):
        assert entry in after


def test_a_config_that_is_wanted_twice_stands_in_the_list_once(matmul):
    kernel, text = matmul
    launch = launch_of(kernel, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    made = autotune_list(kernel, text, [{"BLOCK_M": 64}, {"BLOCK_M": 32}, {"BLOCK_M": 64}], launch)
    assert isinstance(made, Candidate), made.reason
    (tuned,) = analyze(apply_edits(text, made.edits), "matmul.py").kernels
    assert len(tuned.autotune.configs) == 2
    assert not autotune_list(kernel, text, [{"BLOCK_M": 128, "wrong": 1}], launch).already
    again = autotune_list(tuned, apply_edits(text, made.edits), [{"BLOCK_M": 64}], launch)
    assert "has all of these values already" in again.reason


def test_of_two_kernels_of_one_name_the_one_that_was_meant_is_edited():
    text = (EXAMPLES / "scale_shift.py").read_text()
    before = "if FAST:\n" + textwrap.indent(KERNEL, "    ") + "else:\n" + textwrap.indent(KERNEL, "    ")
    before = "import triton\nimport triton.language as tl\n\nFAST = True\n" + before
    first, second = analyze(before, "two.py").kernels
    assert first.name == second.name
    after = "# a new line\n" + before
    for kernel in (first, second):
        assert _same(kernel, before, after).range.start.line == kernel.range.start.line + 1
    assert _same(second, before, text) is None


def test_a_value_that_is_set_when_the_file_is_loaded_is_in_no_table():
    text = (EXAMPLES / "scale_shift.py").read_text()
    (kernel,) = analyze(text, "scale_shift.py").kernels
    made = [found_for(kernel, text, BLOCK_SIZE=size) for size in (512, 1024)]
    refused = architecture_table(kernel, text, [("sm_80", made[0]), ("sm_90", made[1])])
    assert "when the file is loaded" in refused.reason


def test_only_values_of_a_launch_can_be_put_together(matmul):
    kernel, text = matmul
    assert values_of(found_for(kernel, text, BLOCK_M=64)) == {"BLOCK_M": 64}
    assert values_of(Candidate("other", (), (("exp2-scale", ()), ("launch-parameters", (("A", "1"),))))) is None


def accepted(candidate):
    verdict = Verdict(True, "", ("one",), "reference", "exact", 0.0, 0.0)
    return Suggestion(Trial(candidate, verdict, None, accepted=True), 2.0, (1.5, 2.5), "predicted", "")


@pytest.mark.triton
def test_two_architectures_get_one_source_that_the_gate_has_passed_on_both(tmp_path):
    pytest.importorskip("triton")
    text = (EXAMPLES / "matmul.py").read_text()
    (tmp_path / "matmul.py").write_text(text)
    (tmp_path / "tritonforge.toml").write_text(
        '[targets.a]\narch = "sm_80"\n[targets.b]\narch = "sm_90"\n'
        '[[launch]]\nfile = "matmul.py"\nfunction = "matmul"\na = "fp16[200, 64]"\nb = "fp16[64, 136]"\n'
    )
    analysis = analyze(text, "matmul.py")
    (kernel,) = analysis.kernels
    wanted = {"a": {"BLOCK_M": 64}, "b": {"BLOCK_N": 64, "num_warps": 8}}
    settings = load(tmp_path)
    store = open_store(tmp_path)

    async def run():
        async with AsyncExitStack() as stack:
            parties = []
            for name, values in wanted.items():
                session = await stack.enter_async_context(open_session(settings, name))
                workload = FileWorkload(str(tmp_path), analysis, text, settings, store, allow_run=False)
                subject = await workload.subject_of(kernel, session)
                judge = yardstick(session)
                launches = tuple(
                    one.launch for one in await assess(session, subject.program(), kernel, subject.calls, judge)
                )
                best = accepted(found_for(kernel, text, **values))
                found = OptimizeResult(kernel, session.info, launches, {}, "predicted", best)
                parties.append(Party(session, subject, judge, found))
            return await across(parties)

    result = asyncio.run(run())
    kinds = {version.kind: version for version in result.versions}
    assert [version.found_on for version in result.versions[1:3]] == [("a",), ("b",)]
    for kind in ("autotune-list", "architecture-table"):
        for name in NAMES:
            cell = kinds[kind].cells[name]
            assert cell.accepted, (kind, name, cell.reason)
    table = kinds["architecture-table"]
    for place, name in enumerate(NAMES, 1):
        own = result.versions[place].cells[name]
        assert table.cells[name].time_us == pytest.approx(own.time_us), "each architecture gets its own values"
    assert result.best is None or result.best.trial.verdict.accepted


def test_the_matrix_is_shown_in_text_and_in_json(matmul):
    kernel, text = matmul
    candidate = found_for(kernel, text, BLOCK_M=64)
    best = accepted(candidate)
    info = [TargetInfo(name, "gpu", f"GPU {name}", None, "2", "3") for name in NAMES]
    cells = {"a": Cell(True, "", 50.0, 2.0, (1.9, 2.1)), "b": Cell(True, "", 80.0, 1.9, (1.8, 2.0))}
    original = {"a": Cell(True, "", 100.0, 1.0, (1.0, 1.0)), "b": Cell(True, "", 152.0, 1.0, (1.0, 1.0))}
    refused = {"a": cells["a"], "b": Cell(False, "refused: worst error too large")}
    versions = (
        AcrossVersion("original", "original", original),
        AcrossVersion("BLOCK_M=128", "one-version", refused, ("a",)),
        AcrossVersion(candidate.title, "one-version", cells, ("b",)),
    )
    provenance = {"a": "measured", "b": "predicted"}
    result = AcrossResult(kernel, tuple(info), versions, 2, best, provenance, 0.01, "The same code is good on both.")
    shown = plain(across_text([result]))
    for words in (
        "GPU a, measured",
        "GPU b, predicted",
        "→ BLOCK_M=64 (best on b)",
        "2.00x",
        "–",
        "refused: worst",
    ):
        assert words in shown, words
    (said,) = across_json([result])
    schema = json.loads((EXAMPLES.parent / "docs" / "json" / "optimize.schema.json").read_text())
    jsonschema.validate({"schema": "tritonforge/1", "results": [], "across": [said]}, schema)
    assert said["versions"][2]["targets"]["b"]["speedup"] == 1.9
    assert said["versions"][1]["targets"]["b"]["accepted"] is False
    assert said["chosen"] == 2
    assert said["best"]["edits"]
    trial = dataclasses.replace(best.trial, verdict=None)
    unverified = dataclasses.replace(result, best=dataclasses.replace(best, trial=trial))
    with pytest.raises(ValueError, match="no passed verdict"):
        across_json([unverified])
