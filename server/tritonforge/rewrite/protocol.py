"""What every rewrite engine is given and gives back, so that rules and a language model fit behind one interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tritonforge.domain.candidate import Candidate, Origin, Trial
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.profile import Roofline
from tritonforge.domain.results import Assessment


@dataclass(frozen=True)
class Refusal:
    """Why a rewrite was not made: one clear sentence for a person. `rewrite` names the rewrite that declined.

    `proposal`: what was proposed and declined, where that is worth telling as a version that was tried. `already`:
    whether the source is what the rewrite would have made of it.
    """

    reason: str
    rewrite: str = ""
    proposal: Candidate | None = None
    already: bool = False


@dataclass(frozen=True)
class Task:
    """What an engine works on.

    `texts` maps a workspace-relative file (with `/`) to its text as read: no byte-order mark, newlines untouched;
    offsets of edits count its code points. `launches` come in order of rank, and the first one decides where values are
    set when a kernel is launched in several places. `bottlenecks` maps a launch id to its class. `arch` is what the
    target compiles for (`sm_90`, `gfx942`), `gpu` the name of what it is judged by. `original` are the launches of the
    version that the search began with, where the task is a later one. Times in launches are `measured`, else predicted.
    """

    kernel: Kernel
    texts: Mapping[str, str]
    launches: tuple[Launch, ...]
    findings: tuple[Finding, ...] = ()
    bottlenecks: Mapping[str, Bottleneck] = field(default_factory=dict)
    arch: str = "sm_90"
    gpu: str = ""
    measured: bool = False
    assessments: tuple[Assessment, ...] = ()
    rooflines: Mapping[str, Roofline] = field(default_factory=dict)
    original: tuple[Launch, ...] = ()


class Engine(Protocol):
    """Something that proposes edits of a kernel's source and of the host code around it."""

    @property
    def origin(self) -> Origin:
        """What its candidates say of where they come from."""
        ...

    def propose(self, task: Task, trials: Sequence[Trial] = ()) -> Iterator[Candidate | Refusal]:
        """Yield candidates, the most promising first, and what was declined with the reason.

        `trials` is what became of earlier candidates for the same task: an engine may learn from it, and does not
        propose the same edits twice. Lazy: a caller stops asking when its budget is spent. Never raises on odd source;
        that is a Refusal.
        """
        ...


@runtime_checkable
class Thinker(Protocol):
    """An engine whose proposals take time: it is asked for one at a time, while the search goes on with others."""

    @property
    def origin(self) -> Origin:
        """What its candidates say of where they come from."""
        ...

    @property
    def over(self) -> str:
        """Why it will propose nothing more in this search (a clause for people); empty while it may."""
        ...

    @property
    def status(self) -> str:
        """How far it is, for a progress display: rounds, tokens, cost, time."""
        ...

    async def think(self, task: Task, trials: Sequence[Trial] = ()) -> Candidate | Refusal:
        """Return the next candidate, as edits of the task's texts, or why there is none this time.

        `trials` is what became of its own and others' candidates: it learns from that. It may be cancelled at any
        moment. Never raises: what goes wrong is a Refusal, and `over` says when asking again is of no use.
        """
        ...
