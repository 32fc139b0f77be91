"""Findings stay with the code they were measured on: moved by edits above, stale after edits inside, back when undone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lsprotocol import types

from tritonforge.backend.facts import KernelFacts
from tritonforge.config import Settings
from tritonforge.domain.finding import Finding
from tritonforge.domain.source import Range
from tritonforge.lsp.diagnostics import STALE, diagnostics
from tritonforge.lsp.documents import Documents
from tritonforge.lsp.facts import Facts

URI = "file:///w/k.py"
ROOT = Path("/w")
HEAD = "import triton\nimport triton.language as tl\n\n\n"
KERNEL = '''\
@triton.jit
def {name}(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Größe 🚀."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    x = x * 2.0
    tl.store(o_ptr + i, x, mask=i < n)


'''
TEXT = HEAD + "".join(KERNEL.format(name=name) for name in ("one", "two", "three"))
CODES = {"TF901": "    x = tl.load(", "TF902": "    tl.store("}


class Editor:
    """The document, and facts that were measured on `two` as it was opened."""

    def __init__(self, text=TEXT):
        self.documents = Documents("utf-16")
        self.documents.open(URI, 1, text)
        self.facts = Facts()
        snapshot = self.snapshot()
        kernel = snapshot.kernel("two")
        lines = text.split("\n")
        findings = []
        for code, begins in CODES.items():
            line = next(
                n for n in range(kernel.range.start.line, kernel.range.end.line + 1) if lines[n - 1].startswith(begins)
            )
            where = Range.of(line, 5, line, len(lines[line - 1]) + 1)
            findings.append(Finding(code, code.lower(), "warning", "k.py", where, f"{code}.", "measured"))
        self.facts.learn(URI, KernelFacts(kernel, text, "lab", (), tuple(findings)))

    def snapshot(self):
        return self.documents.snapshot(URI, ROOT, "k.py")

    @property
    def text(self):
        return self.documents.text(URI)

    def replace(self, start, end, new):
        positions = self.snapshot().positions
        where = types.Range(positions.at(start), positions.at(end))
        event = types.TextDocumentContentChangePartial(range=where, text=new)
        self.documents.change(URI, (self.documents.version(URI) or 0) + 1, (event,))

    def shown(self):
        found = diagnostics(self.snapshot(), self.facts, Settings(ROOT))
        return {d.code: d for d in found if d.code in CODES}

    def line_of(self, code):
        """Where the code of a finding stands now: the line in `two` that begins as it did."""
        lines = self.text.split("\n")
        start = next(n for n, line in enumerate(lines) if line.startswith("def two("))
        return next(n for n in range(start, len(lines)) if lines[n].startswith(CODES[code]))


def outside(editor, rng):
    """An edit above or below the kernel, of what it does not depend on."""
    text = editor.text
    start = text.index("@triton.jit\ndef two(")
    end = text.index("@triton.jit\ndef three(")
    at = rng.choice([*range(text.index("\n\n\n") + 3, start), *range(end, len(text) + 1)])
    while text[at - 1] != "\n":
        at += 1
        if at >= len(text):
            break
    if not start < at < end and not text[:at].endswith("@triton.jit\n"):
        piece = rng.choice(["# note\n", "# 🚀 é\n", "\n", "y = 3\n", "def host(a):\n    return a\n\n\n", "# a\n# b\n"])
        editor.replace(at, at, piece)


@pytest.mark.parametrize("seed", range(10))
def test_edits_above_and_below_move_them_and_leave_them_fresh(seed):
    rng, editor = random.Random(seed), Editor()
    before = {code: d.message for code, d in editor.shown().items()}
    assert before.keys() == CODES.keys()
    for _ in range(12):
        outside(editor, rng)
        now = editor.shown()
        assert {code: d.message for code, d in now.items()} == before
        for code, diagnostic in now.items():
            assert diagnostic.severity == types.DiagnosticSeverity.Warning
            assert diagnostic.range.start == types.Position(editor.line_of(code), 4)


@pytest.mark.parametrize("seed", range(10))
def test_edits_inside_make_them_stale_where_their_line_is_and_undoing_brings_them_back(seed):
    rng, editor = random.Random(seed), Editor()
    fresh = editor.shown()
    undo = []
    for _ in range(rng.randrange(1, 6)):
        undo.append(editor.text)
        if rng.random() < 0.5:
            outside(editor, rng)
        at = editor.text.index("    x = x * 2.0", editor.text.index("def two("))
        kind = rng.randrange(3)
        if kind == 0:
            editor.replace(at, at, f"    x = x + {rng.randrange(9)}.5\n")
        elif kind == 1:
            editor.replace(at + len("    x = x * 2.0"), at + len("    x = x * 2.0"), " + 1.0")
        else:
            editor.replace(at, at, "    x = x +\n")  # half-typed
        for code, diagnostic in editor.shown().items():
            assert diagnostic.message.endswith(STALE)
            assert diagnostic.severity == types.DiagnosticSeverity.Hint
            assert diagnostic.range.start == types.Position(editor.line_of(code), 4)
        assert editor.shown().keys() == CODES.keys()
    for text in reversed(undo):
        editor.replace(0, len(editor.text), text)
    assert editor.text == TEXT
    assert editor.shown() == fresh


def test_a_comment_inside_changes_nothing_but_places():
    editor = Editor()
    at = editor.text.index("    x = x * 2.0", editor.text.index("def two("))
    editor.replace(at, at, "    # what follows doubles 🚀\n")
    for code, diagnostic in editor.shown().items():
        assert not diagnostic.message.endswith(STALE)
        assert diagnostic.range.start.line == editor.line_of(code)


def test_a_finding_whose_line_is_gone_stands_at_the_kernels_name():
    editor = Editor()
    line = "    tl.store(o_ptr + i, x, mask=i < n)\n"
    at = editor.text.index(line, editor.text.index("def two("))
    editor.replace(at, at + len(line), "    tl.store(o_ptr + i, x * 3, mask=i < n)\n")
    shown = editor.shown()
    name = next(n for n, text in enumerate(editor.text.split("\n")) if text.startswith("def two("))
    assert shown["TF902"].range == types.Range(types.Position(name, 4), types.Position(name, 7))
    assert shown["TF901"].range.start.line == editor.line_of("TF901")
    editor.replace(at, at + len("    tl.store(o_ptr + i, x * 3, mask=i < n)\n"), line)
    assert shown != editor.shown()
    assert not editor.shown()["TF902"].message.endswith(STALE)
