"""Structural rewrites: transforms of a kernel's concrete syntax tree, with the host code that must follow."""

from __future__ import annotations

from tritonforge.rewrite.structural.causal_split import CausalSplit
from tritonforge.rewrite.structural.chunked_recurrence import ChunkedRecurrence
from tritonforge.rewrite.structural.chunked_state import ChunkedState
from tritonforge.rewrite.structural.column_loop import ColumnLoop
from tritonforge.rewrite.structural.constexpr_size import ConstexprSize
from tritonforge.rewrite.structural.dot_accumulator import DotAccumulator
from tritonforge.rewrite.structural.exp2_scale import Exp2Scale
from tritonforge.rewrite.structural.frame import (
    Change,
    NothingHere,
    Rewritten,
    Structural,
    going_on,
    rewrites,
    together,
)
from tritonforge.rewrite.structural.grouped_heads import GroupedHeads
from tritonforge.rewrite.structural.k_major import KMajor
from tritonforge.rewrite.structural.late_scale import LateScale
from tritonforge.rewrite.structural.loop_axis import LoopAxis
from tritonforge.rewrite.structural.loops_and_arithmetic import LOOPS_AND_ARITHMETIC
from tritonforge.rewrite.structural.masked_tail import MaskedTail
from tritonforge.rewrite.structural.narrow_operands import NarrowOperands
from tritonforge.rewrite.structural.one_pass_variance import OnePassVariance
from tritonforge.rewrite.structural.online_softmax import OnlineSoftmax
from tritonforge.rewrite.structural.pairs import Pairs
from tritonforge.rewrite.structural.persistent import Persistent
from tritonforge.rewrite.structural.pipelined_loops import PipelinedLoops
from tritonforge.rewrite.structural.plain_strides import PlainStrides
from tritonforge.rewrite.structural.private_sums import PrivateSums
from tritonforge.rewrite.structural.program_order import GroupedPrograms, HeaviestFirst, ProgramAxes
from tritonforge.rewrite.structural.relaxed_atomics import RelaxedAtomics
from tritonforge.rewrite.structural.row_tiles import RowTiles
from tritonforge.rewrite.structural.scalar_loop import ScalarLoop
from tritonforge.rewrite.structural.several_rows import SeveralRows
from tritonforge.rewrite.structural.split_loop import SplitLoop
from tritonforge.rewrite.structural.sum_of_products import SumOfProducts
from tritonforge.rewrite.structural.tensor_descriptors import TensorDescriptors
from tritonforge.rewrite.structural.two_stages import TwoStages
from tritonforge.rewrite.structural.unlocked_sums import UnlockedSums
from tritonforge.rewrite.structural.whole_row import WholeRow

REWRITES: tuple[Structural, ...] = (
    GroupedHeads(),
    SeveralRows(),
    WholeRow(),
    DotAccumulator(),
    RelaxedAtomics(),
    ConstexprSize(),
    PlainStrides(),
    PipelinedLoops(),
    Exp2Scale(),
    LateScale(),
    CausalSplit(),
    MaskedTail(),
    Pairs(),
    ScalarLoop(),
    KMajor(),
    UnlockedSums(),
    TwoStages(),
    ColumnLoop(),
    RowTiles(),
    SumOfProducts(),
    NarrowOperands(),
    OnlineSoftmax(),
    OnePassVariance(),
    SplitLoop(),
    PrivateSums(),
    TensorDescriptors(),
    *LOOPS_AND_ARITHMETIC,
    Persistent(),
    ChunkedRecurrence(),
    ChunkedState(),
    LoopAxis(),
    HeaviestFirst(),
    GroupedPrograms(),
    ProgramAxes(),
)
"""Every structural rewrite, in the order in which they are tried when nothing is known of the bottleneck."""

__all__ = ["REWRITES", "Change", "NothingHere", "Rewritten", "Structural", "going_on", "rewrites", "together"]
