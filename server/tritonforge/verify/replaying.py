"""The id that repeats a check: the seed of its inputs, and for a refusal the input that is tried first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Where = Literal["call", "direct", "device"]
_WHERE: dict[str, Where] = {"c": "call", "d": "direct", "g": "device"}
_ORDER: tuple[Where, ...] = ("call", "direct", "device")
_ID = re.compile(r"^([0-9a-fA-F]{1,8})(?:-([cdg])(\d+)\.(\d+))?$")


@dataclass(frozen=True)
class Place:
    """Which input of a check: run through the host function (`call`), launched directly, or run on the GPU.

    `call` counts the recorded calls, or the kernels that are launched directly, and `index` its inputs, both from 0.
    """

    where: Where
    call: int
    index: int

    def __lt__(self, other: Place) -> bool:
        """Order places as a check goes through them."""
        return self._key < other._key

    @property
    def _key(self) -> tuple[int, int, int]:
        return (_ORDER.index(self.where), self.call, self.index)

    @staticmethod
    def id(seed: int, place: Place | None = None) -> str:
        """Return the replay id: `0a1b2c3d`, or `0a1b2c3d-c0.12` where an input was refused."""
        if place is None:
            return f"{seed:08x}"
        letter = next(letter for letter, where in _WHERE.items() if where == place.where)
        return f"{seed:08x}-{letter}{place.call}.{place.index}"


def read_id(text: str) -> tuple[int, Place | None] | None:
    """Return the seed of a replay id and the input to try first; None when it is no replay id."""
    found = _ID.match(text.strip())
    if found is None:
        return None
    place = Place(_WHERE[found[2]], int(found[3]), int(found[4])) if found[2] else None
    return int(found[1], 16), place
