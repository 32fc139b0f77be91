"""What of a kernel ran while a candidate was checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelCoverage:
    """Which statements and branches of one kernel (or helper) of a candidate ran in the interpreter.

    `file` is an absolute path. `lines` counts the lines at which statements begin, `branches` the sides of `if`,
    `while` and conditional expressions that a run decides: `(line, side)`, where a side is `true` or `false`, and for
    `while` `entered` or `left`. `constexpr_branches` are sides that constexprs (or an argument that is None) ruled out
    on every input; neither they nor what they hold count as missed.
    """

    kernel: str
    file: str
    lines: int
    lines_run: int
    branches: int = 0
    branches_taken: int = 0
    missed_lines: tuple[int, ...] = ()
    missed_branches: tuple[tuple[int, str], ...] = ()
    constexpr_branches: tuple[tuple[int, str], ...] = ()
