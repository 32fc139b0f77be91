"""The tree of a launch spec → `Call`s: one for each combination of the sizes it chooses from."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tritonforge.domain.codec import encode
from tritonforge.domain.kernel import HostFunction, Kernel
from tritonforge.domain.launch import Call, KernelLaunch, Value
from tritonforge.workload.specs.errors import Place, SpecError, nearest
from tritonforge.workload.specs.expressions import Scope, integer
from tritonforge.workload.specs.grids import grid_of
from tritonforge.workload.specs.options import OPTIONS, option_of
from tritonforge.workload.specs.syntax import (
    Choice,
    Constant,
    Given,
    Name,
    Node,
    Sequence,
    Span,
    Spec,
    TensorNode,
    names_in,
)
from tritonforge.workload.specs.values import value_of

MAX_CALLS = 16
"""Calls that one spec may describe: each is compiled, and on a GPU measured."""


@dataclass(frozen=True)
class Subject:
    """What a spec calls. Without `kernel` and `host` its parameters are unknown, and any name is one."""

    file: str
    function: str
    kernel: Kernel | None = None
    host: HostFunction | None = None

    @property
    def parameters(self) -> tuple[str, ...] | None:
        """The names that it takes, None when they are unknown."""
        if self.kernel is not None:
            return tuple(p.name for p in self.kernel.parameters)
        return tuple(p.name for p in self.host.parameters) if self.host is not None else None

    @property
    def required(self) -> tuple[str, ...]:
        """The names that must be given."""
        if self.kernel is not None:
            tuned = self.kernel.autotune is not None or bool(self.kernel.heuristics)
            return tuple(p.name for p in self.kernel.parameters if p.default is None and not (tuned and p.constexpr))
        return tuple(p.name for p in self.host.parameters if p.default is None) if self.host is not None else ()


def calls_of(spec: Spec, subject: Subject, place: Place) -> tuple[Call, ...]:
    """Return the calls that a spec describes.

    Raises:
        SpecError: with the position of the character that is wrong.
    """
    if subject.host is not None and subject.host.called_as is None:
        raise place.error(
            0,
            f"{subject.function} needs an object to be called on.",
            "Write the spec above the kernel, or above a function.",
        )
    if not spec.items:
        raise place.error(0, "the launch spec is empty.", "Give the arguments, as in: launch x=fp16[4096, 4096] n=4096")
    plan = _plan(spec, subject, place)
    found: dict[str, Call] = {}
    for chosen in _combinations(spec, place):
        call = plan.call({**plan.values, **chosen})
        found.setdefault(call.id, call)
    return tuple(found.values())


def with_id(call: Call) -> Call:
    """Return `call` with its id set to a short hash of what it calls with what."""
    body = json.dumps(
        encode((call.file, call.function, call.arguments, call.keywords, call.kernel_launch)), sort_keys=True
    )
    return dataclasses.replace(call, id=hashlib.sha256(body.encode()).hexdigest()[:12])


@dataclass(frozen=True)
class _Plan:
    """A checked spec: which names are arguments, options and the grid, and which only give sizes."""

    subject: Subject
    place: Place
    values: Mapping[str, Node]
    arguments: tuple[str, ...]
    options: tuple[str, ...]
    grid: Node | None
    buffers: Mapping[str, int]
    lacking: SpecError | None
    """What is left out; said when all that is there is right."""

    def call(self, values: Mapping[str, Node]) -> Call:
        kernel, host = self.subject.kernel, self.subject.host
        scope = Scope(self.place, values, value_of, kernel is not None, self.buffers)
        given = {name: scope.lookup(name, 0) for name in self.arguments}
        for name in values:  # also what no argument reads must be right
            scope.lookup(name, 0)
        if self.lacking is not None:
            raise self.lacking
        launch = None
        if kernel is not None and self.grid is not None:
            options = tuple((name, option_of(name, scope)) for name in self.options)
            launch = KernelLaunch(grid_of(self.grid, scope, self.subject.parameters or ()), options)
        function = self.subject.function
        positional: tuple[Value, ...] = ()
        if host is not None:
            function = host.called_as or function
            if host.positional:
                positional = tuple(given.pop(p.name) for p in host.parameters if p.name in given)
        return with_id(Call("", self.subject.file, function, positional, tuple(given.items()), kernel_launch=launch))


def _plan(spec: Spec, subject: Subject, place: Place) -> _Plan:
    parameters = subject.parameters
    places: dict[str, int] = {}
    values: dict[str, Node] = {}
    arguments: list[str] = []
    options: list[str] = []
    grid: Node | None = None
    for item in spec.items:
        for name, at in [(item.name, item.at)] if isinstance(item, Given) else item.names:
            if name in places:
                raise place.error(at, f"{name} is given twice.")
            places[name] = at
        is_own = parameters is not None and isinstance(item, Given) and item.name not in parameters
        if isinstance(item, Given) and subject.kernel is not None and item.name == "grid" and is_own:
            grid = item.value
            continue
        names = [item.name] if isinstance(item, Given) else [name for name, _ in item.names]
        if isinstance(item, Given):
            values[item.name] = item.value
        for name in names:
            if subject.kernel is not None and name in OPTIONS and name not in (parameters or ()):
                options.append(name)
            elif _is_argument(name, item, spec, subject):
                arguments.append(name)
            elif not _is_read(name, spec):
                raise _unread(name, item, places[name], subject, place)
    shared = sorted(name for name in values if isinstance(values[name], TensorNode) and _is_shared(name, values))
    return _Plan(
        subject, place, values, tuple(arguments), tuple(options), grid, {name: i for i, name in enumerate(shared)},
        _lacking(spec, arguments, grid, subject, place),
    )  # fmt: skip


def _is_argument(name: str, item: Given | Choice, spec: Spec, subject: Subject) -> bool:
    parameters = subject.parameters
    if parameters is None:
        return isinstance(item, Given) or not _is_read(name, spec)
    if name in parameters:
        return True
    return subject.host is not None and subject.host.open and not _is_read(name, spec)


def _is_read(name: str, spec: Spec) -> bool:
    """Tell whether another item of the spec reads `name`."""
    for item in spec.items:
        if isinstance(item, Given):
            if item.name != name and name in names_in(item.value):
                return True
        elif all(own != name for own, _ in item.names) and any(
            name in names_in(option) for option in (*item.options, *_span_parts(item.span))
        ):
            return True
    return False


def _span_parts(span: Span | None) -> tuple[Node, ...]:
    return () if span is None else tuple(part for part in (span.first, span.last, span.step) if part is not None)


def _unread(name: str, item: Given | Choice, at: int, subject: Subject, place: Place) -> Exception:
    parameters = subject.parameters or ()
    known = [*parameters, *(("grid", *OPTIONS) if subject.kernel is not None else ())]
    label = subject.kernel.name if subject.kernel is not None else subject.function
    if isinstance(item, Choice):
        mend = nearest(name, known, "Use it in an extent; the parameters are")
        return place.error(at, f"nothing reads {name}, and {label} has no parameter of that name.", mend)
    return place.error(at, f"{label} has no parameter {name!r}.", nearest(name, known, "Its parameters"))


def _lacking(spec: Spec, arguments: list[str], grid: Node | None, subject: Subject, place: Place) -> SpecError | None:
    if subject.kernel is not None and grid is None:
        return place.error(spec.end, "a spec above a kernel needs a grid.", "Add for example: grid=cdiv(n, BLOCK)")
    missing = [name for name in subject.required if name not in arguments]
    if missing:
        return place.error(spec.end, f"the spec does not give {', '.join(missing)}.", "Add name=value.")
    host = subject.host
    if host is not None and host.positional:
        wanted = [p.name for p in host.parameters]
        last = max((wanted.index(name) for name in arguments if name in wanted), default=-1)
        gaps = [name for name in wanted[: last + 1] if name not in arguments]
        if gaps:
            return place.error(
                spec.end, f"{host.called_as} takes its arguments in order, and {gaps[0]} is left out.", "Add it."
            )
    return None


def _is_shared(name: str, values: Mapping[str, Node]) -> bool:
    return any(name in _tensors_named(node) for other, node in values.items() if other != name)


def _tensors_named(node: Node) -> frozenset[str]:
    """Return the names that may stand for whole tensors in a value: itself, a view's base, items of lists."""
    if isinstance(node, Name):
        return frozenset({node.name})
    if isinstance(node, TensorNode):
        return frozenset({node.base} if node.base is not None else ())
    if isinstance(node, Sequence):
        return frozenset().union(*(_tensors_named(item) for item in node.items))
    return frozenset()


