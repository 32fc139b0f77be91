"""A loop over single elements as a loop over blocks: lanes take the rounds, sums and maxima are put together last.

Preconditions: an innermost loop `for i in range(n)` (or from a start, in steps of 1) loads single elements whose
address depends on `i`; what it carries from round to round are sums, maxima and minima alone, begun at 0 or infinity;
what it stores is at addresses that depend on `i` and is read nowhere else in the loop; nothing branches on an element,
and nothing that one round leaves is read behind the loop. A recurrence, where each round needs the one before, is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.blocked_rounds import NEUTRAL, Loop, ToBlocks, step, targets
from tritonforge.rewrite.structural.calls import integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of
from tritonforge.rewrite.structural.parameters import with_parameter


class ScalarLoop:
    """Blocks in place of single elements."""

    name = "scalar-loop"
    treats = frozenset({"TF207", "TF302"})
    classes: frozenset[BottleneckClass] = frozenset({"scalar-loop", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield blocks of 1,024, 256 and 4,096 elements, no larger than the recorded loop needs."""
        flow = flow_of(text.function, text.kernel, text.tl)
        loop = _loop(text, flow)
        _check(text, flow, loop)
        host = Host(text)
        tile = text.fresh("BLOCK", "BLOCK_SIZE", "BLOCK_N")
        function = with_parameter(
            _blocked(text, flow, loop, tile), tile, constexpr=f"{text.tl}.constexpr", least=host.most_positional
        )
        edits = text.edits(function)
        trips = text.value(loop.stop) or (int(loop.stop) if loop.stop.isdecimal() else 1024)
        most = max(16, 1 << max(trips - 1, 1).bit_length())
        for size in dict.fromkeys(min(size, most) for size in (1024, 256, 4096)):
            pairs = [[(tile, str(size))] for _ in host.nodes]
            yield Change(
                f"blocks of {size} elements in place of single ones",
                (*edits, *host.keywords(pairs)),
                ((tile, str(size)),),
                {tile: size},
            )


def _loop(text: KernelText, flow: Flow) -> Loop:
    for node in nodes_of(text.function):
        if not isinstance(node, cst.For) or not isinstance(node.target, cst.Name):
            continue
        bounds = node.iter
        if not isinstance(bounds, cst.Call) or code(bounds.func) not in {"range", f"{text.tl}.range"}:
            continue
        parts = [a.value for a in bounds.args if a.keyword is None]
        if len(parts) == 3 and integer(parts[2]) != 1:
            continue
        start = code(parts[0]) if len(parts) > 1 else "0"
        stop = code(parts[1] if len(parts) > 1 else parts[0])
        loads = [
            n
            for n in nodes_of(node.body)
            if isinstance(n, cst.Call)
            and name_of(n, text.tl) == "load"
            and node.target.value in flow.of(n.args[0].value).steps
        ]
        if loads and all(flow.of(n.args[0].value).shape == () for n in loads):
            return Loop(node, node.target.value, start, stop)
    raise Absent("no loop loads single elements")


def _check(text: KernelText, flow: Flow, loop: Loop) -> None:
    node, variable = loop.node, loop.variable

    def varies(one: cst.CSTNode) -> bool:
        return variable in flow.of(one).steps

    if node.orelse is not None or any(isinstance(n, cst.Break | cst.Continue | cst.Return) for n in nodes_of(node)):
        raise Refused("the loop over elements is left early")
    if any(isinstance(n, cst.For | cst.While) for n in nodes_of(node.body)):
        raise Refused("the loop over elements has a loop in it")
    inside = {id(n) for n in nodes_of(node)}
    pair_names = flow.meets.get(id(node), {})
    for name, (before, _) in pair_names.items():
        if name == variable:
            continue
        loop.carried[name] = _accumulation(text, loop, name)
        _check_first(name, before.definitions, flow, loop.carried[name])
    for one in nodes_of(node.body):
        if isinstance(one, cst.If | cst.IfExp) and varies(one.test):
            raise Refused(f"the loop branches on an element: {code(one.test)}")
        value = flow.values.get(id(one))
        if value is not None and variable in value.steps and value.shape not in {(), None}:
            raise Refused("the loop handles blocks beside its single elements")
        if isinstance(one, cst.BooleanOperation) and varies(one):
            raise Refused(f"an element stands under `and` or `or`: {code(one)}")
        called = name_of(one, text.tl)
        if not isinstance(one, cst.Call) or not one.args:
            continue
        function = called is None and not isinstance(one.func, cst.Attribute)
        if function and any(varies(a.value) for a in one.args):
            raise Refused(f"an element is handed to {code(one.func)}(), which is not looked into")
        if (called or "").startswith("atomic_") and not varies(one.args[0].value):
            raise Refused("the loop has an atomic on one address")
    set_inside = {code(n.target) for n in nodes_of(node.body) if isinstance(n, cst.AssignTarget)}
    for one in nodes_of(text.function):
        name = one.value if isinstance(one, cst.Name) else ""
        late = id(one) not in inside and name in set_inside - set(loop.carried)
        if late and any(n is one for n in _behind(text, node)) and not _is_target(text, one):
            raise Refused(f"{name} of the last round is read behind the loop")
    _check_stores(text, flow, loop)


def _behind(text: KernelText, loop: cst.For) -> list[cst.CSTNode]:
    """Return the nodes that come after a loop in the text."""
    every = list(nodes_of(text.function))
    place = next(i for i, n in enumerate(every) if n is loop)
    inside = {id(n) for n in nodes_of(loop)}
    return [n for n in every[place + 1 :] if id(n) not in inside]


def _is_target(text: KernelText, name: cst.CSTNode) -> bool:
    return any(isinstance(n, cst.AssignTarget) and n.target is name for n in nodes_of(text.function))


