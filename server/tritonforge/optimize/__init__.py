"""The loop: search strategy, budget, pruning, stopping, ranking."""
