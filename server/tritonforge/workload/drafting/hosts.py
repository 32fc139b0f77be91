"""A first spec of a host function: tensors with the extents that its body names and relates, and other arguments."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tritonforge.domain.kernel import FileAnalysis, HostFunction, HostParameter, Kernel
from tritonforge.workload.drafting.guesses import Guess, is_usually_tensor, scalar_guess, size_guess, tensor_guess
from tritonforge.workload.drafting.shapes import Evidence, Extent, Reading, common, read_host
from tritonforge.workload.specs.dtypes import SHORT, dtype_name, item_bytes

MEMORY = 1 << 30
"""Bytes that the tensors of a draft take at most."""

_ELEMENTWISE = 1 << 24
_BY_RANK: Mapping[int, tuple[int, ...]] = {
    1: (4096,), 2: (4096, 4096), 3: (4, 1024, 1024), 4: (4, 16, 1024, 64), 5: (2, 4, 16, 64, 64),
}  # fmt: skip
_LETTERS = ("M", "N", "K", "P", "Q", "R", "S", "U", "W", "X1", "X2", "X3", "X4")
_SHORTEST = {full: short for short, full in reversed(SHORT.items())}
_DEPTH = 3


@dataclass
class _Shaped:
    """A tensor parameter on its way into a spec."""

    name: str
    rank: int
    dtype: str
    guess: Guess
    literal: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Fixed:
    """Names that become constants of the kernel, and those that its loops are unrolled over, with the size to take."""

    constants: frozenset[str]
    unrolled: Mapping[str, int]

    @classmethod
    def of(cls, kernel: Kernel, host: HostFunction) -> _Fixed:
        # The text at the launch may be resolved to `x.shape`; the parameter's own name is usually the local's too.
        passed = [
            (name, word)
            for site in kernel.launch_sites
            if site.host == host.name
            for name, value in site.constexprs
            for word in (name, value.text)
        ]
        loops = {loop.stop: loop.step for loop in kernel.loops if loop.kind == "static_range"}
        unrolled = {word: 4 if loops[name] in ("1", None) else 256 for name, word in passed if name in loops}
        return cls(frozenset(word for _, word in passed), unrolled)


def host_words(host: HostFunction, kernel: Kernel, analysis: FileAnalysis) -> str | None:
    """Return the words of a spec that calls `host`, None when none of its parameters looks like a tensor."""
    reading = _read(host)
    wanted = [p for p in host.parameters if p.default is None]
    tensors = [p for p in wanted if _is_tensor(p, host, kernel, analysis)]
    if not tensors:
        return None
    shaped = _ranked(tensors, host, analysis, multiplies=bool(kernel.dots))
    sizes = _Sizes(shaped, reading, {p.name for p in host.parameters}, _Fixed.of(kernel, host))
    by_name = {one.name: one for one in shaped}
    words = []
    for parameter in wanted:
        one = by_name.get(parameter.name)
        if one is not None:
            words.append(f"{one.name}={sizes.tensor(one)}")
        elif parameter.name in sizes.parameters:
            words.append(f"{parameter.name}={sizes.parameters[parameter.name]}")
        else:
            words.append(f"{parameter.name}={_scalar(parameter, host, analysis, reading)}")
    return " ".join([*words, *(f"{name}={value}" for name, value in sizes.free())])


@lru_cache(maxsize=256)
def _read(host: HostFunction) -> Reading:
    return read_host(host.source, tuple(p.name for p in host.parameters))


def _is_tensor(
    parameter: HostParameter, host: HostFunction, kernel: Kernel | None, analysis: FileAnalysis, depth: int = 0
) -> bool:
    annotation = parameter.annotation or ""
    if "Tensor" in annotation:
        return True
    if annotation.strip("'\"") in ("int", "float", "bool", "str", "torch.dtype", "torch.device"):
        return False
    evidence = _read(host).evidence[parameter.name]
    for site in kernel.launch_sites if kernel is not None else ():
        if site.host != host.name:
            continue
        for name, text in site.arguments:
            passed = kernel.parameter(name) if kernel is not None and text == parameter.name else None
            if passed is not None and passed.role == "pointer":
                return True
            if passed is not None and passed.role != "unknown":
                return evidence.tensor > 2
    if evidence.tensor > evidence.scalar:
        return True
    passed_on = _passed_on(parameter.name, host, analysis)
    if not passed_on and not evidence.scalar and is_usually_tensor(parameter.name):
        return True
    return depth < _DEPTH and any(_is_tensor(inner, callee, None, analysis, depth + 1) for callee, inner in passed_on)


def _passed_on(name: str, host: HostFunction, analysis: FileAnalysis) -> list[tuple[HostFunction, HostParameter]]:
    """Return the parameters of other functions of the file that `host` passes its own parameter `name` to."""
    found = []
    for call in _read(host).calls:
        callee = _callee(call, analysis)
        if callee is None or callee.name == host.name:
            continue
        for parameter, argument in _bound(call, callee):
            if isinstance(argument, ast.Name) and argument.id == name:
                found.append((callee, parameter))
    return found


def _callee(call: ast.Call, analysis: FileAnalysis) -> HostFunction | None:
    name = ast.unparse(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ""
    return next((f for f in analysis.functions if name and name in (f.called_as, f.name)), None)


def _bound(call: ast.Call, callee: HostFunction) -> list[tuple[HostParameter, ast.expr]]:
    pairs = list(zip(callee.parameters, call.args, strict=False))
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        pairs = []
    by_name = {p.name: p for p in callee.parameters}
    return [*pairs, *((by_name[k.arg], k.value) for k in call.keywords if k.arg in by_name)]


def _ranked(
    tensors: list[HostParameter], host: HostFunction, analysis: FileAnalysis, *, multiplies: bool
) -> list[_Shaped]:
    reading = _read(host)
    known = {p.name: _rank(p, host, analysis) for p in tensors}
    for first, second in reading.alike:
        for one, other in ((first, second), (second, first)):
            if one in known and known.get(other) and known[one] is None:
                known[one] = known[other]
    floats = [p for p in tensors if not tensor_guess(p.name).dtype]
    # The one whose axes are known says most; what is only passed on usually has its shape.
    plain = [p for p in floats or tensors if tensor_guess(p.name).shape == "first"]
    named = {p.name: sum(extent[0] == p.name for extent in reading.names) for p in plain}
    ranked = sorted((p for p in plain if (known[p.name] or 0) > 1), key=lambda p: -named[p.name])
    main = (ranked or plain or floats or tensors)[0].name
    if known[main] is None:
        least = reading.evidence[main].least_rank
        known[main] = max(least, 2) if least else 1
    shaped = []
    for parameter in tensors:
        evidence, guess = reading.evidence[parameter.name], tensor_guess(parameter.name)
        if parameter.name == "b" and "a" in known:
            guess = Guess("", "", None, "first")  # a pair, not a bias
        rank = known[parameter.name]
        if rank is None and guess.shape == "last" and multiplies and "w" in parameter.name.lower():
            rank = 2
        if rank is None:
            rank = guess.rank if guess.rank is not None else known[main]
            if guess.per_row:
                rank = max((known[main] or 1) - 1, 1)
            rank = max(rank or 1, evidence.least_rank)
        dtype = dtype_name(_preferred(evidence) or guess.dtype or "fp16") or "float16"
        shaped.append(_Shaped(parameter.name, rank, dtype, guess))
    shaped.sort(key=lambda one: one.name != main)
    return shaped


def _rank(parameter: HostParameter, host: HostFunction, analysis: FileAnalysis, depth: int = 0) -> int | None:
    evidence = _read(host).evidence[parameter.name]
    found = evidence.rank if evidence.rank is not None else evidence.weak_rank
    if found is None and depth < _DEPTH:
        for callee, inner in _passed_on(parameter.name, host, analysis):
            found = _rank(inner, callee, analysis, depth + 1)
            if found is not None:
                break
    return found


def _preferred(evidence: Evidence) -> str | None:
    for dtype in ("float16", "bfloat16", "float32"):
        if dtype in evidence.dtypes:
            return dtype
    return common(evidence.dtypes)


def _scalar(parameter: HostParameter, host: HostFunction, analysis: FileAnalysis, reading: Reading) -> str:
    """Return the text of another argument: what callers in the file pass, what it is compared with, else a guess."""
    given = _given_by_callers(parameter.name, host, analysis, 0)
    if given is not None:
        return given
    evidence = reading.evidence[parameter.name]
    if evidence.texts:
        return repr(evidence.texts[0])
    namesake = next(
        (p.default for f in analysis.functions for p in f.parameters if p.name == parameter.name and p.default), None
    )
    if namesake is not None and namesake != "None" and _is_plain(ast.parse(namesake, mode="eval").body):
        return namesake
    if evidence.none and not parameter.annotation:
        return "None"
    return scalar_guess(parameter.name, parameter.annotation)


def _given_by_callers(name: str, host: HostFunction, analysis: FileAnalysis, depth: int) -> str | None:
    for caller in analysis.functions:
        for call in _read(caller).calls if caller.name != host.name else ():
            if _callee(call, analysis) is not host:
                continue
            for parameter, argument in _bound(call, host):
                if parameter.name != name:
                    continue
                if _is_plain(argument):
                    return ast.unparse(argument)
                passed = argument.id if isinstance(argument, ast.Name) else ""
                theirs = next((p for p in caller.parameters if p.name == passed), None)
                if theirs is None:
                    continue
                if theirs.default is not None and _is_plain(ast.parse(theirs.default, mode="eval").body):
                    return theirs.default
                if depth < _DEPTH and (found := _given_by_callers(passed, caller, analysis, depth + 1)) is not None:
                    return found
    return None


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str | None)


class _Sizes:
    """One number and one name for each set of extents that are equal."""

    def __init__(self, shaped: list[_Shaped], reading: Reading, taken: set[str], compiled: _Fixed) -> None:
        self.shaped, self.reading, self.taken, self.compiled = shaped, reading, taken, compiled
        self.ranks = {one.name: one.rank for one in shaped}
        self.parent: dict[Extent, Extent] = {(o.name, axis): (o.name, axis) for o in shaped for axis in range(o.rank)}
        self.anchored: set[Extent] = set()
        self.unite()
        self.values: dict[Extent, int] = {}
        self.number()
        self.parameters = self.numbers_given()
        self.labels = self.name()

    def place(self, extent: Extent) -> Extent | None:
        name, axis = extent
        rank = self.ranks.get(name)
        if rank is None or not -rank <= axis < rank:
            return None
        return name, axis % rank

    def root(self, extent: Extent) -> Extent:
        while self.parent[extent] != extent:
            extent = self.parent[extent]
        return extent

    def join(self, one: Extent | None, other: Extent | None) -> None:
        if one is not None and other is not None and self.root(one) != self.root(other):
            # The main tensor's axes come first, and give their names.
            order = list(self.parent)
            first, second = sorted((self.root(one), self.root(other)), key=order.index)
            self.parent[second] = first

    def unite(self) -> None:
        main = self.shaped[0]
        for one, other in self.reading.equal:
            first, second = self.place(one), self.place(other)
            self.join(first, second)
            self.anchored |= {e for e in (first, second) if e is not None}
        for extent in (*self.reading.names, *self.reading.fixed, *self.reading.sizes.values()):
            found = self.place(extent)
            if found is not None:
                self.anchored.add(found)
        for left, right in self.reading.alike:
            if self.ranks.get(left) == self.ranks.get(right) and left in self.ranks:
                for axis in range(self.ranks[left]):
                    self.join((left, axis), (right, axis))
                    self.anchored |= {(left, axis), (right, axis)}
        named: dict[str, Extent] = {}
        for extent, name in self.reading.names.items():
            found = self.place(extent)
            if found is not None:
                self.join(found, named.setdefault(name, found))
        for shaped in self.shaped[1:]:
            for axis in range(shaped.rank):
                if (shaped.name, axis) not in self.anchored:
                    self.follow(shaped, axis, main)

    def follow(self, one: _Shaped, axis: int, main: _Shaped) -> None:
        """Let an extent that nothing speaks of be the main tensor's."""
        here = (one.name, axis)
        if one.guess.shape == "offsets" and one.rank == 1:
            one.literal[axis] = "9"
        elif one.guess.shape == "rows" and one.rank < main.rank:
            self.join(here, (main.name, axis))
        elif one.guess.shape == "last":
            self.follow_weight(one, axis, main)
        elif one.rank <= main.rank:
            behind = one.rank < main.rank and one.guess.shape != "rows"
            self.join(here, (main.name, axis + (main.rank - one.rank) * behind))

    def follow_weight(self, one: _Shaped, axis: int, main: _Shaped) -> None:
        """Let a weight be [out, in], as PyTorch's linear layers have it, and its siblings have the same shape."""
        sibling = next(
            (s for s in self.shaped if s.name != one.name and s.rank == one.rank and s.guess.shape == "last"), None
        )
        if axis == one.rank - 1:
            self.join((one.name, axis), (main.name, main.rank - 1))
        elif sibling is not None:
            self.join((one.name, axis), (sibling.name, axis))
        elif "w" not in one.name.lower() and one.rank <= main.rank:
            self.join((one.name, axis), (main.name, axis))

    def members(self) -> dict[Extent, list[Extent]]:
        found: dict[Extent, list[Extent]] = {}
        for extent in self.parent:
            found.setdefault(self.root(extent), []).append(extent)
        return found

    def names_of(self, members: list[Extent]) -> list[str]:
        given = [name for name, extent in self.reading.sizes.items() if self.place(extent) in members]
        return [*given, *(name for extent, name in self.reading.names.items() if self.place(extent) in members)]

    def number(self) -> None:
        only_flat = all(one.rank <= 1 for one in self.shaped)
        fixed = {self.place(extent): size for extent, size in self.reading.fixed.items()}
        for root, members in self.members().items():
            size = next((fixed[m] for m in members if m in fixed), None)
            rank = self.ranks[root[0]]
            names = self.names_of(members)
            if size is None:
                size = next((self.compiled.unrolled[name] for name in names if name in self.compiled.unrolled), None)
            for name in names if size is None else ():
                # One letter says little about a matrix: M, N, K, D, B.
                size = size_guess(name) if rank > 2 or len(name) > 1 or name == "V" else None
                if size is not None:
                    break
            if size is None and rank > 2 and self.compiled.constants & set(names):
                size = 64 if root[1] == rank - 1 else 4  # one that is compiled in often sizes a block
            if size is None:
                size = _ELEMENTWISE if only_flat else _BY_RANK.get(rank, (8,) * rank)[root[1]]
            self.values[root] = size
        for _ in range(64):
            if self.bytes() <= MEMORY:
                break
            largest = max(self.values, key=lambda r: self.values[r])
            self.values[largest] = max(self.values[largest] // 2, 1)

    def bytes(self) -> int:
        total = 0
        for one in self.shaped:
            elements = 1
            for axis in range(one.rank):
                elements *= self.values[self.root((one.name, axis))]
            total += elements * item_bytes(one.dtype)
        return total

    def numbers_given(self) -> dict[str, int]:
        found = {}
        for name, extent in self.reading.sizes.items():
            place = self.place(extent)
            if place is not None and name not in self.ranks:
                found[name] = self.values[self.root(place)]
        return found

    def name(self) -> dict[Extent, str]:
        labels: dict[Extent, str] = {}
        own: dict[Extent, str] = {}
        for name, extent in self.reading.sizes.items():
            place = self.place(extent)
            if place is not None and name in self.parameters:
                own.setdefault(self.root(place), name)
        used = set(self.taken)
        for root, members in self.members().items():
            if root in own:
                labels[root] = own[root]
                continue
            chosen = next((n for n in self.names_of(members) if n not in used and dtype_name(n) is None), None)
            if chosen is None:
                chosen = next((letter for letter in _LETTERS if letter not in used), None)
            if chosen is None:
                chosen = next(f"size_{i}" for i in itertools.count() if f"size_{i}" not in used)
            used.add(chosen)
            labels[root] = chosen
        return labels

    def tensor(self, one: _Shaped) -> str:
        extents = [self.extent(one, axis) for axis in range(one.rank)]
        main = self.shaped[0]
        first = self.labels[self.root((main.name, 0))]
        last = self.labels[self.root((main.name, main.rank - 1))]
        recipe = one.guess.recipe.format(rows=first, last=last)
        if dtype_name(one.guess.dtype) != one.dtype:
            recipe = ""  # the name suggests one thing, the code says another
        return f"{_SHORTEST.get(one.dtype, one.dtype)}[{', '.join(extents)}]{recipe}"

    def extent(self, one: _Shaped, axis: int) -> str:
        return one.literal.get(axis) or self.labels[self.root((one.name, axis))]

    def free(self) -> list[tuple[str, int]]:
        """Return the sizes that are no parameters and are read, with their numbers."""
        written = " ".join(self.tensor(one) for one in self.shaped)
        words = set("".join(c if c.isalnum() or c == "_" else " " for c in written).split())
        given = set(self.parameters)
        return [
            (label, self.values[root]) for root, label in self.labels.items() if label in words and label not in given
        ]
