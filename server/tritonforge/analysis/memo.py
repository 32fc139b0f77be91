"""Facts about kernels that were found before, for a file that is analysed again after every keystroke.

A kernel's facts depend on the top-level statements that its names lead to, and on nothing else of the file. As long as
the text of those is the same and in the same order, facts are taken over, with their lines moved to where the
statements stand now. What depends on the rest (launch sites, suppressions) is read anew each time.
"""

from __future__ import annotations

import ast
import bisect
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.parsing import Parsed, parse_lines
from tritonforge.analysis.reparsing import block_ends, reparse
from tritonforge.analysis.shifting import Shift, shifted
from tritonforge.analysis.text import SourceText, words
from tritonforge.analysis.unit import Unit
from tritonforge.domain.kernel import Kernel

K = TypeVar("K")
V = TypeVar("V")
_MOST_KERNELS = 512
_MOST_BLOCKS = 8192
_MOST_TREES = 4
"""Files whose trees are kept: 10 MB for 3,000 lines."""


@dataclass(frozen=True)
class Facts:
    """A kernel without its launch sites and suppressions, and whether its body could be followed to the end."""

    kernel: Kernel
    whole: bool


@dataclass(frozen=True)
class _Entry:
    facts: Facts
    starts: tuple[int, ...]


class Memo:
    """What was found in earlier versions of files; one is enough for any number of files."""

    def __init__(self) -> None:
        self._facts: OrderedDict[bytes, _Entry] = OrderedDict()
        self._hosts: OrderedDict[tuple[bytes, int, int], str] = OrderedDict()
        self._words: OrderedDict[bytes, frozenset[str]] = OrderedDict()
        self._placed: OrderedDict[tuple[str, str], Kernel] = OrderedDict()
        self._trees: OrderedDict[str, Parsed] = OrderedDict()

    def parse(self, text: SourceText, file: str) -> Parsed:
        """Parse a file, taking over what its last version has in common with it; `done` gives the tree back."""
        before = self._trees.pop(file, None)
        return (reparse(before, text.lines) if before is not None else None) or parse_lines(text.lines)

    def done(self, parsed: Parsed, file: str) -> None:
        """Keep a tree for the next version of its file; it must be as it was parsed."""
        _keep(self._trees, file, parsed, _MOST_TREES)

    def take(self, other: Memo) -> None:
        """Take over what another memo found, which must not be used any more; what is known here already stays."""
        for mine, theirs, most in (
            (self._facts, other._facts, _MOST_KERNELS),
            (self._hosts, other._hosts, _MOST_KERNELS),
            (self._words, other._words, _MOST_BLOCKS),
            (self._placed, other._placed, _MOST_KERNELS),
            (self._trees, other._trees, _MOST_TREES),
        ):
            _take(mine, theirs, most)

    def view(self, unit: Unit, mended: Sequence[str]) -> View:
        """Return what is known for one version of a file; `mended` are the lines that were parsed."""
        return View(self, unit, mended)

    def same(self, kernel: Kernel) -> Kernel:
        """Return the object that stood for an equal kernel before: what others keep for it can be found by identity."""
        key = kernel.file, kernel.name
        before = self._placed.get(key)
        if before == kernel:
            kernel = before
        _keep(self._placed, key, kernel, _MOST_KERNELS)
        return kernel


