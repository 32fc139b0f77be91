"""Sums under a spin lock as atomic sums: programs add to memory without waiting for each other.

A lock lets one program at a time load, add and store, and all others spin. `tl.atomic_add` on the same elements needs
no lock, and what programs add to one place can then be summed up in two stages or in registers first (`two-stages` and
`private-sums` go on from here).

Preconditions: `while tl.atomic_cas(lock, 0, 1) == 1: pass` … `tl.atomic_xchg(lock, 0)` in one block, and between them
nothing but loads of fp32 or integers, additions to what is loaded, stores of the sums to the addresses that were
loaded, barriers, and a flag that says whether a place was written before (then the place is made by `torch.zeros` for
this launch, because the first program does not overwrite it any more). Neither the lock nor what it guards is used
elsewhere in the kernel, and nobody reads the sums behind the lock.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import integer, name_of, value_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, line_of, nodes_of, replaced
from tritonforge.rewrite.structural.loops import bare, comments_of, names_in, sets

_DTYPES = frozenset({"float32", "float64", "int32", "int64"})
_ZEROS = re.compile(r"(torch\.zeros|torch\.zeros_like|\w+\.new_zeros)")


@dataclass
class _Guarded:
    """What stands under a lock: `sums` are (address, what is added, mask); `flag` the address of the flag, if any."""

    body: Sequence[cst.CSTNode]
    first: int
    last: int
    lock: str
    flag: str = ""
    loaded: dict[str, tuple[str, str]] = field(default_factory=dict)
    grown: dict[str, tuple[str, str]] = field(default_factory=dict)
    sums: list[tuple[str, str, str]] = field(default_factory=list)


class UnlockedSums:
    """Atomics in place of a lock."""

    name = "unlocked-sums"
    treats = frozenset({"TF107"})
    classes: frozenset[BottleneckClass] = frozenset({"atomic-contention", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        places = [(b, n) for b in _blocks(text.function) for n, s in enumerate(b) if isinstance(s, cst.While)]
        if not any(name_of(n, text.tl) == "atomic_cas" for n in nodes_of(text.function)):
            raise Absent("the kernel takes no lock")
        if len(places) != 1:
            raise Refused("the kernel does not wait in exactly one place")
        guarded = _Reading(text, *places[0]).guarded()
        _check_uses(text, guarded)
        pointers = {_pointer(text, address) for address, _, _ in guarded.sums}
        if guarded.flag:
            host = Host(text)
            for pointer in sorted(pointers):
                _check_zeros(text, host, pointer)
        made: list[tuple[cst.CSTNode, Replacement]] = []
        gone = guarded.body[guarded.first : guarded.last + 1]
        lines = []
        for address, added, mask in guarded.sums:
            masked = f", mask={mask}" if mask else ""
            lines.append(line_of(f"{text.tl}.atomic_add({address}, {added}{masked})"))
        lines[0] = lines[0].with_changes(leading_lines=_leading(gone))
        made.append((gone[0], cst.FlattenSentinel(lines)))
        made += [(statement, cst.RemoveFromParent()) for statement in gone[1:]]
        made += [(line, cst.RemoveFromParent()) for line in _definitions(text, guarded)]
        yield Change("atomic sums in place of a lock", text.edits(replaced(text.function, made)))


def _blocks(function: cst.FunctionDef) -> Iterator[Sequence[cst.CSTNode]]:
    for node in (function, *nodes_of(function)):
        body = getattr(node, "body", None)
        if isinstance(body, cst.IndentedBlock):
            yield body.body


def _leading(gone: Sequence[cst.CSTNode]) -> Sequence[cst.EmptyLine]:
    first = gone[0]
    assert isinstance(first, cst.While)
    own = {c.comment.value for c in first.leading_lines if c.comment}
    more = [line for line in comments_of(gone) if line.comment and line.comment.value not in own]
    return [*first.leading_lines, *more]


class _Reading:
    """Reads what stands between taking and giving back a lock."""

    def __init__(self, text: KernelText, body: Sequence[cst.CSTNode], first: int) -> None:
        self.text, self.tl = text, text.tl
        waiting = body[first]
        assert isinstance(waiting, cst.While)
        lock = self._taken(waiting)
        release = [n for n in range(first, len(body)) if self._gives_back(body[n], lock)]
        if len(release) != 1:
            raise Refused("the lock is not given back in the block that takes it")
        self.found = _Guarded(body, first, release[0], lock)

    def guarded(self) -> _Guarded:
        """Return it.

        Raises:
            Refused: it is more than sums.
        """
        for statement in self.found.body[self.found.first + 1 : self.found.last]:
            self._statement(statement)
        stored = {address for address, _, _ in self.found.sums}
        if not stored or {a for a, _ in (*self.found.loaded.values(), *self.found.grown.values())} - stored:
            raise Refused("what is loaded under the lock is not what is stored")
        return self.found

    def _taken(self, waiting: cst.While) -> str:
        test = waiting.test
        body = [code(s).strip() for s in waiting.body.body]
        call = test.left if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None
        if isinstance(call, cst.Call) and name_of(call, self.tl) == "atomic_cas" and len(call.args) == 3:
            assert isinstance(test, cst.Comparison)
            target = test.comparisons[0]
            to = integer(target.comparator)
            waits = (isinstance(target.operator, cst.Equal) and to == 1) or (
                isinstance(target.operator, cst.NotEqual) and to == 0
            )
            numbers = [integer(a.value) for a in call.args[1:]]
            if waits and numbers == [0, 1] and body in ([], ["pass"]):
                return code(call.args[0].value)
        raise Refused("the kernel waits for something else than a lock")

    def _gives_back(self, statement: cst.CSTNode, lock: str) -> bool:
        call = _call_of(statement)
        return (
            call is not None
            and name_of(call, self.tl) == "atomic_xchg"
            and code(call.args[0].value) == lock
            and integer(call.args[1].value) == 0
        )

    def _statement(self, statement: cst.CSTNode) -> None:
        if isinstance(statement, cst.If):
            self._flag(statement)
            return
        small = (
            statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
        )
        call = _call_of(statement)
        if call is not None and name_of(call, self.tl) == "debug_barrier":
            return
        if call is not None and name_of(call, self.tl) == "store":
            self._store(call)
            return
        if isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign):
            self._grow(code(small.target), small.value)
            return
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            name, value = code(small.targets[0].target), small.value
            if self._is_load(value):
                self.found.loaded[name] = self._load(value)
                return
            if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
                for own, other in ((value.left, value.right), (value.right, value.left)):
                    if code(own) == name and self._is_load(other):
                        self._grow(name, other)
                        return
        raise Refused(f"more than a sum is made under the lock: {code(statement).strip().splitlines()[0]}")

    def _grow(self, name: str, value: cst.BaseExpression) -> None:
        if not self._is_load(value) or name in self.found.grown:
            raise Refused(f"more than what was there is added to {name} under the lock")
        self.found.grown[name] = self._load(value)

    def _flag(self, statement: cst.If) -> None:
        """Read `if flag == 0: set it; else: add what is there`."""
        test, other = statement.test, statement.orelse
        name = code(test.left) if isinstance(test, cst.Comparison) else ""
        first = [_call_of(s) for s in statement.body.body]
        unset = (
            isinstance(test, cst.Comparison)
            and len(test.comparisons) == 1
            and isinstance(test.comparisons[0].operator, cst.Equal)
            and integer(test.comparisons[0].comparator) == 0
            and name in self.found.loaded
            and len(first) == 1
            and first[0] is not None
            and name_of(first[0], self.tl) in {"atomic_xchg", "store"}
        )
        if not unset or not isinstance(other, cst.Else) or self.found.flag:
            raise Refused("something is decided under the lock")
        assert first[0] is not None
        flag, _ = self.found.loaded.pop(name)
        if code(first[0].args[0].value) != flag or integer(first[0].args[1].value) != 1:
            raise Refused("something is decided under the lock")
        self.found.flag = flag
        for inner in other.body.body:
            self._statement(inner)

    def _store(self, call: cst.Call) -> None:
        address, mask = code(call.args[0].value), _mask(call, "store")
        value = value_of(call, "store", "value")
        assert value is not None
        place = (address, mask)
        if isinstance(value, cst.Name) and self.found.grown.get(value.value) == place:
            self.found.sums.append((address, value.value, mask))
            return
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
            for own, other in ((value.left, value.right), (value.right, value.left)):
                known = self.found.loaded.get(code(own)) or (self._load(own) if self._is_load(own) else None)
                if known == place and not names_in(other) & set(self.found.loaded):
                    self.found.sums.append((address, code(other.with_changes(lpar=(), rpar=())), mask))
                    if self._is_load(own):
                        self.found.loaded[f"({len(self.found.sums)})"] = place
                    return
        raise Refused(f"{code(value)} is not what was there and something added")

    def _is_load(self, node: cst.BaseExpression) -> bool:
        return name_of(node, self.tl) == "load"

    def _load(self, node: cst.BaseExpression) -> tuple[str, str]:
        assert isinstance(node, cst.Call)
        return code(node.args[0].value), _mask(node, "load")


def _only(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None


def _call_of(statement: cst.CSTNode) -> cst.Call | None:
    small = _only(statement)
    return small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None


def _mask(call: cst.Call, function: str) -> str:
    mask = value_of(call, function, "mask")
    return code(mask) if mask is not None else ""


def _definitions(text: KernelText, guarded: _Guarded) -> list[cst.CSTNode]:
    """Return the statements that set the address of the lock and the flag, which nothing else needs."""
    wanted = {one for one in (guarded.lock, guarded.flag) if one.isidentifier()}
    return [
        line
        for line in nodes_of(text.function)
        if isinstance(line, cst.SimpleStatementLine)
        and len(line.body) == 1
        and isinstance(line.body[0], cst.Assign | cst.AugAssign)
        and sets(line) <= wanted
        and not any(isinstance(n, cst.Call) and name_of(n, text.tl) != "program_id" for n in nodes_of(line))
    ]


def _check_uses(text: KernelText, guarded: _Guarded) -> None:
    """Check that the lock and what it guards are used under it alone.

    Raises:
        Refused: they are not.
    """
    inside = {id(n) for s in guarded.body[guarded.first : guarded.last + 1] for n in (s, *nodes_of(s))}
    kept = {id(n) for line in _definitions(text, guarded) for n in nodes_of(line)}
    own = names_in(cst.parse_expression(guarded.lock)) | names_in(cst.parse_expression(guarded.flag or "0"))
    addresses = {n for n in own if n in {guarded.lock, guarded.flag} or _is_pointer(text, n)}
    late = set(guarded.loaded) | set(guarded.grown)
    behind = False
    for node in nodes_of(text.function.body):
        if id(node) in inside:
            behind = True
            continue
        if isinstance(node, cst.Name) and node.value in addresses and id(node) not in kept:
            raise Refused(f"{node.value} is used beside the lock")
        if behind and isinstance(node, cst.Name) and node.value in late:
            raise Refused(f"{node.value} is read behind the lock")
    if any(body is guarded.body for body in _blocks(text.function)) and guarded.body is not text.function.body.body:
        raise Refused("the lock is taken in a loop or branch")
    for address, _, _ in guarded.sums:
        pointer = _pointer(text, address)
        dtype = dict(text.launch.problem.arguments).get(pointer)
        if isinstance(dtype, Tensor) and dtype.dtype not in _DTYPES:
            raise Refused(f"sums of {dtype.dtype} are rounded each time")
        others = [a for a in text.kernel.accesses if a.pointer == pointer and bare(a.address) != bare(address)]
        if others:
            raise Refused(f"{pointer} is used elsewhere, too")


def _is_pointer(text: KernelText, name: str) -> bool:
    parameter = text.kernel.parameter(name)
    return parameter is not None and parameter.role == "pointer"


def _pointer(text: KernelText, address: str) -> str:
    """Return the pointer that an address comes from, through variables."""
    names = names_in(cst.parse_expression(address))
    for _ in range(4):
        for node in nodes_of(text.function):
            if isinstance(node, cst.Assign | cst.AugAssign) and names & sets(node):
                names |= names_in(node.value)
    found = [name for name in sorted(names) if _is_pointer(text, name)]
    if len(found) != 1:
        raise Refused(f"which tensor {address} lies in cannot be told")
    return found[0]


def _check_zeros(text: KernelText, host: Host, pointer: str) -> None:
    """Check that a launch is given zeros to add to.

    Raises:
        Refused: it may not be.
    """
    for site, node in enumerate(host.nodes):
        given = host.argument(site, pointer)
        variable = text.scopes.resolve(given) if isinstance(given, ast.Name) else None
        value = variable.single if variable is not None else None
        if variable is None or variable.scope is not node.host or not isinstance(value, ast.Call):
            raise Refused(f"what is passed for {pointer} is not made in the host function")
        if not _ZEROS.fullmatch(text.source.segment(value.func)):
            raise Refused(f"what is passed for {pointer} does not begin as zeros")
        if any(read is not given and read.lineno <= (node.call.end_lineno or 0) for read in variable.reads):
            raise Refused(f"what is passed for {pointer} is used in front of the launch")
