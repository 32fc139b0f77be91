"""Where the time goes, in the editor: inlay hints and hovers from stall samples, else from the model, and after edits."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from lsprotocol import types

from tritonforge.analysis import analyze
from tritonforge.backend.facts import KernelFacts, LaunchFacts, of_original
from tritonforge.config import Settings
from tritonforge.diagnosis.heat import Heat
from tritonforge.domain.compilation import Compilation, Prediction
from tritonforge.domain.counters import Counters, LineCounters
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.launch import CallSite, Config, Launch, Problem
from tritonforge.domain.profile import LineHeat, TargetInfo
from tritonforge.domain.results import Assessment, OptimizeResult
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Facts
from tritonforge.lsp.hover import hover
from tritonforge.lsp.inlay_hints import inlay_hints
from tritonforge.lsp.options import Options
from tritonforge.lsp.positions import PositionedText
from tritonforge.report import wording

URI = "file:///w/k.py"
SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def copy(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i * 8)  # 🚀
    tl.store(o + i, v)
"""
HEAT = {
    7: LineHeat(0.04, {"wait": 1.0}),
    8: LineHeat(0.62, {"long_scoreboard": 0.7, "selected": 0.3}),
    9: LineHeat(0.34),
}
COUNTERS = Counters(
    "ncu",
    "copy",
    lines={8: LineCounters(62, {"long_scoreboard": 62}, 400.0, 8000.0, 1000.0, 20.0, 10.0), 9: LineCounters(34)},
)


def snapshot(text: str) -> Snapshot:
    positions = PositionedText(text, "utf-16")
    return Snapshot(URI, 1, positions, Path("/w/k.py"), Path("/w"), "k.py", text[:40], analyze(text, "k.py"))


def known(heat: Heat, *, counters: Counters | None = None, launch: str = "l") -> KernelFacts:
    kernel = snapshot(SOURCE).analysis.kernels[0]
    problem, config = Problem(()), Config((), (), (1, 1, 1))
    one = LaunchFacts(
        Launch(launch, "k.py", "copy", problem, config, CallSite("k.py", 1, "")),
        12.0,
        "measured",
        bottleneck=Bottleneck("uncoalesced-access", 0.9, "measured", "Far apart."),
        heat=heat,
        counters=counters,
    )
    return KernelFacts(kernel, SOURCE, "lab", (one,), ())


def facts_of(*known_facts: KernelFacts) -> Facts:
    facts = Facts()
    for one in known_facts:
        facts.learn(URI, one)
    return facts


MEASURED = known(Heat(HEAT, {"long_scoreboard": 0.6, "selected": 0.4}), counters=COUNTERS)
PREDICTED = known(Heat({8: LineHeat(0.6), 9: LineHeat(0.4)}, provenance="predicted"))


def hover_text(text: str, facts: Facts, line: int, column: int = 4) -> str:
    found = hover(snapshot(text), facts, Settings(Path("/w")), types.Position(line - 1, column))
    assert found is not None
    assert isinstance(found.contents, types.MarkupContent)
    return found.contents.value


def labels(text: str, facts: Facts) -> dict[int, str]:
    return {hint.position.line + 1: str(hint.label) for hint in inlay_hints(snapshot(text), facts)}


def test_hot_lines_get_their_share_and_the_dominant_reason_and_cool_ones_nothing():
    assert labels(SOURCE, facts_of(MEASURED)) == {8: "62 % · long scoreboard", 9: "34 %"}


