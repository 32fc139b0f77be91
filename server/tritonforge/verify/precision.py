"""Does a candidate compute less precisely than the original? Read off Triton's first IR, launch by launch.

The interpreter multiplies in full fp32 whatever a kernel asks for, so that tf32, approximate functions and imprecise
fp8 accumulation never show in results there; they are compared as attributes. The role of a product or a sum is which
parameters its operands were loaded from: other tiles, loop orders and fusions leave it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tritonforge.compilation.dataflow import (
    ARGUMENT,
    LOADS,
    MERGE,
    STORES,
    Node,
    downstream,
    loaded_from,
    pointers,
    read_graph,
    upstream,
)
from tritonforge.compilation.locations import read_locations
from tritonforge.domain.messages import CompiledLaunch
from tritonforge.verify.exact_products import EXACT_IN_FP32, NARROWING, are_exact, format_held, is_in_parts, is_rest
from tritonforge.verify.formats import Format, format_of, lowers, lowest, multiplied_in

_MOVING = (
    "tt.trans tt.reshape tt.expand_dims tt.broadcast tt.splat tt.join tt.split tt.cat tt.gather arith.extf arith.negf "
    "arith.truncf tt.fp_to_fp arith.select arith.bitcast tt.bitcast arith.maximumf arith.minimumf arith.maxnumf "
    "arith.minnumf tt.clampf math.absf math.floor math.ceil"
)
_EXACT = frozenset(_MOVING.split()) | {MERGE}
"""What moves, chooses or converts values; of these only a narrowing conversion rounds."""
_ROUNDING = "arith.addf arith.subf arith.mulf arith.divf arith.remf tt.precise_divf tt.precise_sqrt"
_INEXACT = frozenset(_ROUNDING.split())
_DIVISIONS = {"arith.divf": "tt.precise_divf", "math.sqrt": "tt.precise_sqrt"}
_SAID = {"arith.divf": "divides", "math.sqrt": "takes a square root"}

_FITTING = frozenset(["arith.trunci", "arith.sitofp", "arith.uitofp"])
_BACK = frozenset(["arith.extsi", "arith.extui", "arith.fptosi", "arith.fptoui"])
_CHOOSING = frozenset(["arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "tt.reduce"])
_HOLDS = {"f64": 53, "i8": 8, "i16": 16, "f16": 11, "bf16": 8, "f32": 24}
"""Bits of an integer that a type can hold."""
_NAMES = {"i8": "int8", "i16": "int16", "f16": "fp16", "bf16": "bf16", "f32": "fp32"}

Role = tuple[frozenset[str], ...]


@dataclass(frozen=True)
class Use:
    """One place where precision matters: `kind` says what for, `role` which parameters' elements meet there.

    `exact`: nothing is rounded to `format` there, and products are held by fp32 as they are.
    """

    kind: str
    role: Role
    format: Format
    line: int | None = None
    exact: bool = False


@dataclass
class Attributes:
    """What decides the precision of a program's launches.

    `approximate` are the names of approximate functions; `rough` the operations that have a correctly rounded variant
    which was not taken, `exact` those variants. `imprecise` is the largest number of fp8 products that are added up
    before the sum is promoted to fp32. `through` are the types that wider integers go through and come out of, losing
    what does not fit.
    """

    uses: list[Use] = field(default_factory=list)
    approximate: dict[str, int | None] = field(default_factory=dict)
    rough: dict[str, int | None] = field(default_factory=dict)
    exact: set[str] = field(default_factory=set)
    imprecise: int = 0
    through: dict[str, int | None] = field(default_factory=dict)


def attributes(launches: Iterable[CompiledLaunch], file: str) -> Attributes:
    """Read the attributes of launches compiled with their `ttir`; `file` is the absolute path of the kernels' file."""
    found = Attributes()
    for launch in launches:
        ttir = launch.artefacts.get("ttir", "")
        locations = read_locations(ttir, file)
        for node in read_graph(ttir):
            _note(node, locations.line(node.location), found)
    return found


