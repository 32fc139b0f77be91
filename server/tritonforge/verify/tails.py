"""Did inputs that crossed a tile in every size come out right? What shows that an access needs no mask."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.launch import Call, Scalar, Tensor
from tritonforge.verify.judgement import Tried
from tritonforge.verify.resizing import leaves, places


def crosses_every_size(call: Call, tried: Sequence[Tried]) -> bool:
    """Tell whether for each size of `call` an input with an odd one was interpreted and came out equal.

    No tile divides an odd size, and every access outside a buffer of the launch ends an interpreted run. A call without
    sizes, or whose sizes could not be changed, shows nothing.
    """
    sizes = places(call)
    equal = [one for one in tried if one.place.where == "call" and one.outcome.status == "equal"]
    values = [dict(leaves(one.variation.call)) for one in equal]

    def crossed(path: tuple[str | int, ...], axis: int) -> bool:
        for found in values:
            value = found.get(path)
            size: object = None
            if isinstance(value, Tensor) and 0 <= axis < len(value.shape):
                size = value.shape[axis]
            elif isinstance(value, Scalar) and axis < 0:
                size = value.value
            if isinstance(size, int) and size > 1 and size % 2:
                return True
        return False

    return bool(sizes) and all(crossed(place.path, place.axis) for place in sizes)
