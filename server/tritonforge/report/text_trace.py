"""`trace` for people: what was recorded, on one screen, for stderr (stdout is the traced program's)."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.trace import Trace, TracedFailure
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, indent, line, table, wrap

_KERNELS = 20
_FAILURES = 8
_LEAST_PATH, _COUNTED, _TIMED = 24, 20, 38
"""The fewest columns of a kernel's path, and those of the counts beside it, without times and with them."""


def trace_text(trace: Trace, written: str, *, width: int = WIDTH) -> list[Line]:
    """Return the summary of `trace`, at most `width` columns wide; `written` is the file that it was written to."""
    kernels: dict[tuple[str, str, int], tuple[Kernel, list[Launch]]] = {}
    for one in trace.launches:
        key = (one.kernel.file, one.kernel.name, one.kernel.range.start.line)
        kernels.setdefault(key, (one.kernel, []))[1].append(one.launch)
    out = [*_headline(trace, len(kernels), width)]
    if kernels:
        out += [BLANK, *indent(_kernels(list(kernels.values()), width - 2))]
    if trace.failures:
        out += [BLANK, *_failures(trace.failures, width)]
    return [*out, BLANK, line("Written to ", Span(written, "code"), ".")]


def _headline(trace: Trace, kernels: int, width: int) -> list[Line]:
    if not trace.launches:
        why = "" if trace.failures else f" in {wording.plural(trace.python, 'Python process')}"
        return wrap(
            [Span("TritonForge trace: ", "title"), f"no Triton kernel was launched{why}."], width=width, hanging=2
        )
    total = sum(one.launch.count for one in trace.launches)
    launched = len({process.pid for process in trace.processes})
    counts = (
        wording.plural(kernels, "kernel"),
        wording.plural(len(trace.launches), "distinct launch"),
        f"{total:,} in all",
        wording.plural(len(trace.calls), "host call"),
    )
    parts = [", ".join(counts)]
    if launched > 1:
        parts.append(f", in {wording.plural(launched, 'process')}")
    if any(process.mode == "pretended" for process in trace.processes):
        parts.append(" (no GPU here: launches were recorded, kernels did not run)")
    return wrap([Span("TritonForge trace: ", "title"), *parts, "."], width=width, hanging=2)


def _kernels(kernels: Sequence[tuple[Kernel, list[Launch]]], width: int) -> list[Line]:
    timed = any(one.time_us is not None for _, launches in kernels for one in launches)
    spent = {id(launches): _spent(launches) for _, launches in kernels}
    total = sum(spent.values())
    ordered = sorted(kernels, key=lambda one: (-spent[id(one[1])], -sum(launch.count for launch in one[1])))
    room = max(_LEAST_PATH, width - (_TIMED if timed else _COUNTED))
    head = ["kernel", "launches", "count", *(["time", "share"] if timed else [])]
    rows: list[list[Span | str]] = [[Span(text, "muted") for text in head]]
    for kernel, launches in ordered[:_KERNELS]:
        row: list[Span | str] = [
            Span(_ending(wording.kernel_path(kernel), room), "code"),
            f"{len(launches):,}",
            f"{sum(one.count for one in launches):,}",
        ]
        if timed:
            mine = spent[id(launches)]
            known = any(one.time_us is not None for one in launches)
            row += [
                wording.time_us(mine if known else None),
                wording.percent(mine / total if known and total else None),
            ]
        rows.append(row)
    out = table(rows, right=(1, 2, 3, 4))
    if len(ordered) > _KERNELS:
        out.append(line(Span(f"and {len(ordered) - _KERNELS} more kernels", "muted")))
    return out


def _ending(path: str, width: int) -> str:
    """Return the end of a kernel's path, which names it, where the whole is too long."""
    return path if len(path) <= width else f"…{path[1 - width :]}"


def _spent(launches: Sequence[Launch]) -> float:
    """Return the time of all launches in µs; those without a sample are taken to be as long as those with one."""
    timed = [one for one in launches if one.time_us is not None]
    known = sum(one.count for one in timed)
    total = sum(one.count * (one.time_us or 0.0) for one in timed)
    return total / known * sum(one.count for one in launches) if known else 0.0


def _failures(failures: Sequence[TracedFailure], width: int) -> list[Line]:
    out: list[Line] = []
    for failure in failures[:_FAILURES]:
        name: list[Span | str] = [Span(failure.kernel, "code"), ": "] if failure.kernel else []
        reason = failure.reason if failure.kernel else failure.reason[:1].upper() + failure.reason[1:]
        out += wrap([*name, f"{reason.rstrip('.')}."], width=width, hanging=2)
    if len(failures) > _FAILURES:
        out.append(line(Span(f"and {len(failures) - _FAILURES} more, in the file", "muted")))
    return out