def _combinations(spec: Spec, place: Place) -> Iterator[dict[str, Node]]:
    choices = [item for item in spec.items if isinstance(item, Choice)]
    axes: list[list[dict[str, Node]]] = []
    total = 1
    for choice in choices:
        options = _options(choice, place)
        total *= len(options)
        if total > MAX_CALLS:
            raise place.error(
                choice.at,
                f"these sizes make {total} calls or more, and a spec describes at most {MAX_CALLS}.",
                "Choose fewer, step further, or pair them: M, N in [(1, 4096), (128, 128)].",
            )
        axes.append(options)
    for picked in itertools.product(*axes):
        merged: dict[str, Node] = {}
        for one in picked:
            merged.update(one)
        yield merged


def _options(choice: Choice, place: Place) -> list[dict[str, Node]]:
    if choice.span is not None:
        if len(choice.names) > 1:
            raise place.error(choice.span.at, "a range gives one size.", "As in M, N in [(1, 2), (3, 4)].")
        ((name, _),) = choice.names
        return [{name: Constant(choice.span.at, size)} for size in _sizes(choice, choice.span, place)]
    if len(choice.names) == 1:
        ((name, _),) = choice.names
        return [{name: option} for option in choice.options]
    rows = []
    for option in choice.options:
        if not isinstance(option, Sequence) or len(option.items) != len(choice.names):
            names = ", ".join(name for name, _ in choice.names)
            raise place.error(
                option.at, f"expected {len(choice.names)} values, for {names}.", "As in M, N in [(1, 2), (3, 4)]."
            )
        rows.append({name: item for (name, _), item in zip(choice.names, option.items, strict=True)})
    return rows


def _sizes(choice: Choice, span: Span, place: Place) -> list[int]:
    scope = Scope(place, {}, value_of)
    first, last = integer(span.first, scope, "a size"), integer(span.last, scope, "a size")
    step = 1 if span.step is None else integer(span.step, scope, "a step")
    if last < first:
        raise place.error(span.last.at, f"this range is empty: {last} is below {first}.")
    if span.step is not None and step < (2 if span.factor else 1):
        raise place.error(span.step.at, f"a step of {step} leads nowhere.")
    if span.factor and first < 1:
        raise place.error(span.first.at, "a range that multiplies starts at 1 or more.")
    sizes = [first]
    while (following := sizes[-1] * step if span.factor else sizes[-1] + step) <= last:
        sizes.append(following)
        if len(sizes) > MAX_CALLS:
            raise place.error(
                choice.at,
                f"this range has more than {MAX_CALLS} sizes.",
                "Step further, as in 128..4096 step 1024 or 128..4096 step *2.",
            )
    return sizes