def _accumulation(text: KernelText, loop: Loop, name: str) -> str:
    """Return how a carried variable is put together.

    Raises:
        Refused: each round needs the one before.
    """
    kinds = set()
    for node in nodes_of(loop.node.body):
        kind, term = step(node, name, text.tl)
        again = term is not None and any(isinstance(n, cst.Name) and n.value == name for n in (term, *nodes_of(term)))
        if kind:
            kinds.add("" if again else kind)
        elif isinstance(node, cst.Assign | cst.AugAssign) and name in targets(node):
            kinds.add("")
    own = sum(isinstance(n, cst.Name) and n.value == name for n in nodes_of(loop.node.body))
    steps = [n for n in nodes_of(loop.node.body) if step(n, name, text.tl)[0]]
    reads = sum(2 if isinstance(n, cst.Assign) else 1 for n in steps)
    if len(kinds) != 1 or "" in kinds or own != reads:
        raise Refused(f"each round needs the {name} of the one before")
    return kinds.pop()


def _check_first(name: str, definitions: frozenset[int], flow: Flow, kind: str) -> None:
    for one in definitions:
        node = flow.statements[one]
        value = node.value if isinstance(node, cst.Assign) else None
        words = code(value).replace(" ", "").replace("'", '"') if value is not None else ""
        words = {'-float("inf")': 'float("-inf")'}.get(words, words)
        if words not in ({"0", "0.0"} if kind == "sum" else {NEUTRAL[kind]}):
            raise Refused(f"{name} does not begin at {NEUTRAL[kind]}")
    if not definitions:
        raise Refused(f"{name} is a parameter")


def _check_stores(text: KernelText, flow: Flow, loop: Loop) -> None:
    loaded: dict[str, set[str]] = {}
    for node in nodes_of(loop.node.body):
        if isinstance(node, cst.Call) and name_of(node, text.tl) == "load":
            address = code(node.args[0].value).replace(" ", "")
            for name in _pointers(text, address):
                loaded.setdefault(name, set()).add(address)
    for node in nodes_of(loop.node.body):
        if isinstance(node, cst.Call) and name_of(node, text.tl) == "store":
            address = code(node.args[0].value).replace(" ", "")
            if loop.variable not in flow.of(node.args[0].value).steps:
                raise Refused("every round stores to one address")
            for name in _pointers(text, address):
                if loaded.get(name, {address}) != {address}:
                    raise Refused(f"the loop loads what other rounds store in {name}")
            value = value_of(node, "store", "value")
            if value is not None and any(
                isinstance(n, cst.Name) and n.value in loop.carried for n in (value, *nodes_of(value))
            ):
                raise Refused("each round stores what was summed up so far")


def _pointers(text: KernelText, address: str) -> set[str]:
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in address).split())
    known = {p.name for p in text.kernel.parameters if p.role == "pointer"}
    grown = set(words)
    for _ in range(3):
        for node in nodes_of(text.function):
            if isinstance(node, cst.Assign) and code(node.targets[0].target) in grown:
                grown |= {n.value for n in (node.value, *nodes_of(node.value)) if isinstance(n, cst.Name)}
    return grown & known


def _blocked(text: KernelText, flow: Flow, loop: Loop, tile: str) -> cst.FunctionDef:
    mask = text.fresh("inside", "in_bounds", "mask")
    first = text.fresh("start", "begin", f"first_{loop.variable}")
    transform = ToBlocks(text, flow, loop, tile, mask)
    body = loop.node.body.visit(transform)
    assert isinstance(body, cst.IndentedBlock)
    lines = [
        cst.parse_statement(f"{loop.variable} = {first} + {text.tl}.arange(0, {tile})"),
        cst.parse_statement(f"{mask} = {loop.variable} < {loop.stop}"),
    ]
    bounds = loop.node.iter
    assert isinstance(bounds, cst.Call)
    arguments = ", ".join([loop.start, loop.stop, tile, *(code(a) for a in bounds.args if a.keyword is not None)])
    new = loop.node.with_changes(
        target=cst.Name(first),
        iter=cst.parse_expression(f"{code(bounds.func)}({arguments})"),
        body=body.with_changes(body=[*lines, *body.body]),
    )
    behind = [cst.parse_statement(f"{name} = {text.tl}.{kind}({name}, axis=0)") for name, kind in loop.carried.items()]
    starts = {one for name in loop.carried for one in flow.meets[id(loop.node)][name][0].definitions}
    function = text.function.visit(_Around(text.tl, loop, tile, starts, [new, *behind]))
    assert isinstance(function, cst.FunctionDef)
    return function


class _Around(cst.CSTTransformer):
    """Puts the new loop in place, with what carried variables begin as and how they end."""

    def __init__(self, tl: str, loop: Loop, tile: str, starts: set[int], new: Sequence[cst.BaseStatement]) -> None:
        super().__init__()
        self.tl, self.loop, self.tile, self.starts, self.new = tl, loop, tile, starts, new

    def leave_For(
        self, original_node: cst.For, updated_node: cst.For
    ) -> cst.For | cst.FlattenSentinel[cst.BaseStatement]:
        return cst.FlattenSentinel(self.new) if original_node is self.loop.node else updated_node

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        if id(original_node) not in self.starts:
            return updated_node
        kind = self.loop.carried[code(original_node.targets[0].target)]
        words = code(original_node.value)
        dtype = f"{self.tl}.int32" if integer(original_node.value) is not None else f"{self.tl}.float32"
        if kind == "sum":
            value = f"{self.tl}.zeros(({self.tile},), {dtype})"
        else:
            value = f"{self.tl}.full(({self.tile},), {words}, {dtype})"
        return updated_node.with_changes(value=cst.parse_expression(value))
