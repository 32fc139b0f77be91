"""A loop over keys in two: full blocks without a mask, then the last block, which alone reaches beyond the end.

A length is seldom known to be a multiple of the block, so every round compares keys with it and chooses between scores
and minus infinity, for each score. Blocks before `length // BLOCK * BLOCK` hold keys alone.

Preconditions: a loop with a dot from 0 to a length over blocks of keys, whose scores are masked with `keys < length`
and with nothing else (`causal-split` takes those with a diagonal). A loop without a dot waits for memory, which masks
do not change. Loads of full blocks do not compare keys with the length either: on an H200, attention with both masks
took 640 µs, with neither 611.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import integer, name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of
from tritonforge.rewrite.structural.masked_loops import (
    applied,
    axis,
    block_loops,
    bound,
    resolved,
    split_at,
    steps_by,
    terms,
)


class MaskedTail:
    """Full blocks apart from the one at the end."""

    name = "masked-tail"
    treats = frozenset({"TF205"})
    classes: frozenset[BottleneckClass] = frozenset({"tensor-core", "fp32-compute", "special-function", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        for loop in block_loops(text):
            assert isinstance(loop.iter, cst.Call)
            start, stop, step = (a.value for a in loop.iter.args[:3])
            if not any(name_of(n, text.tl) == "dot" for n in nodes_of(loop.body)):
                continue
            masks = list(_masks(text, loop, code(step)))
            lengths = {length for _, length, _ in masks}
            if not masks or integer(start) != 0:
                continue
            if lengths != {code(stop)}:
                raise Refused(f"keys are masked with {min(lengths)}, and the loop ends at {code(stop)}")
            comment = f"The blocks before this one hold no keys beyond {code(stop)}."
            keys = masks[0][2]
            function = split_at(text, loop, code(stop), comment, [mask for mask, *_ in masks], below=(keys, code(stop)))
            yield Change("full blocks without a mask, then the last one", text.edits(function))
            return
        raise Absent("no loop with a dot masks its scores with the length alone")


def _masks(text: KernelText, loop: cst.For, step: str) -> Iterator[tuple[cst.SimpleStatementLine, str, str]]:
    """Yield the statements that mask scores with a length alone, each with the length and the keys."""
    for statement in loop.body.body:
        condition = applied(statement, text.tl)
        if condition is None or not isinstance(statement, cst.SimpleStatementLine):
            continue
        parts = list(terms(resolved(condition, loop)))
        for keys in _keys(parts):
            length = bound(parts[0], keys)
            if len(parts) == 1 and length is not None and steps_by(text, loop, keys, step):
                yield statement, length, keys


def _keys(parts: list[cst.BaseExpression]) -> Iterator[str]:
    """Yield `keys` of `keys[None, :] < length`."""
    for part in parts:
        side = axis(part.left) if isinstance(part, cst.Comparison) else None
        if side is not None:
            yield side[0]
