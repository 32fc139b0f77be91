"""The calls that specs describe: `# tritonforge: launch` comments of a file and `[[launch]]` tables of the settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tritonforge.config import LaunchTable
from tritonforge.domain.kernel import CommentProblem, FileAnalysis, HostFunction, Kernel, SpecComment
from tritonforge.domain.launch import Call
from tritonforge.domain.source import Position, Range
from tritonforge.workload.specs import SpecError, parse_specs
from tritonforge.workload.specs.calls import Subject
from tritonforge.workload.specs.tables import table_calls

_STRAY = "this launch spec stands above no kernel and no function."
_WHERE = "Put it directly above the decorators of a kernel, or above the function that launches it."


def spec_calls(analysis: FileAnalysis, tables: Sequence[LaunchTable], kernel: Kernel) -> tuple[Call, ...]:
    """Return the calls that specs describe for `kernel`, in order and each once.

    A spec counts that stands above the kernel itself or above a host function that launches it; where there is none,
    one above a function that calls such a host function.

    Raises:
        SpecError: for a spec that cannot be read, with its place.
    """
    hosts = {site.host for site in kernel.launch_sites if site.host}
    found = _calls(analysis, tables, kernel, hosts)
    return found or _calls(analysis, tables, kernel, _callers(hosts, analysis.functions))


def spec_problems(analysis: FileAnalysis) -> tuple[SpecError, ...]:
    """Return what is wrong with the spec comments of a file: for each comment the first character that is."""
    problems: list[SpecError] = []
    for spec in analysis.specs:
        try:
            _comment_calls(spec, analysis)
        except SpecError as error:
            problems.append(error)
    return tuple(problems)


def comment_problems(analysis: FileAnalysis) -> tuple[CommentProblem, ...]:
    """Return the comments of a file that do nothing, by line: no directive, no rule's code, a spec above nothing."""
    stray = [
        CommentProblem(
            analysis.file,
            Range.of(spec.line, spec.column, spec.line, spec.column + len(spec.text.partition("\n")[0])),
            f"{_STRAY} {_WHERE}",
        )
        for spec in analysis.specs
        if spec.function is None
    ]
    return tuple(sorted([*analysis.comment_problems, *stray], key=lambda one: one.range.start))


def hosts_of(kernel: Kernel, analysis: FileAnalysis) -> tuple[HostFunction, ...]:
    """Return the functions of the file that launch `kernel`, in that order, then those that call them."""
    direct = list(dict.fromkeys(site.host for site in kernel.launch_sites if site.host))
    around = _callers(set(direct), analysis.functions) if direct else set()
    by_name = {f.name: f for f in analysis.functions}
    return (
        *(by_name[name] for name in direct if name in by_name),
        *(f for f in analysis.functions if f.name in around),
    )


def _comment_calls(spec: SpecComment, analysis: FileAnalysis) -> tuple[Call, ...]:
    kernel = next((k for k in analysis.kernels if k.name == spec.function), None)
    host = _host(spec.function, analysis)
    if spec.function is None or (kernel is None and host is None):
        raise SpecError(
            analysis.file,
            Position(spec.line, spec.column),
            _STRAY,
            _WHERE,
        )
    return parse_specs(
        spec.text,
        file=analysis.file,
        function=spec.function,
        line=spec.line,
        column=spec.column,
        kernel=kernel,
        host=None if kernel else host,
    )


def _calls(
    analysis: FileAnalysis, tables: Sequence[LaunchTable], kernel: Kernel, hosts: Iterable[str]
) -> tuple[Call, ...]:
    calls: list[Call] = []
    for spec in analysis.specs:
        if spec.function is not None and (spec.function == kernel.name or spec.function in hosts):
            calls += _comment_calls(spec, analysis)
    for table in tables:
        if not _same_file(table.file, analysis.file):
            continue
        if table.kernel in (kernel.name, kernel.simple_name):
            calls += table_calls(table, Subject(analysis.file, kernel.name, kernel))
        elif table.function is not None:
            host = _host(table.function, analysis)
            name = host.name if host is not None else table.function
            if name in hosts or not kernel.launch_sites:
                calls += table_calls(table, Subject(analysis.file, table.function, host=host))
    return tuple({call.id: call for call in calls}.values())


def _host(name: str | None, analysis: FileAnalysis) -> HostFunction | None:
    return next((f for f in analysis.functions if name is not None and name in (f.name, f.called_as)), None)


def _callers(hosts: set[str], functions: Sequence[HostFunction]) -> set[str]:
    """Return the functions whose source names one of `hosts`, or names a function that does."""
    named = {f.called_as or f.name for f in functions if f.name in hosts} | hosts
    found: set[str] = set()
    grown = True
    while grown:
        words = {name.partition(".")[0] for name in named}
        fresh = [f for f in functions if f.name not in found | hosts and words & _words(f)]
        found |= {f.name for f in fresh}
        named |= {f.called_as or f.name for f in fresh}
        grown = bool(fresh)
    return found


def _words(function: HostFunction) -> set[str]:
    own = function.name.rpartition(".")[2]
    return set(re.findall(r"[^\W\d]\w*", function.source)) - {own}


def _same_file(named: str, file: str) -> bool:
    return file == named or file.endswith("/" + named.lstrip("/"))
