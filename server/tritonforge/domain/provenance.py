"""Where a number comes from. Every number a person sees says so; kinds are never mixed silently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

Provenance = Literal["measured", "compiled", "derived", "predicted", "source"]
"""`measured`: this GPU, this kernel. `compiled`: the compiler's output. `derived`: computed from those. `predicted`: a
model. `source`: read off the source text."""


@dataclass(frozen=True)
class Evidence:
    """One fact behind a finding: a value with its unit (`bytes`, `1`, `µs`, `GB/s`, …) and provenance."""

    value: Union[int, float, bool, str, None]
    unit: str
    provenance: Provenance
