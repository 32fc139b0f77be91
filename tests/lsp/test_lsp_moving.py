"""Lines, edits and findings stay with the code they belong to, whatever people type above and inside it."""

from __future__ import annotations

import difflib
import random
from pathlib import Path

import pytest

from tritonforge.domain.source import Edit, apply_edits
from tritonforge.lsp.moving import line_map, moved_edits, moved_line

EXAMPLES = Path(__file__).parents[2] / "examples"


def kernels(count: int) -> str:
    """A file of kernels that differ in their names alone: most of its lines stand there many times."""
    head, _, rest = (EXAMPLES / "matmul.py").read_text().partition("@triton.jit")
    one = ("@triton.jit" + rest).partition("if __name__")[0]
    return head + "".join(one.replace("matmul", f"matmul_{n}") for n in range(count))


def edited(lines: list[tuple[int, str]], rng: random.Random, fresh: list[int]) -> list[tuple[int, str]]:
    """One edit of lines that know where they come from: some put in, taken out or changed (a changed one is new)."""

    def new(text: str) -> tuple[int, str]:
        fresh[0] -= 1
        return fresh[0], text

    at, kind = rng.randrange(len(lines) + 1), rng.random()
    size = rng.randrange(1, 5)
    if kind < 0.5:
        texts = ["\n", "# note 🚀\n", "    x = 1\n", "import os\n", "@triton.jit\n", "def f():\n", "    acc += 1\n"]
        return [*lines[:at], *(new(rng.choice(texts)) for _ in range(size)), *lines[at:]]
    if kind < 0.7:
        return lines[:at] + lines[at + size :]
    changed = [new(text.rstrip("\n") + f"  # {fresh[0]}\n") for _, text in lines[at : at + size]]
    return lines[:at] + changed + lines[at + size :]


@pytest.mark.parametrize("seed", range(12))
def test_every_line_that_was_not_touched_is_found_again(seed):
    rng, fresh = random.Random(seed), [0]
    # Each line is there once, so that there is one right answer.
    texts = [
        f"{line.rstrip()}  # {n}\n" if line.strip() else line for n, line in enumerate(kernels(6).splitlines(True))
    ]
    lines = list(enumerate(texts))
    before = "".join(texts)
    for _ in range(rng.randrange(1, 25)):
        lines = edited(lines, rng, fresh)
    after = "".join(text for _, text in lines)
    now = {origin: n for n, (origin, _) in enumerate(lines) if origin >= 0}
    found = line_map(before, after)
    for number, text in enumerate(texts):
        if text.strip():
            assert found.get(number) == now.get(number), (number, text)


@pytest.mark.parametrize("seed", range(12))
def test_among_many_equal_lines_one_is_looked_for_in_its_own_kernel(seed):
    rng, fresh = random.Random(seed), [0]
    before = kernels(8)
    lines = list(enumerate(before.splitlines(True)))
    old = [text for _, text in lines]
    for _ in range(rng.randrange(1, 8)):
        lines = edited(lines, rng, fresh)
    after = "".join(text for _, text in lines)
    new = after.splitlines(True)

    def kernel_at(texts, number):
        above = [text for text in texts[: number + 1] if text.startswith("def matmul_")]
        return above[-1].split("(")[0] if above else ""

    places = {origin: n for n, (origin, _) in enumerate(lines) if origin >= 0}
    for number, text in enumerate(old):
        found = line_map(before, after).get(number)
        if found is not None:
            assert new[found] == text
        kept = places.get(number)
        # Where the `def` is still there, no line of it is said to be in another kernel.
        if found is not None and kept is not None and text.strip():
            assert kernel_at(new, found) == kernel_at(new, kept)


def test_edits_at_both_ends_of_a_large_file_lose_nothing_between_them():
    before = kernels(40)
    after = "import os\n" + before.replace("def matmul_39(", "def renamed(")
    lines = before.splitlines()
    middle = next(n for n, line in enumerate(lines, 1) if line.startswith("def matmul_20_kernel"))
    assert len(lines) > 1500
    assert moved_line(middle, before, after) == middle + 1
    assert moved_line(middle + 5, before, after) == middle + 6


def test_what_is_undone_is_where_it_was():
    before = kernels(2)
    for text in (before.replace("acc +=", "acc -="), "x\n" + before, before[: len(before) // 2]):
        assert line_map(before, text)
    assert moved_line(40, before, before) == 40


@pytest.mark.parametrize("seed", range(12))
def test_a_moved_edit_changes_the_same_code_or_nothing(seed):
    rng = random.Random(seed)
    before = kernels(5)
    at = before.index("BLOCK_M=32", before.index("def matmul_3("))
    edit = Edit("f.py", at, at + len("BLOCK_M=32"), "num_stages=3, BLOCK_M=64")
    wanted = apply_edits(before, (edit,))
    lines = before.splitlines(True)
    touched = before[:at].count("\n")
    above, below = rng.randrange(touched + 1), rng.randrange(touched + 1, len(lines))
    extra = "# é🚀\r\n" * rng.randrange(1, 4)

    def with_extra(text: str) -> str:
        parts = text.splitlines(True)
        return "".join([*parts[:above], extra, *parts[above:below], extra, *parts[below:]])

    after = with_extra(before)
    moved = moved_edits((edit,), before, after)
    assert moved is not None
    assert apply_edits(after, moved) == with_extra(wanted)
    changed = after.replace(lines[touched], lines[touched].replace("BLOCK_M", "BLOCK_Q"))
    assert moved_edits((edit,), before, changed) is None


def test_renamed_copies_of_one_function_keep_their_lines_and_nothing_long_is_compared_pair_by_pair(monkeypatch):
    def copies(name, count=60):
        body = [f"    x{n} = tl.load(a + {n})" for n in range(40)]
        return "\n".join(line for n in range(count) for line in (f"def {name}{n}(a):", *body, "", ""))

    matcher, compared = difflib.SequenceMatcher, []

    def counted(_, old, new, **options):
        compared.append(len(old) * len(new))
        return matcher(None, old, new, **options)

    monkeypatch.setattr(difflib, "SequenceMatcher", counted)
    before, after = copies("kernel"), copies("renamed")
    assert [moved_line(line, before, after) for line in (1, 2, 41, 44, 45)] == [None, 2, 41, None, 45]
    repeated = ["\n".join("    acc += 1" if n % 2 else f"    {name}{n} = 1" for n in range(3000)) for name in "ab"]
    moved_line(2, *repeated)
    # One call of a thousand by a thousand lines takes seconds, with every keystroke.
    assert sum(compared) <= 2500