class View:
    """A memo, seen from one version of a file."""

    def __init__(self, memo: Memo, unit: Unit, mended: Sequence[str]) -> None:
        self._memo = memo
        self._unit = unit
        self._mended = mended
        self._keys: dict[int, tuple[bytes, tuple[int, ...]]] = {}

    @cached_property
    def _blocks(self) -> _Blocks:
        return _Blocks(self._unit, self._mended)

    @cached_property
    def _jits(self) -> dict[int, list[JitFunction]]:
        found: dict[int, list[JitFunction]] = {}
        for jit in self._unit.jits.values():
            found.setdefault(self._block(jit.node.lineno), []).append(jit)
        return found

    @cached_property
    def _bound(self) -> dict[str, set[int]]:
        bound = self._unit.index.module.bindings.items()
        return {name: {self._block(binding.line) for binding in bindings} for name, bindings in bound}

    def facts(self, jit: JitFunction, sized: set[str]) -> Facts | None:
        """Return what is known of a kernel, at its lines now. `sized`: see `build_kernel`."""
        key, starts = self._key(jit, sized)
        entry = self._memo._facts.get(key)  # noqa: SLF001 - same module
        if entry is None:
            return None
        self._memo._facts.move_to_end(key)  # noqa: SLF001
        if entry.starts == starts:
            return entry.facts
        facts = Facts(shifted(entry.facts.kernel, Shift(entry.starts, starts)), entry.facts.whole)
        self._memo._facts[key] = _Entry(facts, starts)  # noqa: SLF001
        return facts

    def keep(self, jit: JitFunction, sized: set[str], facts: Facts) -> None:
        """Remember a kernel as it was found."""
        key, starts = self._key(jit, sized)
        _keep(self._memo._facts, key, _Entry(facts, starts), _MOST_KERNELS)  # noqa: SLF001

    def host_hash(self, node: ast.AST) -> str | None:
        """Return the hash of a host function or statement, when it is known."""
        return self._memo._hosts.get(self._place(node))  # noqa: SLF001

    def keep_host(self, node: ast.AST, hashed: str) -> None:
        """Remember the hash of a host function or statement."""
        _keep(self._memo._hosts, self._place(node), hashed, _MOST_KERNELS)  # noqa: SLF001

    def _place(self, node: ast.AST) -> tuple[bytes, int, int]:
        line: int = node.lineno  # type: ignore[attr-defined]
        block = self._block(line)
        return self._blocks.digest(block), line - self._blocks.starts[block], node.col_offset  # type: ignore[attr-defined]

    def _block(self, line: int) -> int:
        return max(bisect.bisect_right(self._blocks.starts, line) - 1, 0)

    def _key(self, jit: JitFunction, sized: set[str]) -> tuple[bytes, tuple[int, ...]]:
        found = self._keys.get(id(jit))
        if found is None:
            found = self._keys[id(jit)] = self._read(jit, sized)
        return found

    def _read(self, jit: JitFunction, sized: set[str]) -> tuple[bytes, tuple[int, ...]]:
        waiting, seen = [self._block(jit.node.lineno)], set[int]()
        while waiting:
            block = waiting.pop()
            if block in seen:
                continue
            seen.add(block)
            for name in self._words(block) & self._bound.keys():
                waiting += self._bound[name] - seen
            for inside in self._jits.get(block, ()):  # what wraps it may stand elsewhere
                waiting += [self._block(wrapper.lineno) for wrapper, _ in inside.wrappers]
        blocks = sorted(seen)
        order = {block: number for number, block in enumerate(blocks)}

        def place(node: ast.AST) -> tuple[int, int, int]:
            block = self._block(node.lineno)  # type: ignore[attr-defined]
            return order[block], node.lineno - self._blocks.starts[block], node.col_offset  # type: ignore[attr-defined]

        jits = [
            (place(inside.node), [place(wrapper) for wrapper, _ in inside.wrappers])
            for block in blocks
            for inside in self._jits.get(block, ())
        ]
        about = repr((self._unit.file, jit.name, place(jit.node), jits, sorted(sized))).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(about, digest_size=20)
        for block in blocks:
            digest.update(self._blocks.digest(block))
        return digest.digest(), tuple(self._blocks.starts[block] for block in blocks)

    def _words(self, block: int) -> frozenset[str]:
        memo, digest = self._memo, self._blocks.digest(block)
        found = memo._words.get(digest)  # noqa: SLF001
        if found is None:
            found = words(self._blocks.text(block))
        _keep(memo._words, digest, found, _MOST_BLOCKS)  # noqa: SLF001
        return found


class _Blocks:
    """A file cut after each top-level statement: first lines, digests and texts (as parsed and as written).

    Statements on one line are one block. Lines of comments and blanks belong to what follows them.
    """

    def __init__(self, unit: Unit, mended: Sequence[str]) -> None:
        module = unit.index.module.node
        self._written = unit.text.lines
        self._mended = mended
        self._ends = block_ends([one for one in module.body if isinstance(one, ast.stmt)], len(self._written))
        self.starts = [1, *(end + 1 for end in self._ends[:-1])]
        self._digests: dict[int, bytes] = {}

    def text(self, block: int) -> str:
        """Return the text of a block; where it was mended, with what was parsed."""
        start, end = self.starts[block] - 1, self._ends[block]
        own, parsed = self._written[start:end], self._mended[start:end]
        return "\n".join(own) if own == parsed else "\n".join([*own, "\0", *parsed])

    def digest(self, block: int) -> bytes:
        """Return the digest of a block's text."""
        found = self._digests.get(block)
        if found is None:
            text = self.text(block).encode("utf-8", "surrogatepass")
            found = self._digests[block] = hashlib.blake2b(text, digest_size=20).digest()
        return found


def _take(mine: OrderedDict[Any, Any], theirs: OrderedDict[Any, Any], most: int) -> None:
    for key, value in theirs.items():
        if key not in mine:
            _keep(mine, key, value, most)


def _keep(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