def lower_precision(original: Attributes, candidate: Attributes) -> str:
    """Return in one sentence where the candidate is less precise than the original, or an empty text.

    A place is compared to those of the same role; where the original has none, to its lowest of that kind, and an
    operation of a kind that the original does not have at all to the lowest format the original computes in.
    """
    for use in candidate.uses:
        rivals = _rivals(use, original.uses)
        worth = EXACT_IN_FP32 if use.exact else use.format
        if rivals and all(lowers(worth, other) for other in rivals):
            return _sentence(use, lowest(rivals))
    for name, line in candidate.approximate.items():
        if name not in original.approximate:
            return f"the candidate uses the approximate {name}{_at(line)}, which the original does not"
    for name, line in candidate.rough.items():
        precise = _DIVISIONS[name]
        if precise in original.exact and precise not in candidate.exact and name not in original.rough:
            return f"the candidate {_SAID[name]} approximately{_at(line)}, where the original rounds correctly"
    for name, line in candidate.through.items():
        if name not in original.through:
            return f"the candidate puts integers through {name}{_at(line)}, which cannot hold them all"
    if candidate.imprecise > original.imprecise and any(u.kind == "multiplies in" for u in original.uses):
        return (
            f"the candidate adds up {candidate.imprecise} fp8 products before the sum is promoted to fp32, the "
            f"original at most {original.imprecise}"
        )
    return ""


def _rivals(use: Use, others: Sequence[Use]) -> list[Format]:
    same = [other for other in others if other.kind == use.kind and other.role == use.role]
    same = same or [other for other in others if other.kind == use.kind]
    if not same and use.kind == "rounds to":
        same = [other for other in others if other.kind in {"computes in", "adds up in"}]
    if not same:
        same = [other for other in others if other.kind == "computes in"]
    return [other.format for other in same]


def _sentence(use: Use, other: Format) -> str:
    if use.kind == "rounds to":
        return f"the candidate rounds to {use.format.name} in between{_at(use.line)}, where the original does not"
    return f"the candidate {use.kind} {use.format.name}{_at(use.line)} where the original uses {other.name}"


def _at(line: int | None) -> str:
    return f" (line {line})" if line else ""


def _note(node: Node, line: int | None, found: Attributes) -> None:
    if node.name.startswith("tt.dot"):
        _note_dot(node, line, found)
    elif node.name in {"tt.reduce", "tt.scan"}:
        if format_ := _summed_in(node):
            found.uses.append(Use("adds up in", (_role(node.operands),), format_, line))
    elif node.name == "tt.atomic_rmw" and " fadd" in f" {node.text}":
        if len(node.operands) > 1 and (format_ := format_of(node.operands[1].element)):
            found.uses.append(Use("adds up in", (loaded_from(node.operands[1]),), format_, line))
    elif node.name in STORES:
        # What is stored where the original stores too is an output: its type is compared with the results.
        if len(node.operands) > 1 and (format_ := format_of(node.operands[1].element)):
            found.uses.append(Use("stores", (pointers(node.operands[0]),), format_, line))
    elif node.name in NARROWING:
        _note_narrowing(node, line, found)
    elif node.name in _FITTING:
        if name := _squeezed(node):
            found.through.setdefault(name, line)
    elif node.name in {"tt.extern_elementwise", "tt.elementwise_inline_asm"}:
        if name := _approximate(node):
            found.approximate.setdefault(name, line)
    elif node.name in _INEXACT or node.name.startswith("math."):
        if node.name not in _EXACT and (format_ := format_of(node.element)):
            found.uses.append(Use("computes in", (loaded_from(node),), format_, line))
        if node.name in _DIVISIONS and node.element == "f32":
            found.rough.setdefault(node.name, line)
        if node.name in _DIVISIONS.values():
            found.exact.add(node.name)


