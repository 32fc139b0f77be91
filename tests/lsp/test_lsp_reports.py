"""The kernel report in an editor: nothing known, something known, its listings, and an Nsight Compute report."""

from __future__ import annotations

import asyncio
import lzma
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from lsp_client import LspError

from tritonforge.analysis import analyze
from tritonforge.backend.facts import KernelFacts, LaunchFacts
from tritonforge.diagnosis.heat import Heat
from tritonforge.domain.candidate import Candidate, Suggestion, Trial, Verdict
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel_report import Listing
from tritonforge.domain.launch import CallSite, Config, Launch, Problem
from tritonforge.domain.profile import LineHeat, Roofline, TargetInfo
from tritonforge.domain.results import OptimizeResult
from tritonforge.lsp.facts import Facts
from tritonforge.lsp.reports import Reports, of_facts
from tritonforge.profiling.nsight.finding import find_ncu
from tritonforge.profiling.nsight.isolated import has_module
from tritonforge.report.kernel_report import PREDICTED_GAIN_NEXT, PROFILE_NEXT

DATA = Path(__file__).parents[1] / "data" / "h200"
OFFLINE = {"target": "offline"}
SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def copy(x, o, BLOCK: tl.constexpr):
    tl.store(o + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))
"""
(KERNEL,) = analyze(SOURCE, "k.py").kernels
LAUNCH = Launch("l", "k.py", "copy", Problem(()), Config((), (), (1, 1, 1)), CallSite("k.py", 1, ""))
PLACE = Roofline(1e6, 0.0, 100.0, None, 4000.0, 60.0, 0.025, "memory")
MEASURED = LaunchFacts(LAUNCH, 10.0, "measured", (9.9, 10.1), heat=Heat({7: LineHeat(1.0)}), roofline=PLACE)
FACTS = KernelFacts(KERNEL, SOURCE, "lab", (MEASURED,), ())
BEST = Trial(Candidate("faster", (), ()), Verdict(True, "", (), "", "", None, None), {"l": 5.0}, accepted=True)
SEARCH = OptimizeResult(
    KERNEL, TargetInfo("lab", "gpu", "NVIDIA H200", None, None, None), (LAUNCH,), {"l": 10.0}, "predicted",
    Suggestion(BEST, 2.0, (1.5, 2.5), "predicted", ""), (BEST,),
)  # fmt: skip


def test_facts_and_the_last_search_for_the_same_code_make_one_report():
    report = of_facts(FACTS, SEARCH, KERNEL)
    (launch,) = report.launches
    assert (launch.time_us, launch.after_us) == (10.0, 5.0)
    assert launch.after.achieved_gbps == pytest.approx(200.0)
    assert launch.lines == {7: LineHeat(1.0)}
    assert report.next_step == PREDICTED_GAIN_NEXT
    assert not report.stale


def test_a_search_for_other_code_is_left_out_and_an_edit_makes_the_report_stale():
    (other,) = analyze(SOURCE.replace("tl.load(x", "tl.load(o"), "k.py").kernels
    report = of_facts(FACTS, replace(SEARCH, kernel=other), other)
    assert report.search is None
    assert report.next_step == PROFILE_NEXT
    assert report.stale


class Server:
    """As much of the server's state as reports need; jobs wait until `run` is called."""

    def __init__(self, monkeypatch, *answers, trusted=True):
        self.options = SimpleNamespace(trusted=trusted)
        self.facts = Facts()
        self.jobs = SimpleNamespace(about=lambda _: None, start=self.start)
        self.client = SimpleNamespace(refresh=lambda **_: self.refreshed.append(True))
        self.waiting, self.refreshed, self.answers = [], [], list(answers)
        self.reports = Reports()
        monkeypatch.setattr("tritonforge.lsp.work.listings", self.listings)

    def start(self, look, **_):
        self.waiting.append(look)
        self.task = SimpleNamespace(done=lambda: False)
        return SimpleNamespace(task=self.task)

    async def listings(self, *_):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def show(self, learned=None):
        if learned is not None:
            self.facts.learn(URI, learned)
        snapshot = SimpleNamespace(uri=URI, path=Path("/w/k.py"))
        return await self.reports.of_kernel(self, snapshot, KERNEL)

    async def run(self):
        while self.waiting:
            await self.waiting.pop(0)(None)


URI = "file:///w/k.py"
TTIR = {"l": (Listing("ttir", ("tt.store %0, %1",), ((7,),)),)}


def test_listings_are_read_once_by_a_job_that_ends_with_a_refresh(monkeypatch):
    async def tell():
        server = Server(monkeypatch, TTIR)
        assert (await server.show(FACTS))["pending"]
        assert (await server.show())["pending"]
        assert len(server.waiting) == 1, "two questions, one job"
        await server.run()
        assert server.refreshed == [True]
        answer = await server.show(FACTS)
        assert not answer["pending"]
        assert "tt.store %0, %1" in answer["html"]
        assert server.waiting == []

    asyncio.run(tell())


