"""Faults that the interpreter sees when it runs the calls behind launches, put into the cases of those launches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial

from tritonforge.diagnosis.assessment import Assessed
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.domain.faults import Fault
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, tensors_of
from tritonforge.domain.messages import Limits, Program, Watch, WatchResult
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.jobs.together import all_of

MOST_ELEMENTS = 1 << 20
"""Elements of the tensors of a call up to which it is interpreted: larger ones take minutes."""
_SECONDS = 5.0
_MOST_CALLS = 4
_MEMORY = 4 << 30


async def watched(
    session: Session,
    program: Program,
    kernel: Kernel,
    calls: Sequence[Call],
    assessed: Sequence[Assessed],
    *,
    earlier: CompiledCalls | None = None,
) -> tuple[Assessed, ...]:
    """Return `assessed` with what was seen of `kernel` in the calls that are small enough to be interpreted.

    The first few of them, as many at once as there are lanes, each for a few seconds. A call that cannot be interpreted
    adds nothing; one that `earlier` knows what was seen of, or that another kernel of the same run has had interpreted,
    is not interpreted again.
    """
    archs = {one.compilation.arch for one in assessed}

    async def seen_in(call: Call) -> Sequence[Fault]:
        known = earlier.find_faults(program, kernel, call) if earlier is not None else None
        if known is not None:
            return known
        look = partial(_seen, session, program, call)
        found = await (earlier.interpreted_once(program, call, look) if earlier is not None else look())
        if found is None:
            return ()
        own = [fault for fault in found.faults if _is_of(fault, kernel)]
        if earlier is not None:
            earlier.keep_faults(program, kernel, call, archs, own)
        return own

    small = [call for call in calls if is_small(call)][:_MOST_CALLS]
    faults = dict.fromkeys(fault for found in await all_of(map(seen_in, small)) for fault in found)
    if not faults:
        return tuple(assessed)
    seen = tuple(faults)
    return tuple(dataclasses.replace(one, case=dataclasses.replace(one.case, faults=seen)) for one in assessed)


async def _seen(session: Session, program: Program, call: Call) -> WatchResult | None:
    """Interpret a call; None when that cannot be done."""
    limits = Limits(seconds=6 * _SECONDS, memory_bytes=_MEMORY)
    try:
        return await session.worker.run(Watch(program, call, _SECONDS), limits=limits)
    except JobError:
        return None


def is_small(call: Call) -> bool:
    """Tell whether the arguments of a call, and what its launches work on, are small enough to be interpreted."""
    values = [*call.arguments, *(value for _, value in call.keywords)]
    values += [value for launch in call.launches for _, value in launch.arguments]
    elements = [tensor.elements for value in values for tensor in tensors_of(value)]
    programs = [math.prod(launch.grid) for launch in call.launches]
    return max(elements, default=0) <= MOST_ELEMENTS and max(programs, default=0) <= MOST_ELEMENTS


def _is_of(fault: Fault, kernel: Kernel) -> bool:
    """Faults of programs that meet name the function alone."""
    return fault.kernel in {kernel.name, kernel.simple_name}
