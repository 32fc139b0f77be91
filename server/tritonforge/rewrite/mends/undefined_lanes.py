"""TF502: `other=` for a masked load, where the kernel shows which value leaves its result alone."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

from tritonforge.rewrite.mends.mend import Mend, Place

_ZERO, _LOWEST, _HIGHEST = "0.0", '-float("inf")', 'float("inf")'
_WANTED = {"sum": _ZERO, "dot": _ZERO, "cumsum": _ZERO, "max": _LOWEST, "min": _HIGHEST}
_MIXING = frozenset(
    {
        *("sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce", "reduce_or", "cumsum", "cumprod"),
        *("associative_scan", "sort", "topk", "histogram", "gather"),
    }
)
"""What mixes lanes, as a method or as a function; what it wants in masked lanes is not always known here."""


def mend(place: Place) -> Iterator[Mend]:
    """Yield the mend of every load on the line that has a mask and no `other`."""
    for access in place.kernel.accesses:
        if (
            access.kind != "load"
            or access.mask is None
            or access.other is not None
            or access.range.start.line > place.line
        ):
            continue
        call = place.call_at(access.range)
        if call is None or not place.on_line(call) or any(k.arg in {None, "other"} for k in call.keywords):
            continue
        value = identity(place, call)
        if value is not None:
            yield Mend("TF502", f"other={value} for the load", place.with_keywords(call, [("other", value)]))


def identity(place: Place, load: ast.Call) -> str | None:
    """Return what fills masked lanes so that they change no reduction; None where the text does not show it.

    What was loaded is followed through names. Products and casts of 0 are 0. The exponential of minus infinity less
    something is 0, which sums leave out. Anything else that reaches a reduction ends the search.
    """
    reached = _Reached(place)
    target = _target(place, load)
    if target is None:
        return None
    wanted = reached.wanted(target, load)
    if len(wanted) != 1:
        return None
    value = wanted.pop()
    # Infinity is no integer: only where the element is surely a floating-point number.
    return value if value == _ZERO or (value is not None and reached.is_float(target, load)) else None


def _target(place: Place, load: ast.Call) -> str | None:
    """Return the name that the load, or a cast of it, is assigned to."""
    for outer in place.scopes.ancestors(load):
        if isinstance(outer, ast.Assign):
            target = outer.targets[0]
            return target.id if len(outer.targets) == 1 and isinstance(target, ast.Name) else None
        if not (isinstance(outer, ast.Attribute) and outer.attr == "to") and not _is_cast(outer):
            return None
    return None


def _is_cast(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to"


@dataclass
class _Known:
    """Names by what they are where a load is masked off.

    `copies` are what was loaded, `products` 0 where that is 0, `zeroed` 0 where that is minus infinity; of the rest
    nothing is known.
    """

    copies: set[str]
    products: set[str] = field(default_factory=set)
    zeroed: set[str] = field(default_factory=set)
    tainted: set[str] = field(default_factory=set)

    @property
    def all(self) -> set[str]:
        """Every name that comes from the load."""
        return self.copies | self.products | self.zeroed | self.tainted

    def touched_by(self, node: ast.AST) -> set[str]:
        """Return the names in `node` that come from the load."""
        return {n.id for n in _names(node)} & self.all

    def forget(self, names: set[str]) -> None:
        """Leave names out that are set anew."""
        for one in (self.copies, self.products, self.zeroed, self.tainted):
            one.difference_update(names)


class _Reached:
    """Follows a loaded value to the reductions of the kernel, in the order of the text."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def wanted(self, name: str, load: ast.Call) -> set[str | None]:
        """Return the values that the reductions want in masked lanes; None among them where that is not known."""
        known = _Known({name})
        found: set[str | None] = set()
        statements = (
            n for n in self.place.nodes() if isinstance(n, ast.Assign | ast.AugAssign | ast.Expr | ast.Return)
        )
        for statement in sorted(statements, key=lambda n: (n.lineno, n.col_offset)):
            value = statement.value
            if value is None or value.lineno < load.lineno or load in ast.walk(value):
                continue
            for call in ast.walk(value):
                reduction = self.place.language(call)
                if reduction in _WANTED and isinstance(call, ast.Call):
                    given = [*call.args[:2], *(k.value for k in call.keywords)]
                    found |= {self._of(reduction, one, known) for one in given if known.touched_by(one)}
                elif self._mixes(call) and known.touched_by(call):
                    found.add(None)
            if isinstance(statement, ast.Assign):
                self._take(statement, {n.id for t in statement.targets for n in _names(t)}, value, known)
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                old = ast.Name(statement.target.id, ast.Load())
                self._take(statement, {old.id}, ast.BinOp(old, statement.op, value), known)
        return found

    def _mixes(self, call: ast.AST) -> bool:
        """Tell whether a call mixes lanes in a way that is not looked into: another reduction, a method, a helper."""
        if not isinstance(call, ast.Call):
            return False
        if isinstance(call.func, ast.Attribute):
            return call.func.attr in _MIXING
        return isinstance(call.func, ast.Name) and call.func.id not in dir(builtins)

    def _take(self, statement: ast.stmt, targets: set[str], value: ast.expr, known: _Known) -> None:
        """Note what a statement that sets `targets` makes of known names."""
        reduced = {id(n) for one in ast.walk(value) if self.place.language(one) in _WANTED for n in ast.walk(one)}
        names = {n.id for n in _names(value) if id(n) not in reduced} & known.all
        zeros = known.copies | known.products
        kind = known.tainted
        if not names:
            # Set anew, a name has nothing of the load any more, unless a branch decides that.
            if any(isinstance(one, ast.If) for one in self.place.scopes.ancestors(statement)):
                targets &= known.all
            else:
                known.forget(targets)
                return
        elif _copy(value, known.copies):
            kind = known.copies
        elif self._exponential(value, known.copies) or (_product(value, known.zeroed) and names <= known.zeroed):
            kind = known.zeroed
        elif _product(value, zeros) and names <= zeros:
            kind = known.products
        known.forget(targets)
        kind |= targets

    def _of(self, reduction: str, argument: ast.expr, known: _Known) -> str | None:
        names, zeros = known.touched_by(argument), known.copies | known.products
        if _copy(argument, known.copies):
            return _WANTED[reduction]
        if _WANTED[reduction] != _ZERO:
            return None
        if _product(argument, zeros) and names <= zeros:
            return _ZERO
        from_lowest = self._exponential(argument, known.copies) or _product(argument, known.zeroed)
        return _LOWEST if from_lowest and not names & (known.products | known.tainted) else None

    def _exponential(self, node: ast.expr, copies: set[str]) -> bool:
        """Tell whether a value is `exp(x - …)` of a copy `x`."""
        if not isinstance(node, ast.Call) or self.place.language(node) not in {"exp", "exp2"} or len(node.args) != 1:
            return False
        inner = node.args[0]
        if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub) or not _copy(inner.left, copies):
            return False
        # Less its own maximum, or less anything that is made of something else.
        names = {n.id for n in ast.walk(inner.right) if isinstance(n, ast.Name)}
        return self.place.language(inner.right) == "max" or not names & copies

    def is_float(self, name: str, load: ast.Call) -> bool:
        """Tell whether the loaded values are cast to, or used as, floating-point numbers."""
        texts = [ast.unparse(n) for n in self.place.nodes() if isinstance(n, ast.Call)]
        casts = (f"{ast.unparse(load)}.to(tl.float", f"{name}.to(tl.float")
        uses = (f"tl.exp({name} ", f"tl.exp2({name} ", f"tl.exp({name})", f"tl.log({name})")
        return any(text.startswith((*casts, *uses)) for text in texts)


def _names(node: ast.AST) -> list[ast.Name]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Name)]


def _copy(node: ast.expr, names: set[str]) -> bool:
    """Tell whether a value is one of `names`, cast or given further axes."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Subscript):
        return _copy(node.value, names)
    return (
        _is_cast(node)
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _copy(node.func.value, names)
    )


def _product(node: ast.expr, names: set[str]) -> bool:
    """Tell whether a value is 0 where one of `names` is: a product with it as a factor."""
    if _copy(node, names):
        return True
    if _is_cast(node) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _product(node.func.value, names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _product(node.left, names) or _product(node.right, names)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _product(node.operand, names)
    return False
