"""The rules of the catalogue, one module each, in the table that `diagnose` walks."""

from __future__ import annotations

from tritonforge.diagnosis.rules import (
    at_roofline,
    atomic_contention,
    bank_conflicts,
    block_too_small,
    grid_too_small,
    launch_bound,
    load_imbalance,
    local_memory_traffic,
    low_occupancy,
    masked_load_without_other,
    no_tensor_core,
    no_tuning,
    poor_l2_reuse,
    redundant_traffic,
    scalar_loop,
    tail_effect,
    tile_too_small,
    uncoalesced_access,
)
from tritonforge.diagnosis.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    uncoalesced_access.RULE,
    redundant_traffic.RULE,
    poor_l2_reuse.RULE,
    bank_conflicts.RULE,
    local_memory_traffic.RULE,
    atomic_contention.RULE,
    no_tensor_core.RULE,
    tile_too_small.RULE,
    scalar_loop.RULE,
    low_occupancy.RULE,
    grid_too_small.RULE,
    tail_effect.RULE,
    block_too_small.RULE,
    load_imbalance.RULE,
    launch_bound.RULE,
    no_tuning.RULE,
    masked_load_without_other.RULE,
    at_roofline.RULE,
)
"""Every rule, in order of its code."""
