"""What each of the language's functions does to values: the part of the flow that knows Triton's vocabulary."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.flow_memory import MemoryFlow
from tritonforge.analysis.names import (
    ATOMICS,
    DOTS,
    PROGRAM,
    REDUCTIONS,
    SCANS,
    SLOW_MATH,
    language_name,
)
from tritonforge.analysis.values import (
    NO_LOADS,
    NONE,
    SCALAR,
    SOME_BLOCK,
    Value,
    elementwise,
    reduced_rank,
)

_SHAPED = frozenset(["zeros", "full", "empty", "ones"])
_RESHAPED = frozenset(["reshape", "view", "broadcast_to"])
_SAME = frozenset(["to", "cast", "multiple_of", "max_contiguous", "max_constancy", "constexpr", "to_tensor"])
_SAME |= frozenset(["trans", "permute", "flip", "advance", "zeros_like", "full_like", "ravel", "swizzle2d"])
_SILENT = frozenset(["static_assert", "static_print", "device_print", "device_assert", "debug_barrier", "assume"])
_DESCRIPTOR_LOADS = frozenset(["load_tensor_descriptor", "_experimental_descriptor_load", "descriptor_load"])
_DESCRIPTOR_STORES = frozenset(["store_tensor_descriptor", "_experimental_descriptor_store", "descriptor_store"])
_DESCRIPTORS = frozenset(["make_tensor_descriptor", "_experimental_make_tensor_descriptor", "make_block_ptr"])
_BUILTINS = frozenset(["min", "max", "abs", "int", "float", "bool", "len", "round", "isinstance", "print", "tuple"])
_TELLING = PROGRAM | SLOW_MATH | ATOMICS | _DESCRIPTORS
"""Names that mean the same wherever they were imported from."""


class CallFlow(MemoryFlow):
    """The calls of a flow; its memory accesses are in `flow_memory`, the rest of it in `flow`."""

    def inline(self, helper: JitFunction, node: ast.Call, args: list[Value], keywords: Mapping[str, Value]) -> Value:
        """Return what a helper returns for these arguments."""
        raise NotImplementedError

    def call(self, node: ast.Call) -> Value:
        """Return the value of a call, noting what it does."""
        func = node.func
        if isinstance(func, ast.Name):
            if func.id in self.env:
                return self._unknown_call(node)
            return self._named_call(node, self.path(func), func.id)
        if isinstance(func, ast.Attribute):
            root: ast.expr = func
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id not in self.env:
                path = self.path(func)
                if path is not None:
                    return self._named_call(node, path, self.text.segment(func))
            return self._language_call(node, func.attr, [func.value, *node.args], method=True)
        self.eval(func)
        return self._unknown_call(node)

    def _named_call(self, node: ast.Call, path: str | None, written: str) -> Value:
        name = language_name(path)
        if name is not None:
            return self._language_call(node, name, list(node.args), method=False)
        helper = self._helper(node.func)
        if helper is not None:
            self.facts.helpers[written] = helper.node
            args = [self.eval(a) for a in node.args]
            return self.inline(helper, node, args, {k.arg: self.eval(k.value) for k in node.keywords if k.arg})
        if path in _BUILTINS or path is None:
            value = self._unknown_call(node)
            return value._replace(static=all(self.eval(a).static for a in node.args))
        last = path.rpartition(".")[2]
        if last not in PROGRAM:
            self.facts.helpers.setdefault(written, None)
        if last in _TELLING or "libdevice" in path:  # a project's own wrapper of the language's function
            return self._language_call(node, last, list(node.args), method=False)
        value = self._unknown_call(node)
        return value._replace(bases=self.eval(node.args[0]).bases if node.args else ())

    def _helper(self, func: ast.expr) -> JitFunction | None:
        if not isinstance(func, ast.Name):
            return None
        found = self.scope.lookup(func.id)
        if found is None:
            return None
        for binding in reversed(found[1]):
            if binding.kind == "function" and id(binding.node) in self.jits:
                return self.jits[id(binding.node)]
            if binding.kind == "assign" and isinstance(binding.value, ast.Call) and binding.value.args:
                return self._helper(binding.value.args[0])
        return None

    def _unknown_call(self, node: ast.Call) -> Value:
        values = [self.eval(a) for a in node.args] + [self.eval(k.value) for k in node.keywords]
        for value in values:
            if value.bare:
                self.facts.uses[value.bare].add("argument")
        result = elementwise(values)
        rank = result.rank if result.rank == 0 or result.rank is None else SOME_BLOCK
        return result._replace(rank=rank, static=False)

    # --- the language -----------------------------------------------------------------------------------------------

    def _language_call(self, node: ast.Call, name: str, operands: list[ast.expr], *, method: bool) -> Value:
        if name in _SILENT:
            return SCALAR
        named = {k.arg: k.value for k in node.keywords if k.arg is not None}
        if name in _DESCRIPTOR_LOADS or (method and name in ("load", "gather") and self._is_descriptor(operands)):
            return self._access(node, "load", operands, {}, method=True)
        if name in _DESCRIPTOR_STORES or (method and name in ("store", "scatter")):
            return self._access(node, "store", operands, {}, method=True)
        if name == "load":
            return self._access(node, "load", operands, named, method=False)
        if name == "store":
            return self._access(node, "store", operands, named, method=False)
        args = [self.eval(a) for a in operands]
        keywords = {k: self.eval(v) for k, v in named.items()}
        everything = [*args, *keywords.values()]
        if name == "program_id":
            return self._program_id(operands, named)
        if name == "num_programs":
            return SCALAR
        if name == "arange":
            for value in everything:
                self._sizes_block(value)
            return Value(rank=1, sizes=NONE)
        if name in _SHAPED:
            return self._shaped(args, keywords)
        if name in _DESCRIPTORS:
            return self._descriptor(args, keywords)
        if name in ATOMICS:
            return self._atomic(node, name, operands, args, keywords)
        first = args[0] if args else next(iter(keywords.values()), SCALAR)
        if name == "swizzle2d" and len(args) > 1:
            return elementwise(args[:2])._replace(items=tuple(args[:2]))  # each place among those of its own axis
        if name in _SAME:
            return self._same(node, name, operands, first, keywords)
        if name in DOTS:
            return self._dot(node, name, operands, args, keywords)
        if name in REDUCTIONS and not (name in ("max", "min") and len(args) > 1 and args[1].rank):
            self._feed([first], "reduction")
            self._operation(self.facts.reductions, node, name, operands)
            keep = isinstance(named.get("keep_dims"), ast.Constant) and named["keep_dims"].value is True  # type: ignore[attr-defined]
            axis = named.get("axis", operands[1] if len(operands) > 1 else None)
            whole = axis is None or (isinstance(axis, ast.Constant) and axis.value is None)
            base = elementwise([first])
            result = base._replace(rank=reduced_rank(base.rank, whole=whole, keep=keep), loads=NO_LOADS, static=False)
            parts = len(first.items) if first.items is not None else 2 if "return_indices" in named else 0
            return result._replace(items=(result,) * parts) if parts else result
        if name in SCANS:
            self._feed([first], "scan")
            self._operation(self.facts.scans, node, name, operands)
            return first._replace(loads=NO_LOADS, bare=None, static=False)
        if name in ("sort", "topk"):
            self._feed([first], "reduction")
            return first._replace(loads=NO_LOADS, bare=None, static=False)
        if name == "where":
            result = elementwise(everything)._replace(loads=NO_LOADS)
            if len(args) == 3:
                result = result._replace(bases=tuple(dict.fromkeys(args[1].bases + args[2].bases)))
            return result
        return self._elementwise_call(node, name, operands, args, named)

    def _elementwise_call(
        self,
        node: ast.Call,
        name: str,
        operands: list[ast.expr],
        args: list[Value],
        named: Mapping[str, ast.expr],
    ) -> Value:
        result = elementwise([*args, *(self.eval(v) for v in named.values())])
        for value in args:
            if value.bare:
                self.facts.uses[value.bare].add("argument")
        if name == "cdiv" and len(args) > 1:
            return result._replace(per=result.per | args[1].sizes)
        if name in _RESHAPED:
            first = args[0] if args else SCALAR
            shape = args[1] if len(args) == 2 else None
            rank = (
                len(args) - 1
                if len(args) > 2
                else len(shape.items)
                if shape is not None and shape.items
                else SOME_BLOCK
            )
            return first._replace(rank=rank, bare=None, items=None)
        if name == "expand_dims":
            return args[0]._replace(rank=(args[0].rank or 0) + 1) if args else result
        if name in ("join", "interleave", "cat"):
            return result._replace(rank=SOME_BLOCK)
        if name == "split":
            return result._replace(items=(result._replace(rank=None),) * 2)
        if name in SLOW_MATH and not result.static:
            self._operation(self.facts.math, node, name, operands)
            if name == "softmax":
                self._feed(args[:1], "reduction")
        elif name == "inline_asm_elementwise" and "args" in named:
            return elementwise(self.eval(named["args"]).items or ())
        return result

    def _program_id(self, operands: list[ast.expr], named: Mapping[str, ast.expr]) -> Value:
        axis = operands[0] if operands else named.get("axis")
        if isinstance(axis, ast.Constant) and isinstance(axis.value, int):
            return Value(axes=frozenset([axis.value]))
        return SCALAR

    def _shaped(self, args: list[Value], keywords: Mapping[str, Value]) -> Value:
        shape = keywords.get("shape", args[0] if args else SCALAR)
        self._sizes_block(shape)
        return Value(rank=len(shape.items) if shape.items is not None else 1)

    def _sizes_block(self, value: Value) -> None:
        self.facts.tile_uses |= value.sizes
        for part in value.items or (value,):
            if part.bare:
                self.facts.uses[part.bare].add("shape")

    def _descriptor(self, args: list[Value], keywords: Mapping[str, Value]) -> Value:
        order = ["base", "shape", "strides", "offsets", "block_shape", "order"]
        if "offsets" not in keywords and len(args) <= 4:  # a tensor descriptor has no offsets of its own
            order.remove("offsets")
        given = {**dict(zip(order, args, strict=False)), **keywords}
        if "block_shape" in given:
            self._sizes_block(given["block_shape"])
        for part in given.get("shape", SCALAR).items or ():
            if part.bare:
                self.facts.uses[part.bare].add("compare")
                self.facts.size_uses.add(part.bare)
        for part in given.get("strides", SCALAR).items or ():
            self.facts.address_factors |= part.factors | ({part.bare} if part.bare else NONE)
            if part.bare:
                self.facts.uses[part.bare].add("stride")
                if part.bare in self.constexprs:
                    self.facts.size_uses.add(part.bare)
        base = given.get("base", SCALAR)
        offsets = given.get("offsets", SCALAR)
        block = given.get("block_shape", SCALAR)
        rank = len(block.items) if block.items else SOME_BLOCK
        loops = base.loops | offsets.loops
        return base._replace(rank=rank, bare=None, loops=loops, factors=base.factors | offsets.factors)

    def _is_descriptor(self, operands: list[ast.expr]) -> bool:
        """Only a descriptor has a `load` method; `gather` also exists on blocks."""
        return len(operands) > 1

    def _same(
        self, node: ast.Call, name: str, operands: list[ast.expr], first: Value, keywords: Mapping[str, Value]
    ) -> Value:
        if name == "advance" and len(operands) > 1:
            return first._replace(loops=first.loops | self.eval(operands[1]).loops)
        if name in ("zeros_like", "full_like"):
            return Value(rank=first.rank)
        del keywords
        if first.loads and "pointer_type" in self.text.segment(node):  # a table of addresses
            bases = [b for i in first.loads for b in self.facts.accesses[i].bases]
            return first._replace(bases=tuple(dict.fromkeys(bases)), loads=NO_LOADS)
        return first

    def _dot(
        self, node: ast.Call, name: str, operands: list[ast.expr], args: list[Value], keywords: Mapping[str, Value]
    ) -> Value:
        count = 2 if name == "dot" else 5
        fed = [*args[:count], *(keywords[k] for k in ("input", "other", "lhs", "rhs") if k in keywords)]
        self._feed(fed, "dot")
        self._operation(self.facts.dots, node, name, operands)
        for index in self.loop_stack:
            self.facts.loops[index].block_work = True
        result = elementwise(args)
        return Value(rank=2, loops=result.loops, axes=result.axes)

    def _atomic(
        self, node: ast.Call, name: str, operands: list[ast.expr], args: list[Value], keywords: Mapping[str, Value]
    ) -> Value:
        address = args[0] if args else keywords.get("pointer", SCALAR)
        self._feed([*args[1:], *(v for k, v in keywords.items() if k in ("val", "cmp"))], "store")
        self._note_address(address)
        self._operation(self.facts.atomics, node, name, operands)
        return Value(rank=address.rank, loops=address.loops)
