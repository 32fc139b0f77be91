"""A file that is analysed again after every edit, with what earlier versions showed, shows what it would show anew."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.analysis.memo import Memo

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SHARED = '''\
import torch
import triton
import triton.language as tl

BLOCK_SIZE = 128


@triton.jit
def scaled(x, factor):
    return x * factor


@triton.jit
def one(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, scaled(tl.load(x_ptr + i, mask=i < n), 2.0), mask=i < n)  # é🚀


def run_one(x):
    o = torch.empty_like(x)
    one[(triton.cdiv(x.numel(), BLOCK_SIZE),)](x, o, x.numel(), BLOCK=BLOCK_SIZE)
    return o


# tritonforge: ignore[TF502]
@triton.jit
def two(x_ptr, o_ptr, n, N: tl.constexpr):
    total = 0.0
    for k in range(0, n):
        total += scaled(tl.load(x_ptr + k * N), f"{3}")
    tl.store(o_ptr, total)


def plain(x):
    """Not jitted yet."""
    return tl.sum(x)


class Op:
    def __init__(self, fn):
        self.kernel = fn

    def __call__(self, x):
        self.kernel[(1,)](x, x, 3, N=x.shape[0])


Op(two)(torch.zeros(3))
tuned = triton.autotune(configs=[triton.Config({"N": 8})], key=["n"])(two)
'''
PIECES = [
    "\n", "\n\n\n", "#", "🚀", " ", "    ", "\t", "(", ")", ":", '"""', "x", "@triton.jit\n", "\r\n", "\\\n",
    "BLOCK_SIZE = 64\n", "scaled = triton.jit(plain)\n", "def scaled(x, factor):\n    return x\n", "import math as tl\n",
    "# tritonforge: ignore\n", "one[(1,)](1, 2, 3, BLOCK=x.shape[0])\n", "del one\n", "tl = None\n", "  = ", "if x:\n",
    "from helpers import scaled\n", "class scaled: pass\n", "\x0c", "N = 3; M = 4\n", "ﬁ",
]  # fmt: skip


def edited(text: str, rng: random.Random) -> str:
    """One edit: a piece put in, or some characters or lines taken out, copied or moved."""
    at = rng.randrange(len(text) + 1)
    kind = rng.random()
    if kind < 0.45:
        return text[:at] + rng.choice(PIECES) + text[at:]
    if kind < 0.7:
        return text[:at] + text[at + rng.randrange(12) :]
    lines = text.splitlines(keepends=True) or [""]
    first = rng.randrange(len(lines))
    last = min(first + rng.randrange(9), len(lines))
    taken, rest = lines[first:last], lines[:first] + lines[last:]
    if kind < 0.8:
        return "".join(rest)
    to = rng.randrange(len(rest) + 1)
    kept = lines if kind < 0.9 else rest
    return "".join([*kept[:to], *taken, *kept[to:]])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("source", [SHARED, *(path.read_text() for path in EXAMPLES[:3])])
def test_after_any_edits_a_memo_changes_nothing(source, seed):
    rng = random.Random(seed)
    memo, versions = Memo(), [source]
    for _ in range(30):
        # Now and then back to an earlier version: an undo.
        text = rng.choice(versions) if rng.random() < 0.2 else edited(versions[-1], rng)
        versions.append(text)
        again, anew = analyze(text, "f.py", memo), analyze(text, "f.py")
        if again != anew:  # of a broken file more may be saved, and never less
            assert anew.errors, text
            assert {k.name for k in anew.kernels} <= {k.name for k in again.kernels}, text


