"""A reader of MLIR's pretty form, as far as Triton's first IR uses it: operations, regions, types, locations.

Line based, because the printer puts one operation on a line; what it does not understand it skips, and it never raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

_OPERATION = re.compile(r'^(?:(%[^=]*?) = )?"?([a-zA-Z_][\w]*(?:\.[\w]+)+|module)"?(?=[\s("<{@%:]|$)(.*)$')
_VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(!tt\.ptr<[^<>]*>|[A-Za-z]\w*)")
_SCALAR = re.compile(r"^(!tt\.ptr<[^<>]*>|[A-Za-z]\w*)$")
_DESCRIPTOR = re.compile(r"!tt\.tensordesc<(?:tensor<)?((?:\d+x)*)([A-Za-z]\w*)")
_BLOCK = re.compile(r"^\^(\w+)(?:\((.*)\))?:")
_BITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Type:
    """A tensor or scalar type: `shape` is empty for a scalar; `element` is named as in `f16`, `i32`, `ptr<f16>`."""

    shape: tuple[int, ...]
    element: str

    @property
    def elements(self) -> int:
        """How many elements a value has."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def pointer(self) -> bool:
        """Whether the elements are addresses."""
        return self.element.startswith("ptr<")

    @property
    def size(self) -> float:
        """Bytes of one element; of what an address points to, for pointers."""
        name = self.element[4:].split(",")[0].rstrip(">") if self.pointer else self.element
        return element_bytes(name)


@dataclass
class Operation:
    """One operation.

    `text` is what stands between its name and its types, `types` the text of those, `attributes` what stands behind its
    last region. `regions` holds the operations of each region in order, blocks one after the other; `arguments` the
    names of the values that each region's first block takes.
    """

    name: str
    results: tuple[str, ...]
    text: str
    types: str = ""
    location: str = ""
    attributes: str = ""
    regions: list[list[Operation]] = field(default_factory=list)
    arguments: list[tuple[str, ...]] = field(default_factory=list)

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Names of the values it reads, in order."""
        return tuple(_VALUE.findall(self.text))

    def type(self, index: int = -1) -> Type | None:
        """Return the `index`-th type of its type list (the last one by default: the result's), or None."""
        found = read_types(self.types)
        return found[index] if found and -len(found) <= index < len(found) else None


def element_bytes(name: str) -> float:
    """Return the bytes of an element type by name: `f16` → 2, `bf16` → 2, `i1` → 1, `f8E4M3FN` → 1; 4 when unknown."""
    if name.startswith("f8") or name == "i1":
        return 1.0
    bits = _BITS.search(name)
    return int(bits[0]) / 8 if bits else 8.0 if name == "index" else 4.0


def read_types(text: str) -> list[Type]:
    """Read every tensor, descriptor and scalar type of a type list, in order."""
    return list(_types(text))


@lru_cache(maxsize=4096)
def _types(text: str) -> tuple[Type, ...]:
    found: list[Type] = []
    for part in _split_types(text):
        tensor = _DESCRIPTOR.search(part) or _TENSOR.search(part)
        if tensor:
            shape = tuple(int(n) for n in tensor[1].split("x") if n)
            found.append(Type(shape, tensor[2].removeprefix("!tt.")))
        elif (scalar := _SCALAR.match(part)) is not None:
            found.append(Type((), scalar[1].removeprefix("!tt.")))
    return tuple(found)


@lru_cache(maxsize=4)
def read_operations(text: str) -> list[Operation]:
    """Read a module's operations; those of its functions are in their regions. Not to be changed: they are shared."""
    root = Operation("root", (), "", regions=[[]])
    open_operations = [root]
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith(("#", "//")):
            continue
        block = _BLOCK.match(line)
        if block:
            operation = open_operations[-1]
            if block[2] and len(operation.arguments) < len(operation.regions):
                operation.arguments.append(tuple(_VALUE.findall(re.sub(r"loc\([^%]*\)", "", block[2]))))
            continue
        if line.startswith("}"):
            _close(line, open_operations)
            continue
        found = _OPERATION.match(line)
        if not found:
            _open_further_region(line, open_operations)
            continue
        operation = _operation(found[1], found[2], found[3])
        open_operations[-1].regions[-1].append(operation)
        if line.endswith("{"):
            operation.regions.append([])
            open_operations.append(operation)
    return root.regions[0]


def _open_further_region(line: str, open_operations: list[Operation]) -> None:
    """Take `default {` or `partition0(%a: …) num_warps(4) {` for a further region of the operation before it."""
    siblings = open_operations[-1].regions[-1]
    if not line.endswith("{") or not siblings:
        return
    siblings[-1].regions.append([])
    siblings[-1].arguments.append(tuple(_VALUE.findall(re.sub(r"loc\([^%]*?\)", "", line))))
    open_operations.append(siblings[-1])


def _operation(results: str | None, name: str, rest: str) -> Operation:
    location = ""
    opens = rest.endswith("{")
    if not opens:
        at = rest.rfind(" loc(")
        if at >= 0 and rest.endswith(")"):
            location, rest = rest[at + 1 :], rest[:at]
    text, types = _split_signature(rest)
    return Operation(name, _results(results), text, types, location)


def _results(text: str | None) -> tuple[str, ...]:
    names: list[str] = []
    for part in (text or "").split(","):
        name, _, count = part.strip().partition(":")
        if not name:
            continue
        names.extend([f"{name}#{i}" for i in range(int(count))] if count.isdigit() else [name])
    return tuple(names)


def _close(line: str, open_operations: list[Operation]) -> None:
    if len(open_operations) < 2:
        return
    operation = open_operations[-1]
    if line.endswith("{"):  # `} else {`, `} do {`, `}, {`
        operation.regions.append([])
        block = re.search(r"\^\w+\((.*)\)", line)
        if block:
            operation.arguments.append(tuple(_VALUE.findall(block[1])))
        return
    open_operations.pop()
    at = line.rfind("loc(")
    if at >= 0 and line.endswith(")"):
        operation.location = line[at:]
        line = line[:at]
    tail = line.lstrip("})").strip()
    operation.attributes = tail
    if tail.startswith(":"):
        operation.types = tail[1:].strip()
    elif " : " in tail:
        operation.types = tail.rsplit(" : ", 1)[1]


def _split_signature(text: str) -> tuple[str, str]:
    """Split at the last ` : ` outside brackets: before it operands and attributes, behind it types."""
    depth, at = 0, -1
    for i, character in enumerate(text):
        if character in "{[(<":
            depth += 1
        elif character in "}])" or (character == ">" and text[i - 1] != "-"):
            depth -= 1
        elif character == ":" and depth == 0 and text[i - 1 : i] == " " and text[i + 1 : i + 2] == " ":
            at = i
    return (text[: at - 1].strip(), text[at + 2 :].strip()) if at > 0 else (text.strip(), "")


def _split_types(text: str) -> list[str]:
    """Split `A, B -> C`, `A * B -> C`, `(A, B) -> C`, `A to B` into their parts."""
    parts: list[str] = []
    depth, current = 0, ""
    for i, character in enumerate(text):
        if character == "<":
            depth += 1
        elif character == ">" and text[i - 1 : i] != "-":
            depth -= 1
        if depth == 0 and (character in ",()*" or text.startswith((" to ", "->"), i)):
            parts.append(current)
            current = ""
            continue
        current += character
    parts.append(current)
    cleaned = (part.strip().removeprefix(">").removeprefix("to ").strip() for part in parts)
    return [part for part in cleaned if part]
