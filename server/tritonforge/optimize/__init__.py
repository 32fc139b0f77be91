"""The loop: search strategy, budget, pruning, stopping, ranking."""

from tritonforge.optimize.loop import optimize
from tritonforge.optimize.search import Step

__all__ = ["Step", "optimize"]