def _note_dot(node: Node, line: int | None, found: Attributes) -> None:
    if len(node.operands) < 2 or len(node.operand_types) < 3:
        return
    formats = multiplied_in(node.name, node.text, [t.element for t in node.operand_types])
    scaled = node.name == "tt.dot_scaled"
    a, b = node.operands[0], node.operands[2 if scaled and len(node.operands) > 4 else 1]
    role: Role = (loaded_from(a), loaded_from(b))
    result = format_of(node.element)
    held: list[Format | None] = []
    sides: list[Use] = []
    for place, (side, operand) in enumerate((("left", a), ("right", b))):
        reached = list(upstream(operand, _is_exact))
        rounded = [format_ for one in reached if (format_ := _rounded_to(one))]
        if rounded and not scaled and is_in_parts(node, place):
            rounded = []
            held.append(format_of(operand.element))
        else:
            held.append(None if rounded else format_held([one for one in reached if not _is_exact(one)]))
        kind = f"rounds the {side} operand of a product to"
        sides += [Use(kind, role, format_, line) for format_ in rounded or [Format.none()]]
    exact = not scaled and are_exact(formats, held)
    found.uses += [Use("multiplies in", role, format_, line, exact) for format_ in formats]
    if result:
        found.uses.append(Use("accumulates in", role, result, line))
    found.uses += sides
    limit = next((int(word) for word in _after(node.text, "maxNumImpreciseAcc = ") if word.isdigit()), 0)
    if node.operand_types[0].element.startswith("f8"):
        found.imprecise = max(found.imprecise, limit)


def _after(text: str, key: str) -> list[str]:
    return text.partition(key)[2].replace(",", " ").replace("}", " ").split()[:1]


def _note_narrowing(node: Node, line: int | None, found: Attributes) -> None:
    format_ = _rounded_to(node)
    if format_ is None:
        return
    for user in downstream(node, _is_exact):
        if is_rest(user) and user.operands[0] is node.operands[0]:
            continue  # what the rounding lost, which is exact
        # Products judge their operands themselves, and what a store writes is an output.
        if user.name in _INEXACT or user.name.startswith("math.") or user.name in {"tt.reduce", "tt.scan"}:
            found.uses.append(Use("rounds to", (loaded_from(node),), format_, line))
            return


def _squeezed(node: Node) -> str:
    """Return the type that integers are converted to if it cannot hold them and they are converted back, else ''."""
    to, source = node.element, node.operands[0].element if node.operands else ""
    bits = int(source[1:]) if source[:1] == "i" and source[1:].isdigit() else 0
    holds = _HOLDS.get(to, bits)
    if holds >= bits:
        return ""
    widened = (one for one in downstream(node, _is_moved) if one.name in _BACK)
    return _NAMES.get(to, to) if any(True for _ in widened) else ""


def _is_moved(node: Node) -> bool:
    return node.name in _EXACT or node.name in _CHOOSING


def _is_exact(node: Node) -> bool:
    return node.name in _EXACT


def _rounded_to(node: Node) -> Format | None:
    """Return the format that a narrowing conversion rounds to; None when it rounds nothing, or is none."""
    to = format_of(node.element) if node.name in NARROWING else None
    if to is None or not node.operands:
        return None
    source = format_of(node.operands[0].element)
    if source is None or not lowers(to, source):
        return None
    for one in upstream(node.operands[0], _is_exact):
        held = format_of(one.element)
        if one.name in _EXACT or one.name in {"arith.constant", ARGUMENT} or held is None:
            continue
        if one.name not in LOADS or lowers(to, held):
            return to
    return None


def _summed_in(node: Node) -> Format | None:
    """Return the lowest format in which a reduction adds or multiplies; None where it only chooses."""
    formats = [format_ for one in node.inner if one.name in _INEXACT or one.name.startswith("math.")
               if (kind := one.type()) is not None and (format_ := format_of(kind.element))]  # fmt: skip
    return lowest(formats) if formats else None


def _role(operands: Sequence[Node]) -> frozenset[str]:
    return frozenset().union(*(loaded_from(operand) for operand in operands))


def _approximate(node: Node) -> str:
    text = node.text
    if node.name == "tt.extern_elementwise":
        symbol = text.partition('symbol = "')[2].partition('"')[0]
        return symbol if "fast" in symbol or "native" in symbol or "approx" in symbol else ""
    words = text.partition('"')[2].partition('"')[0].replace("\\0A", " ").replace(";", " ").split()
    return next((word for word in words if ".approx" in word or ".ftz" in word), "")
