"""Integers that say where something is: indices, where rows begin, and numbers that are told of them.

They follow when sizes change, so that what was valid stays so: an index within its table, rows up to the last one, and
the length of the longest row beside where rows begin.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tritonforge.domain.launch import ExactValues, Scalar, Tensor, Value

_WIDE = frozenset(["int32", "int64"])
_LEAST_TOLD = 3
"""A number as small as one or two is a flag or a count of halves, and told of nothing."""
_LEAST_VALUE = 17
"""The same for what is told of single values, of which any small number is one by chance."""


def holds_integers(tensor: Tensor) -> bool:
    """Tell whether it was recorded which integers, wide enough for indices, the tensor holds."""
    return tensor.dtype in _WIDE and isinstance(tensor.values, ExactValues) and tensor.elements > 0


def integers_of(tensor: Tensor) -> np.ndarray:
    """Return the recorded integers, flat; those of `ExactValues` only."""
    assert isinstance(tensor.values, ExactValues)
    return np.frombuffer(zlib.decompress(tensor.values.data), dtype=np.dtype(tensor.dtype))


def exactly(values: np.ndarray) -> ExactValues:
    """Return the policy of a tensor that holds `values`."""
    return ExactValues(zlib.compress(values.tobytes()))


def starts(recorded: np.ndarray, wanted: int, extents: Mapping[int, int]) -> np.ndarray | None:
    """Return where rows begin when there are more or fewer of them; None where the integers do not say that.

    Fewer rows are shared out as the recorded ones were; what there is more goes to the longest stretch, so that it is
    longer than any that was recorded.
    """
    if recorded.size < 2 or wanted < 2 or recorded[0] >= recorded[-1] or (np.diff(recorded) < 0).any():
        return None
    old = int(recorded[-1])
    new = extents.get(old)
    if new is None:
        return None
    # One stretch more or fewer: the last one is cut into nothing, or takes over what the dropped ones had.
    kept = np.concatenate([recorded[: wanted - 1], np.full(max(wanted - recorded.size, 0) + 1, old)])[:wanted]
    found = kept.astype(np.int64)
    if new <= old:
        found = found * new // old
    else:
        longest = int(np.argmax(np.diff(found)))
        found[longest + 1 :] += new - old
    return found.astype(recorded.dtype)


def indices(values: np.ndarray, smallest: int) -> np.ndarray:
    """Return valid indices for them below `smallest`; negative ones, which often mean none, stay."""
    if values.dtype == bool or smallest <= 0 or not values.size or values.max() < smallest:
        return values
    positive = values >= 0
    distinct, ranks = np.unique(values[positive], return_inverse=True)
    folded = values.copy()
    alone = distinct.size == ranks.size and distinct.size <= smallest
    folded[positive] = ranks if alone else values[positive] % smallest
    return folded


Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Told:
    """A number that says something of the integers of the tensor at `path`: which is `say`'s matter."""

    number: int
    path: Path
    say: Callable[[np.ndarray], int]

    def of(self, tensor: Tensor) -> int:
        """Return the number for other integers in the tensor's place; the same where none are known."""
        return self.say(integers_of(tensor)) if isinstance(tensor.values, ExactValues) else self.number


def told_of(arguments: Iterable[tuple[Path, Value]]) -> dict[Path, Told]:
    """Return which numbers among arguments were told of recorded integers, by their path.

    A program that is launched for the longest of several rows is given its length, a table of sums its number of rows.
    Where that is more than chance is for who changes sizes to find out.
    """
    given = list(arguments)
    numbers = [(path, v.value) for path, v in given if isinstance(v, Scalar) and type(v.value) is int]
    wanted = [(path, number) for path, number in numbers if number >= _LEAST_TOLD]
    tensors = [(path, v) for path, v in given if isinstance(v, Tensor) and holds_integers(v)] if wanted else []
    found: dict[Path, Told] = {}
    for path, number in wanted:
        for at, tensor in tensors:
            assert isinstance(tensor.values, ExactValues)
            said = _say(tensor.values, tensor.dtype)
            least = _LEAST_TOLD if said and said[0][0] is longest else _LEAST_VALUE
            say = next((say for say, told in said if told == number >= least), None)
            if say is not None:
                found.setdefault(path, Told(number, at, say))
    return found


@lru_cache(maxsize=64)
def _say(values: ExactValues, dtype: str) -> tuple[tuple[Callable[[np.ndarray], int], int], ...]:
    """Return what may be said of integers, and what it is."""
    integers = np.frombuffer(zlib.decompress(values.data), dtype=np.dtype(dtype))
    if integers.size < 2:
        return ()
    rows = integers.size > 2 and integers[0] >= 0 and bool((np.diff(integers) >= 0).all())
    said: list[Callable[[np.ndarray], int]] = [longest] if rows else [greatest, beyond]
    return tuple((say, say(integers)) for say in said)


def longest(begins: np.ndarray) -> int:
    """Return the length of the longest row, by where rows begin."""
    return int(np.diff(begins).max(initial=0))


def greatest(integers: np.ndarray) -> int:
    """Return the greatest integer."""
    return int(integers.max(initial=0))


def beyond(integers: np.ndarray) -> int:
    """Return what no integer reaches."""
    return greatest(integers) + 1
