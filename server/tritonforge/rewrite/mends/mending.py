"""The mends of each finding about correctness."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Mapping

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.bounds import unmasked_beside_masked
from tritonforge.diagnosis.signals.replays import accumulating
from tritonforge.domain.kernel import Kernel, Product
from tritonforge.domain.source import Edit
from tritonforge.rewrite.mends import undefined_lanes
from tritonforge.rewrite.mends.mend import Mend, Place
from tritonforge.rewrite.rules.launch_values import called_name


def mends(code: str, line: int, kernel: Kernel, text: str, message: str = "") -> tuple[Mend, ...]:
    """Return the certain mends of the finding `code` on `line` of `kernel`, whose file reads `text`; often none.

    `message` is the finding's: some codes stand for several faults.

    Never raises on odd source. A mend of text that it was applied to is not offered again.
    """
    find = _MENDS.get(code)
    if find is None:
        return ()
    try:
        return tuple(find(Place(kernel, text, line, message)))
    except SyntaxError:
        return ()


def _mask(place: Place) -> Iterator[Mend]:
    """TF503: the mask of another access at the same offsets."""
    for seen in unmasked_beside_masked(Case(place.kernel)):
        call, model = place.call_at(seen.access.range), place.call_at(seen.other.range)
        if call is None or model is None or not place.on_line(call) or not place.language(call):
            continue
        mask = next((k.value for k in model.keywords if k.arg == "mask"), None)
        if mask is None or not place.known_before(mask, call):
            continue
        pairs = [("mask", place.source.segment(mask))]
        if seen.access.kind == "load" and seen.access.feeds:
            other = undefined_lanes.identity(place, call)
            if other is None:
                if set(seen.access.feeds) & {"reduction", "scan", "dot"}:
                    continue  # masked lanes would reach a result, and nothing says what they should be
            else:
                pairs.append(("other", other))
        title = f"mask={pairs[0][1]}, as the access of {seen.other.pointer} has it"
        yield Mend("TF503", title, place.with_keywords(call, pairs))


def _wide_offset(place: Place) -> Iterator[Mend]:
    """TF501: the index in 64 bits before it is multiplied."""
    narrow = [p for reach in place.kernel.reaches or () for p in reach.products if p.narrow and p.line == place.line]
    for product in dict.fromkeys(narrow):
        found = {id(node): node for node in place.nodes() if _multiplies(place, node, product)}
        indices = [_index(place, node) for node in found.values()]
        if len(indices) != 1 or indices[0] is None:
            continue
        index = indices[0]
        words = place.source.segment(index)
        plain = isinstance(index, ast.Name | ast.Call | ast.Subscript | ast.Attribute)
        start, end = place.source.span(index)
        bracketed = place.source.text[start - 1 : start] == "(" and place.source.text[end : end + 1] == ")"
        wide = f"{words}.to(tl.int64)" if plain else f"({words}).to(tl.int64)"
        edit = place.source.replace(index, wide)
        if not plain and bracketed:
            edit = place.source.insert(end + 1, ".to(tl.int64)")
        yield Mend("TF501", f"{words} in 64 bits before it is multiplied", (edit,))


def _multiplies(place: Place, node: ast.AST, product: Product) -> bool:
    """Tell whether a node on the line multiplies an index by the parameters of a product."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult) or not place.on_line(node):
        return False
    parameters = {p.name for p in place.kernel.parameters}
    named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & parameters
    return bool(named) and named == set(product.factors) & parameters and ".to(tl.int64)" not in ast.unparse(node)


def _index(place: Place, node: ast.AST) -> ast.expr | None:
    """Return the factor that is no parameter of the kernel: of several, the one that is multiplied first."""
    assert isinstance(node, ast.BinOp)
    parameters = {p.name for p in place.kernel.parameters}
    unrolled = {loop.variable for loop in place.kernel.loops if loop.kind == "static_range"}

    def is_index(side: ast.expr) -> bool:
        names = {n.id for n in ast.walk(side) if isinstance(n, ast.Name)} - {"tl", "triton"}
        calls = any(isinstance(n, ast.Call) for n in ast.walk(side))
        return bool(names - parameters or calls) and not names & unrolled

    sides = [side for side in (node.left, node.right) if is_index(side)]
    if len(sides) != 1:
        return None
    first = sides[0] if isinstance(sides[0], ast.BinOp) and isinstance(sides[0].op, ast.Mult) else None
    return _index(place, first) if first is not None else sides[0]


def _restored(place: Place) -> Iterator[Mend]:
    """TF504: what an autotuner's runs change is put back between them."""
    tuner = place.kernel.autotune
    seen = accumulating(Case(place.kernel))
    call = place.call_at(tuner.range) if tuner is not None else None
    if not seen or call is None or called_name(call) != "autotune":
        return
    names = ", ".join(f'"{one.pointer}"' for one in seen)
    given = next((k.value for k in call.keywords if k.arg == "restore_value"), None)
    edits: tuple[Edit, ...]
    if isinstance(given, ast.List) and given.elts:
        end = place.source.span(given.elts[-1])[1]
        edits = (place.source.insert(end, f", {names}"),)
    elif given is None and all(k.arg is not None for k in call.keywords):
        edits = place.with_keywords(call, [("restore_value", f"[{names}]")])
    else:
        return
    yield Mend("TF504", f"restore_value=[{names}] for the autotuner", edits)


def _exact_dot(place: Place) -> Iterator[Mend]:
    """TF505: a dot of float32 operands in float32."""
    if "tf32" not in place.message:
        return
    for dot in place.kernel.dots:
        call = place.call_at(dot.range)
        if call is None or not place.on_line(call) or place.language(call) != "dot":
            continue
        if (
            any(k.arg in {None, "input_precision", "allow_tf32", "out_dtype"} for k in call.keywords)
            or len(call.args) > 3
        ):
            continue
        edits = place.with_keywords(call, [("input_precision", '"ieee"')])
        yield Mend("TF505", 'input_precision="ieee": float32 as PyTorch multiplies it, and slower', edits)


_PRECISIONS = {"True": '"tf32"', "False": '"ieee"'}


def _renamed(place: Place) -> Iterator[Mend]:
    """TF601: `allow_tf32` by the name that it has now."""
    for node in place.nodes():
        if place.language(node) != "dot" or not isinstance(node, ast.Call) or not place.on_line(node):
            continue
        keyword = next((k for k in node.keywords if k.arg == "allow_tf32"), None)
        new = _PRECISIONS.get(ast.unparse(keyword.value)) if keyword is not None else None
        if keyword is None or new is None or any(k.arg == "input_precision" for k in node.keywords):
            continue
        start, end = place.source.span(keyword)
        edit = dataclasses.replace(place.source.insert(start, f"input_precision={new}"), end=end)
        yield Mend("TF601", f"input_precision={new} instead of {ast.unparse(keyword)}", (edit,), changes_results=False)


_MENDS: Mapping[str, Callable[[Place], Iterator[Mend]]] = {
    "TF501": _wide_offset,
    "TF502": undefined_lanes.mend,
    "TF503": _mask,
    "TF504": _restored,
    "TF505": _exact_dot,
    "TF601": _renamed,
}
CODES = frozenset(_MENDS)
"""Findings that may have a mend."""
