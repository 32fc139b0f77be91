"""A suggestion that changes a kernel's file and the file that launches it: one edit, and none once either has changed."""

import pytest
from lsprotocol import types

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate, Suggestion, Trial
from tritonforge.domain.errors import UsageError
from tritonforge.domain.source import Edit
from tritonforge.lsp.client import Abilities, Client
from tritonforge.lsp.code_actions import edit_of
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Offer
from tritonforge.lsp.positions import PositionedText
from tritonforge.lsp.suggestions import preview

KERNELS = """\
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""
OPS = "from kernels import double\n\n\ndef run(x, o):\n    '🚀'; double[(4,)](x, o, 128, BLOCK=32)\n"


@pytest.fixture
def told(tmp_path):
    """Return snapshot, offer and client of a workspace with both files on disk."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "ops.py").write_text(OPS)
    analysis = analyze(KERNELS, "kernels.py")
    snapshot = Snapshot(
        (tmp_path / "kernels.py").as_uri(), 3, PositionedText(KERNELS), tmp_path / "kernels.py", tmp_path,
        "kernels.py", "", analysis,
    )  # fmt: skip
    two, block = KERNELS.index("2 * tl"), OPS.index("32)")
    edits = (Edit("kernels.py", two, two + 1, "2.0"), Edit("ops.py", block, block + 2, "64"))
    candidate = Candidate("both", edits, (("both", ()),))
    suggestion = Suggestion(Trial(candidate, None, None, accepted=True), 2.0, (1.5, 2.5), "predicted", "")
    offer = Offer("1", analysis.kernels[0], KERNELS, suggestion, others=(("ops.py", OPS),))
    client = Client(None)
    client.can = Abilities(applies_edits=True, versioned_edits=True)
    return snapshot, offer, client


def changes(edit):
    return {
        one.text_document.uri.rpartition("/")[2]: (one.text_document.version, one.edits)
        for one in edit.document_changes
    }


def test_one_edit_covers_both_files(told):
    snapshot, offer, client = told
    made = changes(edit_of(offer, snapshot, client))
    assert made.keys() == {"kernels.py", "ops.py"}
    version, (edit,) = made["kernels.py"]
    assert (version, edit.new_text) == (3, "2.0")
    version, (edit,) = made["ops.py"]
    column = OPS.splitlines()[4].index("32)") + 1  # the rocket is two units of UTF-16
    assert (version, edit.new_text) == (None, "64")
    assert edit.range == types.Range(types.Position(4, column), types.Position(4, column + 2))


def test_an_open_document_counts_for_its_file(told):
    snapshot, offer, client = told
    client.opened = lambda uri: (OPS, 7) if uri.endswith("ops.py") else None
    assert changes(edit_of(offer, snapshot, client))["ops.py"][0] == 7
    client.opened = lambda _: ("# typed\n" + OPS, 8)
    assert edit_of(offer, snapshot, client) is None


def test_a_file_that_has_changed_or_is_gone_is_left_alone(told):
    snapshot, offer, client = told
    (snapshot.root / "ops.py").write_text(OPS + "\n")
    assert edit_of(offer, snapshot, client) is None
    (snapshot.root / "ops.py").unlink()
    assert edit_of(offer, snapshot, client) is None
    assert Offer("1", offer.kernel, KERNELS, offer.suggestion).edits_for(snapshot) is None


def test_no_diff_editor_shows_two_files(told):
    snapshot, offer, _ = told
    with pytest.raises(UsageError, match=r"changes kernels\.py, ops\.py"):
        preview(None, snapshot, offer)
