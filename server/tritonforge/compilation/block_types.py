"""Block types of `ttgir` with their layouts, and what every fact about a block starts from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tritonforge.compilation.divisors import common
from tritonforge.compilation.layouts import Layout, Vector, read_layout
from tritonforge.compilation.mlir import element_bytes
from tritonforge.compilation.ttgir import Seen
from tritonforge.compilation.values import UNKNOWN, Known
from tritonforge.domain.launch import Tensor

_BLOCK = re.compile(r"(?:tensor|memdesc|tensordesc)?<((?:\d+x)*)(!tt\.ptr<[^<>]*>|[A-Za-z]\w*)")


@dataclass(frozen=True)
class Block:
    """A block type with its layout: `pointer` when its elements are addresses of `element`s."""

    shape: Vector
    element: str
    encoding: str
    pointer: bool

    @property
    def size(self) -> float:
        """Bytes of one element."""
        return element_bytes(self.element)


@dataclass(frozen=True)
class Context:
    """What facts need besides their operation.

    `executions` is how often each line runs in one program, where that is known; `widths` the bytes of one lane's
    accesses that the disassembly has for a line and kind; `used` the names of all values that something reads;
    `masked` the lines whose accesses have masks in the first IR; `banks` how many banks shared memory has.
    """

    aliases: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    executions: Mapping[int, float]
    widths: Mapping[tuple[int, str], frozenset[int]]
    used: frozenset[str]
    masked: frozenset[int] | None = None
    banks: int = 32

    def layout(self, block: Block) -> Layout | None:
        """Return the register layout of a block, or None when it is not understood."""
        return read_layout(block.encoding, block.shape, self.aliases) if block.shape else None


def pointed_types(seen: Seen) -> list[str]:
    """Return what the addresses of an access of a single element point to, in MLIR's names."""
    signature = seen.operation.types or seen.operation.text
    return re.findall(r"!tt\.ptr<([^<>,]*)", signature)


def read_blocks(types: str) -> list[Block]:
    """Read the tensor, memory-descriptor and scalar types of a type list, with their layouts, in order."""
    found: list[Block] = []
    at = 0
    while match := _BLOCK.search(types, at):
        end = _closing(types, match.start() + types[match.start() :].index("<"))
        element = match[2]
        pointer = element.startswith("!tt.ptr<")
        if pointer:
            element = element[len("!tt.ptr<") :].split(",")[0].rstrip(">")
        shape = tuple(int(n) for n in match[1].split("x") if n)
        rest = types[match.end() : end].lstrip(",; ")
        encoding = rest[: _first_part(rest)].strip()
        if not types[: match.start()].endswith("tt.ptr") and (shape or pointer):
            found.append(Block(shape, element, encoding, pointer))
        at = max(end, match.end())
    return found


def place(seen: Seen, context: Context) -> tuple[int | None, float | None]:
    """Return the line of the loop around an operation, and how often one program runs it."""
    return seen.loop.line if seen.loop else None, context.executions.get(seen.line)


def sunk_place(seen: Seen, context: Context) -> tuple[int | None, float | None]:
    """Return the same for an operation that is the compiler's own: it may have moved into a loop that is not its."""
    loop, executions = place(seen, context)
    if loop is not None and seen.line < loop:
        executions = context.executions.get(loop)
    return loop, executions


def buffer_address(seen: Seen) -> Known:
    """Return the addresses of AMD's buffer operations: a scalar base and a block of offsets."""
    text = seen.operation.text
    at = text.find("[")
    names = seen.operation.operands
    inside = re.findall(r"%[\w.$#-]+", text[at : text.find("]", at)]) if at >= 0 else []
    base = re.findall(r"%[\w.$#-]+", text[:at])[-1:] if at >= 0 else []
    if not inside or not base:
        return UNKNOWN
    pointer, offsets = seen.values[names.index(base[0])], seen.values[names.index(inside[0])]
    return Known(
        None if pointer.base is None or offsets.base is None else pointer.base + offsets.base,
        offsets.strides, offsets.shape, pointer.pointer, None, offsets.varies, offsets.loaded or pointer.loaded,
        common((pointer.divisor, offsets.divisor)),
    )  # fmt: skip


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        if text[i] == "<":
            depth += 1
        elif text[i] == ">" and text[i - 1] != "-":
            depth -= 1
            if depth == 0:
                return i
    return len(text)


def _first_part(text: str) -> int:
    depth = 0
    for i, character in enumerate(text):
        if character in "<{[":
            depth += 1
        elif character in ">}]":
            depth -= 1
        elif character == "," and depth == 0:
            return i
    return len(text)