def test_a_hint_stands_at_the_end_of_its_line_in_the_clients_units():
    (hint, _) = inlay_hints(snapshot(SOURCE), facts_of(MEASURED))
    assert hint.position == types.Position(7, len(SOURCE.splitlines()[7].encode("utf-16-le")) // 2)


def test_what_a_model_gave_never_looks_measured():
    assert labels(SOURCE, facts_of(PREDICTED)) == {8: "~60 % predicted", 9: "~40 % predicted"}
    text = hover_text(SOURCE, facts_of(PREDICTED), 8)
    assert "predicted from the compiled code, not measured" in text
    assert "stall samples" not in text


def test_hints_move_with_their_lines_and_go_stale_and_those_of_changed_lines_go():
    edited = SOURCE.replace("    i = tl", "    # a new line\n    i = tl").replace(
        "tl.store(o + i, v)", "tl.store(o + i, -v)"
    )
    assert labels(edited, facts_of(MEASURED)) == {9: "62 % · long scoreboard · stale"}
    moved = "\n\n" + SOURCE
    assert labels(moved, facts_of(MEASURED)) == {10: "62 % · long scoreboard", 11: "34 %"}
    assert "Stale" in hover_text(edited, facts_of(MEASURED), 9)


def test_only_the_lines_that_the_client_asks_for_are_answered():
    asked = types.Range(types.Position(8, 0), types.Position(40, 0))
    assert [h.position.line for h in inlay_hints(snapshot(SOURCE), facts_of(MEASURED), asked)] == [8]


def test_a_line_says_what_the_hardware_did_there():
    text = hover_text(SOURCE, facts_of(MEASURED), 8)
    assert "**62 % of the stall samples** (ncu): long scoreboard 70 %, selected 30 %" in text
    assert "of which the lanes need 12 %" in text
    assert "50 % by bank conflicts" in text


def test_the_kernels_name_sums_up_what_the_terminal_shows():
    text = hover_text(SOURCE, facts_of(MEASURED), 6, 5)
    for row in ("| Time | **12 µs** measured", "| Stalls | long scoreboard 60 % (ncu)", "| Hot lines | line 8 62 %"):
        assert row in text
    assert "| Hot lines | line 8 60 %, line 9 40 % (predicted)" in hover_text(SOURCE, facts_of(PREDICTED), 6, 5)


def test_samples_outlive_a_compilation_of_the_same_launch_but_not_a_newer_profile():
    assert labels(SOURCE, facts_of(MEASURED, PREDICTED))[8] == "62 % · long scoreboard"
    assert labels(SOURCE, facts_of(PREDICTED, MEASURED))[8] == "62 % · long scoreboard"
    newer = known(Heat({8: LineHeat(0.9)}), counters=COUNTERS)
    assert labels(SOURCE, facts_of(MEASURED, newer))[8] == "90 %"
    other = known(Heat({8: LineHeat(0.5)}, provenance="predicted"), launch="another")
    assert labels(SOURCE, facts_of(MEASURED, other))[8] == "~50 % predicted"


def test_hints_can_be_switched_off():
    assert Options.read({}).inlay_hints
    assert not Options.read({"inlayHints": False}).inlay_hints
    wrong = Options.read({"inlayHints": "no"})
    assert wrong.inlay_hints
    assert "inlayHints must be true or false" in wrong.problems[0]


@pytest.mark.triton
def test_a_server_gives_hints_for_a_compiled_launch_and_marks_them_after_an_edit(start):
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    client = start({"target": "offline"})
    client.answers["window/showMessageRequest"] = lambda params: next(
        (a for a in params["actions"] if a["title"].startswith("Run")), params["actions"][0]
    )
    uri = client.open("matmul.py")
    client.outcome(client.command("profileKernel", uri=uri, kernel="matmul_kernel")["jobId"])

    def hints():
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}}
        return client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})

    found = hints()
    assert found
    assert all("predicted" in hint["label"] for hint in found)
    assert client.all("workspace/inlayHint/refresh")
    client.change(uri, client.texts[uri].replace("acc += tl.dot(a, b)", "acc += tl.dot(a, b) * 1"))
    assert all(hint["label"].endswith("stale") for hint in hints())


def test_a_measurement_that_the_time_model_doubts_says_so_on_the_kernels_name():
    (one,) = MEASURED.launches
    doubted = dataclasses.replace(MEASURED, launches=(dataclasses.replace(one, doubt="Measured 12 µs, where …"),))
    name = MEASURED.kernel.name_range.start
    shown = hover_text(SOURCE, facts_of(doubted), name.line, name.column)
    assert "| Doubt | Measured 12 µs, where …" in shown
    assert "Doubt" not in hover_text(SOURCE, facts_of(MEASURED), name.line, name.column)


@pytest.mark.parametrize("provenance", ["predicted", "measured"])
def test_after_a_search_the_original_keeps_its_interval_or_says_that_its_time_is_doubted(provenance):
    (one,) = MEASURED.launches
    prediction = Prediction(100.0, (70.0, 185.0), {"dram": 95.0, "launch": 3.0}, "dram", "NVIDIA H200")
    compiled = Assessment(Compilation(one.launch.id, "copy", "sm_90", "3.7.1"), prediction)
    target = TargetInfo("lab", "local", "NVIDIA H200", None, None, None)
    times = {one.launch.id: 100.0 if provenance == "predicted" else 2000.0}
    result = OptimizeResult(
        MEASURED.kernel, target, (one.launch,), times, provenance, None, assessments=(compiled,)
    )  # fmt: skip
    name = MEASURED.kernel.name_range.start
    shown = hover_text(SOURCE, facts_of(of_original(result, SOURCE, "lab")), name.line, name.column)
    between = wording.time_range_us(prediction.interval)
    assert (f"**{wording.time_us(100.0)}** predicted ({between})" in shown) == (provenance == "predicted")
    assert ("| Doubt | Measured 2,000 µs" in shown) == (provenance == "measured")
