"""What a server asks its backend to do, what it hears meanwhile, and what it gets.

All of these are plain frozen records: they are pickled, between two processes of one installation that trust each
other. Neither of them ever runs the user's code; that is the worker's, which is spoken to in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tritonforge.backend.facts import CodeState, KernelFacts
from tritonforge.config import Settings
from tritonforge.domain.candidate import Candidate, Verdict
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.kernel_report import Listing
from tritonforge.domain.results import OptimizeResult
from tritonforge.workload.index import Way

R = TypeVar("R")


@dataclass(frozen=True)
class Opening:
    """Which target a backend works on: its name (None: the default) and the interpreter that the user selected."""

    settings: Settings
    name: str | None
    python: str | None


@dataclass(frozen=True)
class Source:
    """A file as it stands in the editor; `texts` are the other open documents of its workspace, by file."""

    analysis: FileAnalysis
    text: str
    settings: Settings
    texts: Mapping[str, str] = field(default_factory=dict)


class Task(Generic[R]):
    """Something to be done that ends with an `R`."""


@dataclass(frozen=True)
class Profile(Task[KernelFacts]):
    """Profile a kernel. `allow_run`: its file may be run to find launches; `way`: what the user chose to run first."""

    source: Source
    kernel: Kernel
    allow_run: bool
    way: Way | None = None


@dataclass(frozen=True)
class Searched:
    """What a search ended with; `words` are a model's on it.

    Of what it suggests, `portable` is the autotuned form, `applied` the state of the code that it leads to, and
    `others` are the texts of other files that it changes, by file.
    """

    result: OptimizeResult
    facts: KernelFacts
    words: str = ""
    portable: Candidate | None = None
    applied: CodeState | None = None
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Optimize(Task[Searched]):
    """Search for a faster version. `model`: the user agreed that code is sent to the configured language model."""

    source: Source
    kernel: Kernel
    allow_run: bool
    way: Way | None
    budget_s: float
    model: bool = False


@dataclass(frozen=True)
class Record(Task[int]):
    """Run `way`, else what the file offers, to see launches; ends with how many there were."""

    source: Source
    kernel: Kernel
    way: Way | None = None


@dataclass(frozen=True)
class Inspect(Task[None]):
    """Compile the known launches of kernels; what is found comes as `Learned`. Nothing is run to find any."""

    source: Source
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True)
class ReadListings(Task[Mapping[str, tuple[Listing, ...]]]):
    """Read what the compiler made of a kernel that stood in `text`, by launch. Nothing is run to find its calls."""

    source: Source
    kernel: Kernel
    text: str
    launches: tuple[str, ...]


@dataclass(frozen=True)
class Version:
    """A candidate: the whole text of a file that defines it, what to call that, and the kernel's name in it."""

    text: str
    called: str
    kernel: Kernel


@dataclass(frozen=True)
class Judge(Task[Verdict]):
    """Put a version of a kernel through the gate, as `tritonforge verify` does."""

    source: Source
    kernel: Kernel
    version: Version
    allow_run: bool
    way: Way | None = None


@dataclass(frozen=True)
class Reported:
    """How far a task is."""

    message: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Said:
    """A sentence for the user; a `warning` where something is wrong."""

    sentence: str
    warning: bool = False


@dataclass(frozen=True)
class Learned:
    """Something about a kernel that can be shown before the task is over."""

    facts: KernelFacts


Event = Reported | Said | Learned
Tell = Callable[[Event], None]
