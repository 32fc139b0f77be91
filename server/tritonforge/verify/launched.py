"""What a program launches when calls are repeated, compiled but not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonforge.domain.launch import Call, RecordedLaunch, Scalar
from tritonforge.domain.messages import Compile, CompiledLaunch, Program
from tritonforge.jobs import Worker
from tritonforge.jobs.together import all_of
from tritonforge.verify.precision import Attributes, attributes

LARGEST_BLOCK = 1 << 16


@dataclass(frozen=True)
class Launched:
    """What a program launches when calls are repeated, and the first launch that does not compile, as one sentence.

    `compiled` holds for each call the distinct launches that it makes, with their first IR.
    """

    launches: tuple[RecordedLaunch, ...]
    error: str | None = None
    compiled: tuple[tuple[CompiledLaunch, ...], ...] = ()

    @property
    def largest_tile(self) -> int:
        """The largest constexpr integer that can be a block size, at least 64."""
        values = [
            value.value for launch in self.launches for _, value in launch.constexprs if isinstance(value, Scalar)
        ]
        return max([64, *(v for v in values if type(v) is int and v <= LARGEST_BLOCK)])

    @property
    def autotuned(self) -> bool:
        """Whether an autotuner makes some of them, as far as they are known."""
        return not self.launches or any(launch.autotuned for launch in self.launches)

    @property
    def grid(self) -> frozenset[int]:
        """The extents of its grids."""
        return frozenset(extent for launch in self.launches for extent in launch.grid if extent > 1)

    def attributes(self, program: Program) -> tuple[Attributes, ...]:
        """Return what decides the precision of each call's launches."""
        file = str(Path(program.root) / program.file)
        return tuple(attributes(launches, file) for launches in self.compiled)


async def launched(worker: Worker, program: Program, calls: Sequence[Call], arch: str) -> Launched:
    """Repeat `calls` on `program` without running anything, compiling what it launches.

    Raises:
        JobError: when a call cannot be repeated.
    """
    results = await all_of(worker.run(Compile(program, call, arch, artefacts=("ttir",))) for call in calls)
    compiled = [one.launches for one in results]
    every = [one for launches in compiled for one in launches]
    error = next((one.error for one in every if one.error), None)
    return Launched(tuple(one.launch for one in every), error, tuple(compiled))
