"""The rules of the catalogue, one module each, in the table that `diagnose` walks."""

from __future__ import annotations

from tritonforge.diagnosis.rules import (
    at_roofline,
    block_too_small,
    grid_too_small,
    local_memory_traffic,
    low_occupancy,
    masked_load_without_other,
    no_tuning,
    scalar_loop,
    tile_too_small,
)
from tritonforge.diagnosis.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    local_memory_traffic.RULE,
    tile_too_small.RULE,
    scalar_loop.RULE,
    low_occupancy.RULE,
    grid_too_small.RULE,
    block_too_small.RULE,
    no_tuning.RULE,
    masked_load_without_other.RULE,
    at_roofline.RULE,
)
"""Every rule, in order of its code."""
