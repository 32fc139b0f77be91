"""`Reading`: what a host function shows of its parameters, before anything is decided."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

Extent = tuple[str, int]
"""An axis of a parameter; a negative axis counts from the end until the rank is known."""


@dataclass
class Evidence:
    """What is known of one parameter: `rank` for certain, `weak_rank` from a view of it, `least_rank` at the least."""

    tensor: int = 0
    scalar: int = 0
    rank: int | None = None
    weak_rank: int | None = None
    least_rank: int = 0
    dtypes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    none: bool = False
    items: int = 0
    """How many items it has, if it is a list that is read by number."""


@dataclass
class Reading:
    """All that a function shows: evidence for each parameter, equal extents, and the names given to extents."""

    parameters: tuple[str, ...]
    evidence: dict[str, Evidence] = field(default_factory=dict)
    names: dict[Extent, str] = field(default_factory=dict)
    equal: list[tuple[Extent, Extent]] = field(default_factory=list)
    alike: list[tuple[str, str]] = field(default_factory=list)
    fixed: dict[Extent, int] = field(default_factory=dict)
    sizes: dict[str, Extent] = field(default_factory=dict)
    """Parameters that are numbers equal to an extent."""
    calls: list[ast.Call] = field(default_factory=list)
