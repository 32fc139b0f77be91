"""The rewrites of loops, accesses and arithmetic that leave a kernel's signature and grid alone."""

from __future__ import annotations

from tritonforge.rewrite.structural.cache_hints import CacheHints
from tritonforge.rewrite.structural.deferred_division import DeferredDivision
from tritonforge.rewrite.structural.frame import Structural
from tritonforge.rewrite.structural.hoisted_loads import HoistedLoads
from tritonforge.rewrite.structural.loop_nest import LoopNest
from tritonforge.rewrite.structural.loop_options import (
    FlattenedLoops,
    OneAccumulator,
    SpecializedWarps,
    UnrolledLoops,
)
from tritonforge.rewrite.structural.plain_pointers import PlainPointers
from tritonforge.rewrite.structural.reciprocal import Reciprocal
from tritonforge.rewrite.structural.static_loops import StaticLoops
from tritonforge.rewrite.structural.wide_random import WideRandom

LOOPS_AND_ARITHMETIC: tuple[Structural, ...] = (
    HoistedLoads(),
    StaticLoops(),
    DeferredDivision(),
    Reciprocal(),
    WideRandom(),
    PlainPointers(),
    UnrolledLoops(),
    LoopNest(),
    FlattenedLoops(),
    SpecializedWarps(),
    OneAccumulator(),
    CacheHints(),
)
"""In the order in which they are tried when nothing is known of the bottleneck."""
