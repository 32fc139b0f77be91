"""Remember what each operation of the language comes down to: calls of the builder, which its operands' types decide.

An operation of a few microseconds of arithmetic takes the language a hundred: it checks types, promotes, broadcasts and
wraps again and again what it has wrapped before. All of this depends on types and constants alone, so the first time an
operation meets operands of some types, the builder's calls are written down, and from then on they are made directly.
The builder itself stays in between, with all that is patched into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

_MOST = 50_000
"""So many operations on operands of other types or other constants are remembered."""
_FUNCTIONS = (
    "program_id", "num_programs", "arange", "full", "broadcast", "broadcast_to", "trans", "permute", "view", "reshape",
    "expand_dims", "cast", "dot", "load", "store", "where", "add", "sub", "mul", "minimum", "maximum", "clamp", "abs",
    "exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "sqrt_rn", "rsqrt", "floor", "ceil", "erf", "fma", "fdiv",
    "div_rn", "umulhi", "to",
)  # fmt: skip
_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift", "lt", "le", "gt", "ge",
    "eq", "ne", "neg", "invert", "getitem", "radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rand", "ror",
    "rxor", "rlshift", "rrshift",
)  # fmt: skip
_NUMBER = "_tritonforge_number"


_SINCE = (3, 7)
"""Of Triton 3.6 the stores of the first program are lost when its operations are written down."""


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in triton.__version__.split("+")[0].split(".")[:2])


class _NotPlain(Exception):
    """Something takes part whose type and value do not tell what an operation does with it."""


def install() -> None:
    """Let operations of the language be remembered. The language must have been patched for interpretation before."""
    semantic = getattr(interpreter, "interpreter_semantic", None)
    if semantic is None or not hasattr(semantic, "builder") or _version() < _SINCE:
        return  # of a Triton that hands the builder to each operation, or whose stores go another way
    for owner, names in (
        (tl.tensor, (*(f"__{name}__" for name in _OPERATORS), "logical_and", "logical_or", *_FUNCTIONS)),
        *((module, _FUNCTIONS) for module in (tl, tl.core, tl.math)),
    ):
        for name in names:
            member = getattr(owner, name, None)
            # What Triton has patched is a plain function; kernels of the language's own are none.
            if callable(member) and type(member) is type(install) and not hasattr(member, "remembered"):
                setattr(owner, name, _remembered(member, semantic))


@dataclass(frozen=True)
class _Plan:
    """The builder's calls of an operation, and what its result has besides the handle they return."""

    run: Callable[..., Any]
    constants: tuple[Any, ...]
    attributes: dict[str, Any] | None
    """None: the result is what `run` returns."""


_inside = False
"""Whether an operation runs as the language has it, whose parts are no operations of their own."""
_recorded = 0
_performed = 0


def performed() -> int:
    """Return how many operations were interpreted so far in this process: what a run costs, on any machine.

    An operation counts once, remembered or not.
    """
    return _performed


