"""Which values of a kernel are computed from which: a graph over Triton's first IR, loops and branches joined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.compilation.mlir import Operation, Type, read_operations, read_types

_FOR = re.compile(r"(?:unsigned )?(%[\w.$-]+) = .*? to .*? step (?:%[\w.$#-]+)(?: iter_args\((.*?)\)\s*->)?")
_CARRIED = re.compile(r"(%[\w.$-]+) = (%[\w.$#-]+)")
_DEEPEST_CALL = 16

LOADS = frozenset(["tt.load", "tt.descriptor_load", "tt.experimental_descriptor_load", "tt.descriptor_gather"])
STORES = frozenset(["tt.store", "tt.descriptor_store", "tt.experimental_descriptor_store", "tt.descriptor_scatter"])
MERGE = "merge"
"""The name of a value that is one of its operands: what a loop carries, what branches yield."""
ARGUMENT = "argument"
"""The name of an argument of the kernel; `text` is the parameter's name."""


@dataclass(eq=False)
class Node:
    """A value (or a store, which makes none): the operation that makes it, and the values that it is made of.

    `type` is that of the result (None when it has none or an odd one), `operand_types` those of its signature. `inner`
    are the operations of a reduction's or scan's own region.
    """

    name: str
    text: str = ""
    type: Type | None = None
    operand_types: tuple[Type, ...] = ()
    location: str = ""
    operands: list[Node] = field(default_factory=list)
    users: list[Node] = field(default_factory=list)
    inner: tuple[Operation, ...] = ()

    @property
    def element(self) -> str:
        """The element type of the result, such as `f32`; empty where there is none."""
        return self.type.element if self.type is not None else ""


def read_graph(ttir: str) -> tuple[Node, ...]:
    """Return every value of the module's entry function, callees inlined, in the order of the text.

    Text that is no module gives no values; what is not understood is left out, and nothing is raised.
    """
    functions: dict[str, Operation] = {}
    entry: Operation | None = None
    for module in read_operations(ttir):
        for operation in module.regions[0] if module.regions else []:
            name = re.search(r"@([\w.$]+)", operation.text)
            if operation.name == "tt.func" and operation.regions and name:
                functions[name[1]] = operation
                if entry is None or " public " in f" {operation.text} ":
                    entry = operation
    if entry is None:
        return ()
    builder = _Builder(functions)
    header = entry.text[entry.text.find("(") :]
    env: dict[str, Node] = {}
    for name, kind in re.findall(r"(%[\w.$-]+): ([^%]*)", header):
        types = read_types(kind.split(" ", 1)[0].rstrip(",)"))
        env[name] = builder.add(Node(ARGUMENT, name[1:], types[0] if types else None))
    builder.region(entry.regions[0], env, 0)
    for node in builder.nodes:
        for operand in node.operands:
            operand.users.append(node)
    return tuple(builder.nodes)