def test_what_the_parser_decides_far_away_is_parsed_anew():
    for text in (
        SHARED.replace("BLOCK_SIZE = 128\n", "BLOCK_SIZE = (\n", 1),
        SHARED.replace("BLOCK_SIZE = 128\n", "BLOCK_SIZE = 128 + \\\n", 1),
        SHARED.replace("BLOCK_SIZE = 128\n", "@triton.jit\n", 1),
        SHARED.replace("    return o\n", "    return o\n    else:\n", 1),
        SHARED.replace("def plain(x):", "  def plain(x):", 1),
        SHARED.replace("def plain(x):", "if x:\n  pass\nelse:\n  pass\ndef plain(x):", 1),
    ):
        memo = Memo()
        analyze(SHARED, "f.py", memo)
        assert analyze(text, "f.py", memo) == analyze(text, "f.py"), text
        assert analyze(SHARED, "f.py", memo) == analyze(SHARED, "f.py")


CLOSED_BELOW = SHARED.replace('"""Not jitted yet."""', "pass").replace("# tritonforge: ignore[TF502]", '# """')


@pytest.mark.parametrize("line", ["BLOCK_SIZE = 128\n", "    o = torch.empty_like(x)\n"])
def test_a_string_that_is_closed_below_is_parsed_anew(line):
    text = CLOSED_BELOW.replace(line, line.replace("\n", ' + """\n'), 1)
    memo = Memo()
    assert len(analyze(CLOSED_BELOW, "f.py", memo).kernels) == 2
    swallowed = analyze(text, "f.py", memo)
    assert not swallowed.errors
    assert swallowed == analyze(text, "f.py")
    assert analyze(CLOSED_BELOW, "f.py", memo) == analyze(CLOSED_BELOW, "f.py")


# To the parser the docstring of the next function closes the first string, and what follows opens one that never ends.
@pytest.mark.parametrize(
    "typed", ['def typed(x):\n    """Scale', 'def typed(x):\n    """', "NOTE = '''", 'NOTE = f"""{']
)
def test_while_a_docstring_is_typed_the_kernels_of_the_file_stay(typed):
    many = SHARED + "".join(
        f'\n\n@triton.jit\ndef k{n}(p, n):\n    """Do {n}."""\n    tl.store(p, n)\n' for n in range(12)
    )
    for cut in ("def run_one", "@triton.jit\ndef k6"):
        memo = Memo()
        whole = analyze(many, "f.py", memo)
        hashes = {kernel.name: kernel.code_hash for kernel in whole.kernels}
        for key in range(len(typed) + 1):
            half = analyze(many.replace(cut, f"{typed[:key]}\n\n\n{cut}", 1), "f.py", memo)
            assert {kernel.name: kernel.code_hash for kernel in half.kernels} == hashes, typed[:key]
        assert half.errors
        assert analyze(many, "f.py", memo) == whole


def test_a_missing_body_takes_its_own_function_along_and_not_the_next():
    text = SHARED.replace("def plain(x):", "def typed(x):\n\n\n# note\ndef plain(x):")
    found = analyze(text, "f.py")
    assert [k.name for k in found.kernels] == ["one", "two"]
    assert len(found.errors) == 1
    above = SHARED.replace(
        "# tritonforge: ignore[TF502]\n@triton.jit\ndef two", "def typed(x):\n\n@triton.jit\ndef two"
    )
    assert [k.name for k in analyze(above, "f.py").kernels] == ["one", "two"]


def test_an_edit_elsewhere_leaves_the_very_same_kernels():
    memo = Memo()
    before = analyze(SHARED, "f.py", memo).kernels
    after = analyze(SHARED.replace("Op(two)", "Op(two )"), "f.py", memo).kernels
    assert [k.name for k in after] == ["one", "two"]
    assert all(now is then for now, then in zip(after, before, strict=True))
    changed = analyze(SHARED.replace("x * factor", "x + factor"), "f.py", memo).kernels
    assert all(now.code_hash != then.code_hash for now, then in zip(changed, before, strict=True))


def test_kernels_below_an_inserted_line_move_with_all_that_they_name():
    memo = Memo()
    analyze(SHARED, "f.py", memo)
    for cut in ("def run_one", "@triton.jit\ndef one", "import triton\n"):
        text = SHARED.replace(cut, f"\n# added\n{cut}", 1)
        assert analyze(text, "f.py", memo) == analyze(text, "f.py")
