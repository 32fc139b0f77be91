"""`Kernel` + findings → candidates, behind one protocol; edits as diffs, and written to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tritonforge.rewrite.apply import ChangedOnDisk, apply_to_disk
from tritonforge.rewrite.diff import edits_between, unified_diff
from tritonforge.rewrite.protocol import Engine, Refusal, Task, Thinker
from tritonforge.rewrite.rules.launch_parameters import rewrite_launch
from tritonforge.rewrite.space import parameter_space, proposals
from tritonforge.rewrite.together import together

if TYPE_CHECKING:
    from tritonforge.rewrite.engine import RuleEngine

__all__ = [
    "ChangedOnDisk",
    "Engine",
    "Refusal",
    "RuleEngine",
    "Task",
    "Thinker",
    "apply_to_disk",
    "default_engines",
    "edits_between",
    "parameter_space",
    "proposals",
    "rewrite_launch",
    "together",
    "unified_diff",
]


def __getattr__(name: str) -> Any:
    # Late: the syntax trees of structural rewrites take a second to load, which a server that shows mends never needs.
    if name == "RuleEngine":
        from tritonforge.rewrite.engine import RuleEngine

        return RuleEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def default_engines() -> tuple[Engine, ...]:
    """Return the engines that are asked when none were chosen."""
    from tritonforge.rewrite.engine import RuleEngine

    return (RuleEngine(),)
