"""A suggestion outlives the server that found it, and says what it takes once it was applied."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from in_process import InProcess

from tritonforge.analysis import analyze
from tritonforge.backend.facts import KernelFacts, LaunchFacts, state_of
from tritonforge.backend.judging import state_after
from tritonforge.domain.candidate import Suggestion, Trial, Verdict
from tritonforge.domain.launch import CallSite, Config, Launch, Problem
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.source import apply_edits
from tritonforge.lsp import suggestions
from tritonforge.lsp.code_lens import code_lenses
from tritonforge.lsp.documents import Documents
from tritonforge.lsp.facts import Facts, Offer
from tritonforge.lsp.restoring import search_of
from tritonforge.rewrite import unified_diff
from tritonforge.rewrite.rules.launch_parameters import rewrite_launch
from tritonforge.store import open_store
from tritonforge.store.keys import text_hash

FILE = "k.py"
TEXT = """\
import triton
import triton.language as tl

# above


@triton.jit
def scale(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def host(x):
    scale[(triton.cdiv(x.numel(), 64),)](x, x.numel(), BLOCK=64)
"""
VERDICT = Verdict(True, "", ("64",), "original", "", 0.0, 0.0)


def kernel_of(text):
    (kernel,) = analyze(text, FILE).kernels
    return kernel


def result(*, accepted=True, provenance="predicted"):
    kernel = kernel_of(TEXT)
    candidate = rewrite_launch(kernel, {FILE: TEXT}, {"BLOCK": 1024})
    trial = Trial(candidate, replace(VERDICT, accepted=accepted), {"a": 2.25}, accepted=accepted)
    best = Suggestion(trial, 3.0, (2.0, 4.0), provenance, unified_diff({FILE: TEXT}, candidate.edits))
    target = TargetInfo("offline", "offline", None, None, None, None)
    return OptimizeResult(kernel, target, (), {}, provenance, best)


@pytest.fixture
def store(tmp_path):
    (tmp_path / ".git").mkdir()
    with open_store(tmp_path) as store:
        yield store


def test_a_suggestion_is_found_again_for_the_same_source(store):
    store.put_tuning(result())
    found = search_of(store, kernel_of(TEXT), TEXT)
    assert found == result()
    assert "BLOCK=1024" in apply_edits(TEXT, found.best.trial.candidate.edits)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# above", "# above, and longer"),  # the same code, and other offsets
        ("# above", "# above\n# and more"),
        ("* 2", "* 3"),
        ("BLOCK=64", "BLOCK=128"),
        ("BLOCK=64", "BLOCK=1024"),  # applied
        ("BLOCK=64)", "BLOCK=64)  # said beside it"),
    ],
)
def test_it_is_not_where_the_source_has_changed(store, before, after):
    store.put_tuning(result())
    text = TEXT.replace(before, after)
    assert search_of(store, kernel_of(text), text) is None


def test_it_is_not_when_it_was_refused_or_turned_down_or_nothing_better_was_found_since(store):
    kernel = kernel_of(TEXT)
    store.put_tuning(result(accepted=False))
    assert search_of(store, kernel, TEXT) is None
    store.put_tuning(result())
    store.turn_down(FILE, "scale", text_hash(result().best.diff))
    assert search_of(store, kernel, TEXT) is None
    store.turn_down(FILE, "scale", text_hash("another"))
    assert search_of(store, kernel, TEXT) is not None
    store.put_tuning(replace(result(), best=None))
    assert search_of(store, kernel, TEXT) is None


def lens(facts, text):
    documents = Documents("utf-16")
    documents.open("file:///w/k.py", 1, text)
    snapshot = documents.snapshot("file:///w/k.py", Path("/w"), FILE)
    nothing = SimpleNamespace(about=lambda _: None)
    return code_lenses(snapshot, facts, nothing, {}, trusted=True)[0].command.title


def launched(provenance, time_us):
    launch = Launch("a", FILE, "scale", Problem(()), Config((), (), (1, 1, 1)), CallSite(FILE, 15, "host"))
    return (LaunchFacts(launch, time_us, provenance),)


@pytest.mark.parametrize("provenance", ["predicted", "measured"])
def test_code_that_a_suggestion_was_applied_to_shows_what_that_was_found_to_take(provenance):
    uri, kernel, best = "file:///w/k.py", kernel_of(TEXT), result(provenance=provenance).best
    applied = state_after(kernel, TEXT, best)
    facts = Facts()
    facts.learn(uri, KernelFacts(kernel, TEXT, "lab", launched(provenance, 6.25), ()))
    facts.offer(uri, Offer("1", kernel, TEXT, best, applied=applied))
    after = apply_edits(TEXT, best.trial.candidate.edits)
    assert applied == state_of(kernel_of(after))

    assert lens(facts, TEXT).startswith("6.25 µs")
    assert lens(facts, after).endswith(f"µs {provenance} when suggested · 3.00x faster")
    assert lens(facts, after).startswith("2.25 µs")
    assert lens(facts, after.replace("* 2", "* 3")).endswith("stale")

    # A prediction of the new code does not take the place of a measurement; a measurement does.
    facts.learn(uri, KernelFacts(kernel_of(after), after, "lab", launched("predicted", 3.0), ()))
    assert ("when suggested" in lens(facts, after)) == (provenance == "measured")
    facts.learn(uri, KernelFacts(kernel_of(after), after, "lab", launched("measured", 2.5), ()))
    assert lens(facts, after).startswith("2.50 µs")


def test_a_server_offers_it_when_the_file_is_opened_and_remembers_that_it_was_turned_down(store, tmp_path):
    store.put_tuning(result())
    uri = (tmp_path / FILE).as_uri()

    async def opened(*, discard=False):
        server = InProcess(tmp_path)
        document = {"uri": uri, "languageId": "python", "version": 1, "text": TEXT}
        server.notify("textDocument/didOpen", {"textDocument": document})
        state = server.server.state
        snapshot = state.snapshot(uri)
        await state._restore(snapshot, snapshot.analysis.kernels)
        lenses = server.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
        if discard:
            assert suggestions.discard(state, uri, "scale", None) == {"discarded": True}
            await asyncio.wait(state._tasks)
            await state._restore(snapshot, snapshot.analysis.kernels)
            assert state.facts.offered(uri, "scale") is None
        await server.close()
        return [one["command"]["title"] for one in lenses]

    assert "Apply 3.00x (predicted)" in asyncio.run(opened(discard=True))
    assert not any(title.startswith("Apply") for title in asyncio.run(opened()))
