"""Compiler options of a kernel spec: what each may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tritonforge.domain.launch import Scalar, Value
from tritonforge.workload.specs.expressions import Scope


@dataclass(frozen=True)
class _Option:
    """What a value must be, in words that follow "must be", and the test of it."""

    wanted: str
    allows: Callable[[int], bool]


def _power_of_two(most: int) -> _Option:
    return _Option(f"a power of two from 1 to {most}", lambda n: 1 <= n <= most and n & (n - 1) == 0)


_OPTIONS = {
    "num_warps": _power_of_two(32),  # 1024 threads, the most of a block
    "num_stages": _Option("0 or more, and less than 100", lambda n: 0 <= n < 100),
    "num_ctas": _power_of_two(16),
    "maxnreg": _Option("1 to 255", lambda n: 1 <= n <= 255),
}
OPTIONS = tuple(_OPTIONS)
"""Compiler options that a kernel spec may set beside the kernel's own parameters."""


def option_of(name: str, scope: Scope) -> Value:
    """Return the value that the spec gives the option `name`.

    Raises:
        SpecError: at a value that no compiler takes.
    """
    value = scope.lookup(name, 0)
    found = value.value if isinstance(value, Scalar) else None
    if name == "maxnreg" and isinstance(value, Scalar) and found is None:  # as Triton writes that there is no limit
        return value
    option = _OPTIONS[name]
    if type(found) is not int or not option.allows(found):
        what = f", not {found!r}" if isinstance(value, Scalar) else ""
        raise scope.place.error(scope.values[name].at, f"{name} must be {option.wanted}{what}.", f"As in {name}=4.")
    return value
