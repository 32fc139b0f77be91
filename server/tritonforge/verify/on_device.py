"""What runs on the GPU of the inputs that were interpreted, and whether what was seen there stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import TUNED, Precision
from tritonforge.verify.comparing import Ran
from tritonforge.verify.inputs import Variation
from tritonforge.verify.judgement import Evidence, Tried
from tritonforge.verify.replaying import Place
from tritonforge.verify.sharing import Planned

ON_DEVICE = 16
"""Inputs of each call that run on the GPU as well."""
_FIRST_ON_DEVICE = 8
"""Of them, those that refuse most."""


@dataclass(frozen=True)
class OnDevice:
    """What happened on the GPU beside the interpreter, judged by what was known of the original's precision by then.

    A difference is only said to be one: whether it is explained by what is known at the end is asked anew.
    """

    ran: Ran
    precision: Precision | None

    def stands(self, precision: Precision | None) -> bool:
        """Tell whether the candidate agrees as well, now that `precision` is known.

        An original that loses more allows a candidate more: what agreed still does.
        """
        if self.ran.failing is not None:
            return False
        if precision == self.precision:
            return True
        if precision is None or self.precision is None:
            return False
        return precision.eps == self.precision.eps and precision.lost >= self.precision.lost


def beyond_bounds(evidence: Evidence, number: int) -> frozenset[int]:
    """Return which inputs of a call the original leaves its buffers on, as the interpreter has seen.

    On a GPU it reads there whatever lies beside them, which says nothing of a candidate.
    """
    failed = (one for one in _interpreted(evidence, number) if one.outcome.status == "original-failed")
    return frozenset(one.place.index for one in failed if one.outcome.out_of_bounds)


def undefined(evidence: Evidence, number: int, planned: Sequence[Planned]) -> frozenset[int]:
    """Return which inputs of a call that were made to fit programs of the original write differently to one element on.

    On a GPU any of them may be last, so that not even the original repeats its results.
    """
    made = {one.place.index for one in planned if one.made}
    found = {one.place.index for one in _interpreted(evidence, number) if one.outcome.overlapping}
    return frozenset(made & found)


def _interpreted(evidence: Evidence, number: int) -> Iterator[Tried]:
    return (one for one in evidence.tried if one.place.where == "call" and one.place.call == number)


def for_device(
    planned: Sequence[Planned], number: int, call: Call, seed: int, *, autotuned: bool = False
) -> list[Planned]:
    """Return what runs on the GPU.

    Args:
        planned: what is interpreted of the call.
        number: which call it is.
        call: the call as it was recorded, which runs there, too.
        seed: the check's.
        autotuned: whether the candidate has an autotuner. Its configurations take turns on the inputs, by the place so
            that a replay repeats it; for the recorded sizes it has chosen one by now, when it was timed.
    """
    recorded = Planned(Place("device", number, len(planned)), _recorded(call, seed), turn=TUNED if autotuned else 0)
    there = (
        replace(one, place=Place("device", number, index), weight=0.0, turn=index if autotuned else 0)
        for index, one in enumerate(planned)
    )
    return _fewer([*there, replace(recorded, complete=all(one.complete for one in planned))], seed)


def surely_on_device(usual: Sequence[Planned], call: Call, seed: int) -> list[Call]:
    """Return inputs of which it is known that they run on the GPU before it is known which others do.

    Args:
        usual: those that are interpreted first.
        call: the call as it was recorded.
        seed: the check's.
    """
    return [*(one.variation.call for one in usual[:_FIRST_ON_DEVICE]), _recorded(call, seed).call]


def _recorded(call: Call, seed: int) -> Variation:
    return Variation(replace(call, seed=seed + 101, launches=()), "as recorded")


def _fewer(planned: list[Planned], seed: int) -> list[Planned]:
    """Choose what runs on the GPU: the first, the last, which is as recorded, and others as the seed says.

    All of them run in the interpreter. Sizes and strides of another kind make the compiler specialise a kernel anew, on
    both sides, so that each input costs seconds there.
    """
    if len(planned) <= ON_DEVICE:
        return planned
    between = range(_FIRST_ON_DEVICE, len(planned) - 1)
    chosen = np.random.default_rng(seed).choice(between, ON_DEVICE - _FIRST_ON_DEVICE - 1, replace=False)
    return [*planned[:_FIRST_ON_DEVICE], *(planned[at] for at in sorted(chosen)), planned[-1]]