@dataclass
class _Builder:
    functions: Mapping[str, Operation]
    nodes: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def merge(self, *of: Node) -> Node:
        return self.add(Node(MERGE, type=of[0].type if of else None, operands=list(of)))

    def region(self, operations: Sequence[Operation], env: dict[str, Node], depth: int) -> list[Node]:
        """Add the values of a region; return what it yields."""
        yielded: list[Node] = []
        for operation in operations:
            operands = [env[name] for name in operation.operands if name in env]
            if operation.name in {"scf.yield", "tt.return"}:
                yielded = operands
            elif operation.name == "scf.condition":
                yielded = operands[1:]
            elif operation.name == "scf.for":
                self._for(operation, env, depth)
            elif operation.name == "scf.while":
                self._while(operation, env, depth)
            elif operation.name == "scf.if":
                branches = [self.region(region, dict(env), depth) for region in operation.regions]
                for index, result in enumerate(operation.results):
                    env[result] = self.merge(*(branch[index] for branch in branches if index < len(branch)))
            elif operation.name == "tt.call":
                self._call(operation, operands, env, depth)
            else:
                self._plain(operation, operands, env)
        return yielded

    def _plain(self, operation: Operation, operands: list[Node], env: dict[str, Node]) -> None:
        types = read_types(operation.types)
        results = types[-len(operation.results) :] if operation.results else []
        inner = tuple(one for region in operation.regions for one in region)
        for index, name in enumerate(operation.results or ("",)):
            kind = results[index] if index < len(results) else None
            if kind is not None and kind.pointer and operation.name == "tt.load":
                kind = Type(kind.shape, kind.element[4:].split(",")[0].rstrip(">"))  # the text has the address's only
            node = Node(operation.name, operation.text, kind, tuple(types), operation.location, operands, inner=inner)
            env[name] = self.add(node)

    def _for(self, operation: Operation, env: dict[str, Node], depth: int) -> None:
        head = _FOR.match(operation.text)
        if head is None or not operation.regions:
            return
        inner = dict(env)
        inner[head[1]] = self.add(Node(MERGE))
        carried = [
            (name, self.merge(*([env[start]] if start in env else [])))
            for name, start in _CARRIED.findall(head[2] or "")
        ]
        inner |= dict(carried)
        yielded = self.region(operation.regions[0], inner, depth)
        for (_, node), again in zip(carried, yielded, strict=False):
            node.operands.append(again)
        env.update(zip(operation.results, (node for _, node in carried), strict=False))

    def _while(self, operation: Operation, env: dict[str, Node], depth: int) -> None:
        carried = [
            (name, self.merge(*([env[start]] if start in env else [])))
            for name, start in _CARRIED.findall(operation.text.partition(") :")[0])
        ]
        if len(operation.regions) < 2:
            return
        passed = self.region(operation.regions[0], {**env, **dict(carried)}, depth)
        names = operation.arguments[-1] if operation.arguments else ()
        again = self.region(operation.regions[1], {**env, **dict(zip(names, passed, strict=False))}, depth)
        for (_, node), value in zip(carried, again, strict=False):
            node.operands.append(value)
        env.update(zip(operation.results, passed, strict=False))

    def _call(self, operation: Operation, operands: list[Node], env: dict[str, Node], depth: int) -> None:
        name = re.match(r"@([\w.$]+)", operation.text)
        callee = self.functions.get(name[1]) if name else None
        if callee is None or depth > _DEEPEST_CALL:
            return
        parameters = re.findall(r"(%[\w.$-]+): ", callee.text)
        returned = self.region(callee.regions[0], dict(zip(parameters, operands, strict=False)), depth + 1)
        env.update(zip(operation.results, returned, strict=False))


def upstream(start: Node, through: Callable[[Node], bool]) -> Iterator[Node]:
    """Yield `start` and what it is made of, going on from a value only where `through` says so."""
    return _reached(start, through, lambda node: node.operands)


def downstream(start: Node, through: Callable[[Node], bool]) -> Iterator[Node]:
    """Yield what uses `start`, and what uses that, going on from a user only where `through` says so."""
    seen: set[int] = set()
    for user in start.users:
        for node in _reached(user, through, lambda one: one.users):
            if id(node) not in seen:
                seen.add(id(node))
                yield node


def _reached(start: Node, through: Callable[[Node], bool], links: Callable[[Node], list[Node]]) -> Iterator[Node]:
    seen = {id(start)}
    waiting = [start]
    while waiting:
        node = waiting.pop()
        yield node
        if through(node):
            fresh = [one for one in links(node) if id(one) not in seen]
            seen.update(id(one) for one in fresh)
            waiting += fresh


def pointers(address: Node) -> frozenset[str]:
    """Return the parameters that an address points into."""
    found: set[str] = set()
    seen = {id(address)}
    waiting = [address]
    while waiting:
        node = waiting.pop()
        if node.name == ARGUMENT:
            if node.type is None or node.type.pointer:
                found.add(node.text)
            continue
        # The other operands of these are offsets, extents and strides.
        first_only = node.name == "tt.addptr" or node.name.startswith(
            ("tt.make_tensor", "tt.advance", "tt.experimental")
        )
        for one in node.operands[:1] if first_only else node.operands:
            if id(one) not in seen:
                seen.add(id(one))
                waiting.append(one)
    return frozenset(found)


def loaded_from(value: Node) -> frozenset[str]:
    """Return the parameters whose loaded elements `value` is computed from; masks and indices do not count."""
    found: set[str] = set()
    for node in upstream(value, lambda one: one.name not in LOADS and one.element not in {"i1", "i32", "i64"}):
        if node.name in LOADS and node.operands:
            found |= pointers(node.operands[0])
    return frozenset(found)
