"""Where a value at a launch comes from, and the exact place where it can be edited."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tritonforge.analysis.names import dotted
from tritonforge.analysis.scopes import Binding, ModuleIndex, Scope
from tritonforge.analysis.text import SourceText
from tritonforge.domain.kernel import LaunchValue, ValueSource
from tritonforge.domain.source import Range

_DEPTH = 5


@dataclass(frozen=True)
class _Origin:
    source: ValueSource
    text: str
    place: Range | None


class Origins:
    """Follows expressions of one file to where they are set."""

    def __init__(self, index: ModuleIndex, text: SourceText) -> None:
        self._index = index
        self._text = text

    def launch_value(self, node: ast.expr, scope: Scope) -> LaunchValue:
        """Describe the value of `node`, which stands at a launch in `scope`.

        `text` is the source of the place where the value is set when that is one place, else of `node`.
        """
        found = self._follow(node, scope, _DEPTH, at_launch=True)
        return LaunchValue(found.text, found.source, self._text.range(node), found.place)

    def _follow(self, node: ast.expr, scope: Scope, depth: int, *, at_launch: bool) -> _Origin:
        here = self._text.range(node)
        text = self._text.segment(node)
        if is_literal(node):
            return _Origin("literal", text, here)
        if isinstance(node, ast.Name) and depth:
            return self._follow_name(node, scope, depth - 1)
        if isinstance(node, ast.Attribute) and depth:
            return self._follow_attribute(node, scope, depth - 1)
        if self._rounds_up(node, scope):
            return _Origin("next_power_of_2", text, here)
        if isinstance(node, ast.Call):
            return _Origin("call", text, here)
        if not at_launch and _is_arithmetic(node):
            return _Origin("literal", text, here)
        if isinstance(node, ast.BinOp) and self._counts(node, scope):
            return _Origin("loop", text, here)
        return _Origin("expression", text, here)

    def _follow_name(self, node: ast.Name, scope: Scope, depth: int) -> _Origin:
        unknown = _Origin("expression", node.id, None)
        found = scope.lookup(node.id)
        if found is None:
            return unknown
        owner, bindings = found
        if len(bindings) != 1:
            return _Origin("parameter", node.id, None) if _only_defaulted(bindings) else unknown
        binding = bindings[0]
        if self._counts(node, scope):
            return _Origin("loop", node.id, None)
        if binding.kind == "parameter":
            place = self._text.range(binding.value) if binding.value is not None else None
            return _Origin("parameter", node.id if binding.value is None else self._text.segment(binding.value), place)
        if binding.kind == "import":
            return _Origin("module", node.id, None)
        if binding.kind != "assign" or binding.value is None:
            return unknown
        if binding.element:
            return self._element(binding, owner)
        set_at = self._follow(binding.value, owner, depth, at_launch=False)
        kind: ValueSource = "local" if owner.is_function else "module"
        if set_at.source == "literal" or (kind == "module" and set_at.source in ("call", "expression")):
            return _Origin(kind, set_at.text, set_at.place)
        if set_at.source == "expression" and set_at.place is None:  # the name it was assigned from is not one value
            return _Origin(kind, self._text.segment(binding.value), self._text.range(binding.value))
        return set_at

    def _element(self, binding: Binding, owner: Scope) -> _Origin:
        """A name out of a tuple: `BLOCK, num_warps = calculate_settings(n)`, `M, N = x.shape`."""
        assert binding.value is not None
        if self._rounds_up(binding.value, owner):
            return _Origin("next_power_of_2", self._text.segment(binding.value), None)
        if isinstance(binding.value, ast.Call) and not _is_size(binding.value):
            return _Origin("call", self._text.segment(binding.value), None)
        return _Origin("expression", self._text.segment(binding.value), None)

    def _follow_attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> _Origin:
        """Follow `Config.BLOCK` or `self.BLOCK` to a class-level constant of this file."""
        text = self._text.segment(node)
        unknown = _Origin("expression", text, self._text.range(node))
        if not isinstance(node.value, ast.Name):
            return unknown
        owner: Scope | None = None
        if node.value.id in ("self", "cls"):
            inside = scope.function()
            owner = inside.parent if inside is not None else None
        else:
            found = scope.lookup(node.value.id)
            for binding in found[1] if found is not None else []:
                if binding.kind == "class":
                    owner = self._index.scopes.get(id(binding.node))
        if owner is None or not isinstance(owner.node, ast.ClassDef):
            return unknown
        bindings = owner.bindings.get(node.attr, [])
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None or bindings[0].element:
            return unknown
        if self._index.attributes.get(node.attr):  # also set on instances
            return unknown
        set_at = self._follow(bindings[0].value, owner, depth, at_launch=False)
        return _Origin("module", set_at.text, set_at.place) if set_at.source == "literal" else set_at

    def is_true_size(self, node: ast.expr, scope: Scope, depth: int = 2 * _DEPTH) -> bool:
        """Tell whether an expression is the extent of a tensor or arithmetic on extents, without any rounding."""
        return self._sized(node, scope, depth) is True

    def _sized(self, node: ast.expr, scope: Scope, depth: int) -> bool | None:
        """Return True for an extent, None for a neutral number, False for anything else."""
        if depth == 0:
            return False
        if isinstance(node, ast.Constant):
            return None if isinstance(node.value, int) else False
        if isinstance(node, ast.Attribute):
            return node.attr in ("shape", "ndim")
        if isinstance(node, (ast.Subscript, ast.Starred)):
            return self._sized(node.value, scope, depth - 1)
        if isinstance(node, ast.Call):
            method = isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "stride", "numel", "dim")
            return method or (isinstance(node.func, ast.Name) and node.func.id == "len")
        if isinstance(node, (ast.BinOp, ast.Tuple, ast.IfExp)):
            parts: list[ast.expr] = node.elts if isinstance(node, ast.Tuple) else []
            if isinstance(node, ast.BinOp):
                parts = [node.left, node.right]
            elif isinstance(node, ast.IfExp):
                parts = [node.body, node.orelse]
            kinds = [self._sized(part, scope, depth - 1) for part in parts]
            return False if False in kinds else True if True in kinds else None
        if isinstance(node, ast.Name):
            found = scope.lookup(node.id)
            if found is not None and [b.kind for b in found[1]] == ["parameter"]:
                return None  # whatever the caller gives, an extent divided by it is no free choice
            values = [b.value for b in found[1] if b.kind == "assign" and b.value is not None] if found else []
            if found is None or not values or len(values) != len(found[1]):
                return False
            kinds = [self._sized(value, found[0], depth - 1) for value in values]
            return False if False in kinds else True if True in kinds else None
        return False

    def _counts(self, node: ast.expr, scope: Scope) -> bool:
        """Tell whether a name in an expression counts the rounds of a loop whose bounds are not written out."""
        for inner in ast.walk(node):
            found = scope.lookup(inner.id) if isinstance(inner, ast.Name) else None
            for binding in found[1] if found is not None and len(found[1]) == 1 else []:
                if binding.kind != "loop" or not isinstance(binding.value, ast.Call):
                    continue
                path = dotted(binding.value.func, scope)
                if path == "range" and not all(is_literal(a) for a in binding.value.args):
                    return True
        return False

    def _rounds_up(self, node: ast.expr, scope: Scope) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                path = dotted(inner.func, scope)
                if path is not None and path.rpartition(".")[2] in ("next_power_of_2", "next_power_of_two"):
                    return True
        return False


def is_literal(node: ast.expr) -> bool:
    """Tell whether an expression is a literal value: a number with its sign, a string, a bool, None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Constant)


def _is_arithmetic(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_arithmetic(node.left) and _is_arithmetic(node.right)
    return is_literal(node)


def _is_size(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "stride")


def _only_defaulted(bindings: list[Binding]) -> bool:
    """`def f(x, block=None): if block is None: block = …`: still the caller's to give."""
    return bindings[0].kind == "parameter"
