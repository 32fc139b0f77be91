"""The prompt of a proposal, from the nouns alone: sections in order of reading, cut to the model's window."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from tritonforge.analysis.text import SourceText
from tritonforge.domain.candidate import Trial
from tritonforge.prediction import gpu_for
from tritonforge.rewrite.llm import describing
from tritonforge.rewrite.llm.original import Original
from tritonforge.rewrite.llm.privacy import Hiding
from tritonforge.rewrite.llm.sizing import Section, fitted, joined
from tritonforge.rewrite.protocol import Task

KEPT_OUTCOMES = 4


@dataclass(frozen=True)
class Told:
    """An earlier proposal of this model: its number, its code (empty when there was none), what became of it."""

    number: int
    code: str
    outcome: str


@dataclass(frozen=True)
class Prompt:
    """A prompt that fits, and the names of the sections that had to go."""

    text: str
    dropped: tuple[str, ...] = ()


def proposal_prompt(
    task: Task,
    original: Original,
    trials: Sequence[Trial],
    told: Sequence[Told],
    hiding: Hiding,
    *,
    most_tokens: int,
) -> Prompt | None:
    """Return what is asked of a model; None when the kernel itself does not fit its window."""
    found = fitted(sections(task, original, trials, told, hiding), most_tokens)
    return Prompt(joined(found[0]), found[1]) if found is not None else None


def sections(
    task: Task, original: Original, trials: Sequence[Trial], told: Sequence[Told], hiding: Hiding
) -> list[Section]:
    """Return every section, in order."""
    lines = SourceText(original.source.text).lines
    name = original.entry.node.name
    kernel = ["\n".join(constant_lines(original)), original.segment(original.entry)]
    hosts = [original.segment(one) for one in original.hosts]
    out = [
        Section("kernel", f"# The kernel {name}\n\n{_fenced(kernel, hiding)}"),
        Section("host", f"# The host function\n\n{_fenced(hosts, hiding)}" if hosts else ""),
        Section("helpers", _titled("# Helpers that the kernel calls, for reading", _helpers(original, hiding))),
    ]
    first, *others = task.launches or (None,)
    if first is not None:
        out.append(
            Section("launch", f"# Launch 1, the one that matters most\n\n{describing.launch_words(first, hiding)}")
        )
    out += [
        Section("other launches", f"# Launch {number}\n\n{describing.launch_words(one, hiding)}")
        for number, one in enumerate(others[:6], 2)
        if one is not None
    ]
    spec = gpu_for(task.arch, task.gpu or None)
    out += [
        Section("target", f"# The target\n\n{describing.target_words(spec, task.arch)}"),
        Section("profile", _titled("# How it runs now", hiding.words(describing.profile_words(task)))),
        Section(
            "hot lines", _titled("# Where the time goes", hiding.code(describing.hot_lines(task, lines), part=True))
        ),
        Section("compilation", _titled("# What the compiler made of it", describing.compilation_words(task))),
        Section("findings", _titled("# Findings", describing.finding_words(task.findings, lines, hiding))),
        Section("evidence", _titled("# Evidence", describing.evidence_words(task.findings, hiding))),
        Section("trials of others", _titled("# What others tried", _tried(task, trials, hiding))),
        *_told_sections(told, hiding),
        Section("wish", f"Propose a faster {name}."),
    ]
    return out


def constant_lines(original: Original) -> list[str]:
    """Return the imports of Triton and the module's numbers that the kernel and its hosts use, as they are written."""
    used = frozenset[str]().union(*(one.names for one in original.functions.values()))
    out = []
    for node in original.source.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = {alias.name for alias in node.names} if isinstance(node, ast.Import) else {node.module or ""}
            if all(module.partition(".")[0] in {"torch", "triton", "math"} for module in modules):
                out.append(original.source.segment(node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {one.id for one in targets if isinstance(one, ast.Name)}
            if names & used and all(original.is_data(one, original.index.module) for one in names):
                out.append(original.source.segment(node))
    return out


def _helpers(original: Original, hiding: Hiding) -> str:
    wanted = {helper.name for helper in original.kernel.helpers if helper.range is not None}
    nodes = [
        scope.node
        for scope in original.index.functions()
        if isinstance(scope.node, ast.FunctionDef) and scope.node.name in wanted
    ]
    text = SourceText(original.source.text)
    return _fenced([text.slice(text.definition_range(node)) for node in nodes], hiding) if nodes else ""


def _tried(task: Task, trials: Sequence[Trial], hiding: Hiding) -> str:
    others = [trial for trial in trials if trial.candidate.origin != "llm"]
    others.sort(key=lambda trial: -(describing.speedup(trial, task) or 0.0))
    shown = others[: describing.MOST_TRIALS]
    rows = [
        f"- {hiding.words(trial.candidate.title)}: {hiding.words(describing.outcome_words(trial, task))}"
        for trial in shown
    ]
    if len(others) > len(shown):
        rows.append(f"- and {len(others) - len(shown)} more, none of them faster")
    return "\n".join(rows)


def _told_sections(told: Sequence[Told], hiding: Hiding) -> list[Section]:
    if not told:
        return []
    *earlier, last = told
    rows = [f"- {one.number}: {hiding.words(one.outcome)}" for one in earlier[-KEPT_OUTCOMES:]]
    out = [Section("earlier outcomes", _titled("# Your earlier proposals", "\n".join(rows)))]
    if last.code:
        shown = f"# Your last proposal\n\n{_fenced([last.code], hiding)}"
        out.append(Section("last proposal", shown))
    out.append(Section("last outcome", f"# What became of your last proposal\n\n{hiding.words(last.outcome)}"))
    return out


def _fenced(parts: Sequence[str], hiding: Hiding) -> str:
    text = hiding.code("\n\n\n".join(part.strip("\n") for part in parts if part.strip()))
    # A fence inside the source must not end the one around it.
    mark = "```"
    while mark in text:
        mark += "`"
    return f"{mark}python\n{text}\n{mark}"


def _titled(title: str, text: str) -> str:
    return f"{title}\n\n{text}" if text.strip() else ""
