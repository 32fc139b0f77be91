"""Reductions and scans with a combine function of the kernel's own, a whole block at a time.

The interpreter combines element by element, in Python: a block of a thousand takes a thousand calls of the function. It
is associative by contract, so neighbours are combined pairwise here, in the order of their elements: log₂ n calls.
Running sums and products of floats are made so, too, as on a GPU: sums of one term after the other lose far more in a
long block than in a short one.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import np  # type: ignore[attr-defined,unused-ignore]


def install() -> None:
    """Patch the interpreter's general reduction and scan, where it has them."""
    for owner, name, ours in (
        (getattr(interpreter, "ReduceOps", None), "generic_reduce", _reduced),
        (getattr(interpreter, "ScanOps", None), "generic_scan", _scanned),
    ):
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, _for_powers_of_two(original, ours))
    scans = getattr(interpreter, "ScanOps", None)
    for name, operation in (("cumsum", np.add), ("cumprod", np.multiply)):
        original = getattr(scans, name, None)
        if original is not None:
            setattr(scans, name, _for_floats(original, operation))


def _for_powers_of_two(original: Any, ours: Any) -> Any:
    """Leave to the interpreter what the compiler would not take either."""

    def combined(self: Any, given: Any) -> Any:
        shape = given[0].handle.data.shape
        n = int(np.prod(shape)) if self.axis is None else shape[self.axis]
        return original(self, given) if n < 2 or n & (n - 1) else ours(self, given)

    return combined


def _for_floats(original: Any, operation: Any) -> Any:
    def running(self: Any, given: Any) -> Any:
        array = given.handle.data
        if not np.issubdtype(array.dtype, np.floating):
            return original(self, given)
        before, step = (slice(None),) * self.axis, 1
        while step < array.shape[self.axis]:
            new = array.copy()
            operation(
                array[(*before, slice(None, -step))], array[(*before, slice(step, None))],
                out=new[(*before, slice(step, None))],
            )  # fmt: skip
            array, step = new, step * 2
        return [self.to_tensor(array.copy() if array is given.handle.data else array, given.dtype)]

    return running


def _combine(self: Any, left: list[Any], right: list[Any], dtypes: list[Any]) -> list[Any]:
    """Return what the kernel's function makes of two lists of arrays of one shape."""
    made = [self.to_tensor(a, d) for side in (left, right) for a, d in zip(side, dtypes, strict=True)]
    result = self.combine_fn.fn(*made)
    results = result if isinstance(result, tuple) else (result,)
    arrays = [r.handle.data if isinstance(r, tl.tensor) else _plain(r) for r in results]
    # As the interpreter does it: what comes back is of the type of what went in.
    kept = zip(arrays, dtypes, left, strict=True)
    return [self.to_tensor(np.broadcast_to(a, was.shape), d).handle.data for a, d, was in kept]


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _reduced(self: Any, given: Any) -> list[Any]:
    parts, axis = self.unravel(given, self.axis)
    dtypes = [part.dtype for part in parts]
    arrays = [part.handle.data for part in parts]
    dimensions = given[0].handle.data.ndim
    while arrays[0].shape[axis] > 1:
        even, odd = ([_every_second(a, axis, start) for a in arrays] for start in (0, 1))
        arrays = _combine(self, even, odd, dtypes)
    out = []
    for array, dtype in zip(arrays, dtypes, strict=True):
        done = array.squeeze(axis)
        if self.keep_dims:
            done = array if self.axis is not None else done.reshape((1,) * dimensions)
        out.append(self.to_tensor(done if done.shape else done.item(), dtype))
    return out


def _every_second(array: Any, axis: int, start: int) -> Any:
    return array[(slice(None),) * axis + (slice(start, None, 2),)]


def _scanned(self: Any, given: Any) -> list[Any]:
    """Scan in log₂ n steps (Hillis and Steele, Data Parallel Algorithms, 1986)."""
    dtypes = [part.dtype for part in given]
    arrays = [part.handle.data.copy() for part in given]
    before = (slice(None),) * self.axis
    step = 1
    while step < arrays[0].shape[self.axis]:
        # Shapes stay powers of two, as the language asks: what comes round at the start is not taken.
        earlier = [np.roll(a, step, self.axis) for a in arrays]
        for array, new in zip(arrays, _combine(self, earlier, arrays, dtypes), strict=True):
            array[(*before, slice(step, None))] = new[(*before, slice(step, None))]
        step *= 2
    return [self.to_tensor(a, d) for a, d in zip(arrays, dtypes, strict=True)]
