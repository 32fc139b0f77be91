"""What a structural rewrite is, and how what it changes becomes a candidate and a task to go on from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import libcst as cst

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.launch import Launch, Scalar
from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite.elsewhere import with_all_sites
from tritonforge.rewrite.plausibility import MOST_PROGRAMS
from tritonforge.rewrite.protocol import Refusal, Task
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.edits import minimal_edits
from tritonforge.rewrite.structural.kernel_text import KernelText
from tritonforge.rewrite.structural.layout import fitted


@dataclass(frozen=True)
class Change:
    """One way of making a rewrite.

    `title` completes "…" in a list of suggestions. `values` are constexprs and options of the first launch that are
    other than before, and `programs` its grid, where they follow from the rewrite: a search goes on from them.
    """

    title: str
    edits: tuple[Edit, ...]
    parameters: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)
    grid: tuple[int, int, int] | None = None


class Absent(Refused):
    """What a rewrite changes is not in this kernel at all: nothing that a person must be told."""


@dataclass(frozen=True)
class NothingHere(Refusal):
    """The refusal of a rewrite that has nothing to work on."""


class Structural(Protocol):
    """One structural rewrite: a transform of a kernel, with its host code where it must follow."""

    @property
    def name(self) -> str:
        """What candidates say they did."""
        ...

    @property
    def treats(self) -> frozenset[str]:
        """Codes of the findings that it mends."""
        ...

    @property
    def classes(self) -> frozenset[BottleneckClass]:
        """Bottlenecks at which it is worth trying first."""
        ...

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the ways of making it, the most promising first.

        Raises:
            Absent: the kernel has nothing of the kind.
            Refused: a precondition does not hold; its sentence says which.
        """
        ...


@dataclass(frozen=True)
class Rewritten:
    """A candidate, and the task as it is once the candidate is applied: its kernel, texts and first launch."""

    candidate: Candidate
    task: Task


def rewrites(rewrite: Structural, task: Task) -> Iterator[Rewritten | Refusal]:
    """Yield what `rewrite` makes of `task`; a Refusal where it declines. Never raises on odd source."""
    if not task.launches:
        yield Refusal(f"no launch of {task.kernel.name} is known.", rewrite.name)
        return
    try:
        for change in rewrite.changes(KernelText(task)):
            yield _rewritten(rewrite, task, change)
    except Absent as absent:
        yield NothingHere(f"{absent}.".replace("..", "."), rewrite.name)
    except Refused as refused:
        yield Refusal(f"{refused}.".replace("..", "."), rewrite.name)
    except (cst.ParserSyntaxError, cst.CSTValidationError):
        yield Refusal(f"what {rewrite.name} would make of {task.kernel.name} is no Python.", rewrite.name)


def _rewritten(rewrite: Structural, task: Task, change: Change) -> Rewritten:
    if change.grid is not None and max(change.grid[1:]) > MOST_PROGRAMS:
        raise Refused(f"the grid would be {change.grid}, and a GPU takes {MOST_PROGRAMS} programs along y and z")
    codes = {finding.code for finding in task.findings}
    texts = dict(task.texts)
    for file in {edit.file for edit in change.edits}:
        try:
            new = apply_edits(texts[file], tuple(e for e in change.edits if e.file == file))
            texts[file] = fitted(texts[file], new)
        except (ValueError, SyntaxError) as error:
            raise Refused(f"the edits do not fit together ({error})") from error
    candidate = Candidate(
        change.title,
        _edits(task.texts, texts),
        ((rewrite.name, change.parameters),),
        "rule",
        tuple(sorted(codes & rewrite.treats)),
    )
    return Rewritten(candidate, going_on(task, texts, change))


def going_on(task: Task, texts: Mapping[str, str], change: Change) -> Task:
    """Return the task of going on from `texts`, with what `change` says of the first launch.

    Raises:
        Refused: the kernel is not found in them any more.
    """
    before = with_all_sites(task.kernel, task.texts)
    kernel = _same_kernel(task.kernel, task.texts[task.kernel.file], texts[task.kernel.file])
    kernel = with_all_sites(kernel, texts)
    first, *rest = task.launches
    restated = _restated(first, before, kernel, change)
    return dataclasses.replace(task, kernel=kernel, texts=texts, launches=(restated, *rest))


def _edits(before: Mapping[str, str], texts: Mapping[str, str]) -> tuple[Edit, ...]:
    return tuple(
        edit
        for file in sorted(before)
        if before[file] != texts[file]
        for edit in minimal_edits(file, before[file], texts[file])
    )


@lru_cache(maxsize=16)
def _analysed(file: str, text: str) -> FileAnalysis:
    # A search goes on from the same few texts again and again.
    return analyze(text, file)


def _same_kernel(kernel: Kernel, before: str, text: str) -> Kernel:
    was = [k for k in _analysed(kernel.file, before).kernels if k.name == kernel.name]
    analysed = _analysed(kernel.file, text)
    now = [k for k in analysed.kernels if k.name == kernel.name]
    place = next((i for i, k in enumerate(was) if k.range == kernel.range), None)
    if analysed.errors or place is None or len(now) != len(was):
        raise Refused(f"the result would not be read as {kernel.name} any more")
    return now[place]


def _restated(launch: Launch, before: Kernel, kernel: Kernel, change: Change) -> Launch:
    """Return the launch with the values that the rewrite gives it; other arguments that it adds are not described."""
    site = next(
        (
            after.range.start.line
            for was, after in zip(before.launch_sites, kernel.launch_sites, strict=False)
            if was.file == launch.call_site.file and was.range.start.line <= launch.call_site.line <= was.range.end.line
        ),
        launch.call_site.line,
    )
    constexprs = dict(launch.config.constexprs)
    options = dict(launch.config.options)
    for name, value in change.values.items():
        parameter = kernel.parameter(name)
        (constexprs if parameter is not None else options)[name] = Scalar(value)
    known = {p.name for p in kernel.parameters}
    arguments = tuple((n, constexprs.pop(n, v)) for n, v in launch.problem.arguments if n in known)
    added = [p.name for p in kernel.parameters if p.name in change.values and p.name in constexprs and not p.constexpr]
    arguments += tuple((n, constexprs.pop(n)) for n in added)
    config = dataclasses.replace(
        launch.config,
        constexprs=tuple((n, v) for n, v in constexprs.items() if n in known),
        options=tuple(options.items()),
        grid=change.grid or launch.config.grid,
    )
    return dataclasses.replace(
        launch,
        config=config,
        problem=dataclasses.replace(launch.problem, arguments=arguments),
        call_site=dataclasses.replace(launch.call_site, line=site),
    )


def together(task: Task, steps: Iterable[Candidate], last: Task) -> Candidate:
    """Return one candidate for `task` that makes `steps` one after the other, which lead to `last`.

    Each step's edits are of the text that the steps before it left; what comes out are edits of the text of `task`.
    """
    steps = list(steps)
    return Candidate(
        "; ".join(step.title for step in steps),
        _edits(task.texts, last.texts),
        tuple(rewrite for step in steps for rewrite in step.rewrites),
        "rule",
        tuple(sorted({code for step in steps for code in step.treats})),
    )