def test_a_job_that_is_cancelled_before_it_begins_is_begun_again_when_asked_next(monkeypatch):
    async def tell():
        server = Server(monkeypatch, TTIR)
        assert (await server.show(FACTS))["pending"]
        server.waiting.clear()
        server.task.done = lambda: True
        assert (await server.show())["pending"]
        await server.run()
        assert not (await server.show())["pending"]

    asyncio.run(tell())


def test_a_failure_to_read_listings_is_said_and_tried_again_only_with_something_new(monkeypatch):
    async def tell():
        server = Server(monkeypatch, UsageError("The target is gone."), {}, TTIR)
        await server.show(FACTS)
        await server.run()
        answer = await server.show()
        assert "could not be read: The target is gone." in body(answer)
        assert not answer["pending"]
        assert server.waiting == [], "no loop of failures and refreshes"
        assert (await server.show(replace(FACTS)))["pending"], "profiled again"
        await server.run()
        assert "No call of this kernel is known any more" in body(await server.show())

    asyncio.run(tell())


def test_nothing_is_compiled_for_a_report_in_a_workspace_that_is_not_trusted(monkeypatch):
    async def tell():
        server = Server(monkeypatch, trusted=False)
        assert "Trust this workspace" in body(await server.show(FACTS))
        assert server.waiting == []

    asyncio.run(tell())


def body(answer):
    return re.sub(r"<(script|style)>.*?</\1>", "", answer["html"], flags=re.DOTALL)


def test_of_a_kernel_of_which_nothing_is_known_the_page_shows_the_source_and_says_what_to_do(start, folder):
    client = start(OFFLINE)
    answer = client.command("showReport", uri=client.uri("matmul.py"), kernel="matmul_kernel")
    page = body(answer)
    assert (answer["title"], answer["pending"]) == ("matmul_kernel", False)
    assert "<b>Next:</b> Profile it to see how long it takes and why. You are asked before anything is run." in page
    assert "acc += tl.dot(a, b)" in page
    assert not (folder / ".tritonforge").exists()
    with pytest.raises(LspError, match="defines no kernel 'gone'"):
        client.command("showReport", uri=client.uri("matmul.py"), kernel="gone")


@pytest.mark.skipif(not has_module() and find_ncu() is None, reason="nothing here reads Nsight Compute reports")
def test_a_report_file_is_read_for_the_kernels_of_the_workspace_and_only_when_trusted(start, folder):
    (folder / "two.ncu-rep").write_bytes(lzma.decompress((DATA / "two_kernels.ncu-rep.xz").read_bytes()))
    client = start({"trusted": False})
    uri = client.uri("two.ncu-rep")
    assert "Trust this workspace" in body(client.command("showReport", uri=uri))
    client.close()

    client = start(OFFLINE)
    stranger = client.command("showReport", uri=uri)
    assert stranger["kernels"] == []
    assert "No launch in" in body(stranger)
    (folder / "kernels").mkdir()
    (folder / "kernels" / "two.py").write_text((DATA / "two_kernels.py").read_text())
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": client.uri("kernels/two.py"), "type": 1}]})
    answer = client.command("showReport", uri=uri)
    assert (answer["title"], answer["uri"], answer["kernel"]) == ("two.ncu-rep", uri, None)
    assert [one["kernel"] for one in answer["kernels"]] == ["rowsum", "mm"]
    assert {one["uri"] for one in answer["kernels"]} == {client.uri("kernels/two.py")}
    assert "long scoreboard" in body(answer)
    assert client.command("showReport", uri=uri, known=answer["version"])["html"] is None
    (folder / "damaged.ncu-rep").write_bytes(b"NVR\0 no more")
    damaged = client.command("showReport", uri=client.uri("damaged.ncu-rep"))
    assert "cannot be read" in body(damaged)


@pytest.mark.triton
def test_after_a_profile_the_page_has_its_figures_and_then_without_a_word_its_listings(start):
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    client = start({**OFFLINE, "previews": True})
    uri = client.open("matmul.py")
    about = {"uri": uri, "kernel": "matmul_kernel"}
    client.outcome(client.command("profileKernel", **about, allowRun=True)["jobId"])
    assert "Report" in [lens["command"]["title"] for lens in client.lenses(uri)]
    first = client.command("showReport", **about)
    assert first["pending"]
    assert "listings are being read" in body(first)
    assert re.search(r"<dt>Time</dt><dd>[\d.]+ .?s</dd><dd>predicted", body(first))

    client.until(lambda: not client.command("showReport", **about)["pending"], timeout=120)
    whole = client.command("showReport", **about)
    assert re.findall(r'role="tab"[^>]*>(\w+)<', whole["html"]) == ["TTIR", "TTGIR", "PTX", "SASS"]
    again = client.command("showReport", **about, known=whole["version"])
    assert again == {**whole, "html": None}, "a page of megabytes is not sent twice"
    assert client.command("showReport", **about, known=first["version"]) == whole

    # Lines moved, but nothing that the figures depend on: the report still speaks of the text that it was made of.
    text = client.texts[uri]
    client.change(uri, f"# a word\n{text}")
    assert "The code has changed" not in body(client.command("showReport", **about))
    client.change(uri, text.replace("acc += tl.dot(a, b)", "acc = tl.dot(a, b, acc)"))
    assert "The code has changed since" in body(client.command("showReport", **about))