def _remembered(member: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    plans: dict[Any, _Plan | None] = {}
    tensor, builder = tl.tensor, semantic.builder
    new = tensor.__new__

    def operation(*args: Any, **kwargs: Any) -> Any:
        global _performed
        if _inside:
            return member(*args, **kwargs)
        _performed += 1
        if "_semantic" in kwargs:
            kwargs = {name: value for name, value in kwargs.items() if name != "_semantic"}
        try:
            key: Any = tuple([_number(a.type) if a.__class__ is tensor else _plain(a) for a in args])
            if kwargs:
                key = key, *((n, _number(v.type) if v.__class__ is tensor else _plain(v)) for n, v in kwargs.items())
        except _NotPlain:
            return _as_it_is(member, args, kwargs)
        plan = plans.get(key)
        if plan is None:
            if key in plans or _recorded >= _MOST:
                return _as_it_is(member, args, kwargs)
            result, plans[key] = _record(member, semantic, args, kwargs)
            return result
        made = plan.run(builder, plan.constants, args, kwargs)
        if plan.attributes is None:
            return made
        result = new(tensor)
        vars(result).update(plan.attributes)
        result.handle = made
        return result

    operation.remembered = member  # type: ignore[attr-defined]
    return operation


def _as_it_is(member: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    global _inside
    _inside = True
    try:
        return member(*args, **kwargs)
    finally:
        _inside = False


_numbers: dict[Any, int] = {}


def _number(kind: Any) -> int:
    """Return a number that stands for a type, the same for types that say the same."""
    found: int | None = vars(kind).get(_NUMBER)
    if found is None:
        found = _numbers.setdefault(_described(kind), len(_numbers))
        vars(kind)[_NUMBER] = found
    return found


def _described(kind: Any) -> Any:
    if isinstance(kind, tl.block_type):
        return "block", _number(kind.element_ty), tuple(int(_value(n)) for n in kind.shape)
    if isinstance(kind, tl.pointer_type):
        space = getattr(kind, "address_space", None)
        return "pointer", _number(kind.element_ty), space, bool(_value(getattr(kind, "const", False)))
    if type(kind) is tl.dtype:
        return kind.name
    raise _NotPlain


def _value(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _plain(value: Any) -> Any:
    """Return a key for a constant; numbers that compare equal but differ have keys of their own.

    Raises:
        _NotPlain: when it is no constant.
    """
    kind = value.__class__
    if kind in {int, bool, str, type(None)}:
        return kind, value
    if kind is float:
        return kind, value.hex()
    if kind is tl.constexpr:
        return kind, _plain(value.value)
    if kind is slice:
        return kind, _plain(value.start), _plain(value.stop), _plain(value.step)
    if kind in {tuple, list}:
        return kind, tuple([_plain(one) for one in value])
    if isinstance(value, tl.dtype):
        return tl.dtype, _number(value)
    raise _NotPlain


def _record(
    member: Callable[..., Any], semantic: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, _Plan | None]:
    """Run an operation as the language has it, and return its result and how to repeat it (None: not known)."""
    global _recorded
    given = {f"a[{i}]": a for i, a in enumerate(args)} | {f"k[{n!r}]": v for n, v in kwargs.items()}
    given = {name: value for name, value in given.items() if isinstance(value, tl.tensor)}
    builder = semantic.builder
    recorder = _Recorder(builder, {id(value.handle): f"{name}.handle" for name, value in given.items()})
    semantic.builder = recorder
    try:
        result = _as_it_is(member, args, kwargs)
    finally:
        semantic.builder = builder
    _recorded += 1
    return result, recorder.plan(result, given)


@dataclass
class _Recorder:
    """Stands in for the builder and writes down, as lines of a function, the calls that handles go through."""

    builder: Any
    names: dict[int, str]
    lines: list[str] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    known: bool = True
    alive: list[Any] = field(default_factory=list)
    """What `names` knows by its identity."""

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.builder, name)
        return self._noting(name, member) if callable(member) else member

    def _noting(self, name: str, member: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = member(*args, **kwargs)
            makes = isinstance(result, TensorHandle)
            given = (*args, *kwargs.values())
            if not makes and all(_is_constant(a) for a in given):
                return result  # a type or an option
            try:
                terms = [self._term(a) for a in args] + [f"{n}={self._term(v)}" for n, v in kwargs.items()]
            except _NotPlain:
                self.known = False
                return result
            made = f"s{len(self.lines)}"
            self.lines.append(f"{made} = b.{name}({', '.join(terms)})")
            if makes:
                self.names.setdefault(id(result), made)
                self.alive.append(result)
            else:
                self.known = self.known and result is None
            return result

        return call

    def _term(self, value: Any) -> str:
        if id(value) in self.names:
            return self.names[id(value)]
        if not _is_constant(value):
            raise _NotPlain
        # Shapes come in lists of the language's own, which nobody changes.
        self.constants.append(value)
        return f"c[{len(self.constants) - 1}]"

    def plan(self, result: Any, given: Mapping[str, Any]) -> _Plan | None:
        """Return how to repeat what was written down; None where that is not known."""
        whole = next((name for name, value in given.items() if value is result), None)
        if result is None or whole is not None:
            attributes, returned = None, whole or "None"
        elif type(result) is tl.tensor and (result.handle is None or id(result.handle) in self.names):
            attributes = {name: value for name, value in vars(result).items() if name != "handle"}
            returned = "None" if result.handle is None else self.names[id(result.handle)]
        else:
            return None
        if not self.known:
            return None
        lines = [*self.lines, f"return {returned}"]
        return _Plan(_function("\n    ".join(lines)), tuple(self.constants), attributes)


def _is_constant(value: Any) -> bool:
    if isinstance(value, (list, tuple, tl.tuple)):
        return all(_is_constant(one) for one in value)
    if isinstance(value, tl.constexpr):
        return _is_constant(value.value)
    plain = isinstance(value, (int, float, str, tl.dtype, type(None)))
    return plain or type(value).__module__.startswith("triton._C")


_written: dict[str, Callable[..., Any]] = {}


def _function(body: str) -> Callable[..., Any]:
    found = _written.get(body)
    if found is None:
        space: dict[str, Any] = {}
        exec(compile(f"def run(b, c, a, k):\n    {body}\n", __file__, "exec"), space)
        found = _written[body] = space["run"]
    return found
