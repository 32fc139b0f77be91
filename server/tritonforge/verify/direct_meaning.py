"""Whether two kernels mean the same by their arguments: asked when one, launched directly, fails in the other's place.

A candidate may walk its rows in another order and leave other partial sums in a buffer that the host function adds up
afterwards. Nobody else sees those, but a direct launch does. So the launches that the host function itself makes
decide: where these already leave different things in a buffer although every result agrees, the buffer means something
else to the candidate, and the kernels cannot be compared without their host functions.
"""

from __future__ import annotations

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Compare, MeasureExtents, Program, Tolerance
from tritonforge.jobs import JobError, Worker
from tritonforge.verify.direct import as_candidates, reached
from tritonforge.verify.direct_buffers import as_launched
from tritonforge.verify.direct_pairs import comparable, distinct, of
from tritonforge.verify.direct_plan import LARGEST_TILE, plan_of
from tritonforge.verify.launched import launched


async def other_meaning(
    worker: Worker,
    original: Program,
    candidate: Program,
    call: Call,
    arch: str,
    *,
    kernel: Kernel,
    candidate_kernel: Kernel,
    buffer: str,
    tolerance: Tolerance,
) -> str:
    """Say what a buffer holds after the host function's own launches, where it is not the same for both kernels.

    Args:
        worker: where kernels are interpreted.
        original: the program of the original.
        candidate: the edited program.
        call: a call of the host function, small enough to be interpreted, on which both agree.
        arch: what launches are compiled for.
        kernel: the original's kernel.
        candidate_kernel: the candidate's.
        buffer: the parameter whose memory differed when the kernels were launched directly.
        tolerance: when outputs are equal.

    Returns:
        one sentence without its end, as it stands after `skipped: `; empty when both leave the same, or nothing is
        known.
    """
    try:
        before, after = [(await launched(worker, one, [call], arch)).launches for one in (original, candidate)]
        if comparable(kernel, candidate_kernel, before, after):
            return ""
        mine, theirs = of(kernel, before), of(candidate_kernel, after)
        for one, other in distinct(mine, theirs):
            plan = plan_of(kernel, one, mine, LARGEST_TILE)
            lengths = {n: max(v.span, 1) for n, v in one.arguments if isinstance(v, Tensor)}
            roomy = as_launched(plan, lengths, {}, function=reached(kernel), seed=call.seed)
            (found,) = (await worker.run(MeasureExtents(original, (roomy,)))).extents
            if found.error:
                continue
            fresh = {b.parameter: b.written and not b.read for b in found.buffers}
            direct = as_launched(plan, lengths, fresh, function=reached(kernel), seed=call.seed)
            theirs_too = as_candidates(direct, one, other, reached(candidate_kernel))
            result = await worker.run(
                Compare(original, candidate, (direct,), tolerance, candidate_inputs=(theirs_too,))
            )
            outcome = result.outcomes[0]
            if outcome.status == "different" and outcome.difference and outcome.difference.output == buffer:
                return (
                    "where the host function launches them, too, the two kernels leave different things in a buffer, "
                    f"and yet every result agrees ({outcome.detail})"
                )
    except JobError:
        return ""
    return ""
