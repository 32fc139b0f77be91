"""Reading what Proton's program-counter sampling wrote: a tree of scopes and kernels with their stall samples."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tritonforge.domain.counters import Counters, LineCounters
from tritonforge.profiling.nsight.metrics import reason

NO_HARDWARE_COUNTERS = (
    "throughputs, cache hit rates, occupancy reached, excess sectors: only Nsight Compute counts them"
)
NO_LINES = "counters per line: Proton's samples are of whole kernels here"
_PREFIX = "stalled_"
_SCOPE = "launch"
_MOST = 1e18
"""No count is larger; not a number is no count."""


def counters_by_launch(text: str, kernels: list[str], *, file_of: list[str] | None = None) -> list[Counters | None]:
    """Return the counters of each launch, in order; None for one that has no samples.

    Args:
        text: the JSON that Proton wrote, with a scope `launch0`, `launch1`, … for each launch.
        kernels: the function's name for each launch.
        file_of: the file of each launch's kernel, to tell its lines from a library's where samples have lines.
    """
    try:
        tree = json.loads(text)
    except ValueError:
        return [None] * len(kernels)
    roots = [node for node in tree if isinstance(node, dict) and "frame" in node] if isinstance(tree, list) else []
    scopes = {_name(node): node for root in roots for node in _nodes(root) if _name(node).startswith(_SCOPE)}
    found: list[Counters | None] = []
    for index, kernel in enumerate(kernels):
        scope = scopes.get(f"{_SCOPE}{index}")
        # A Proton that drops scopes while it samples has the kernels below the root, all launches of a name together.
        within = [scope] if scope is not None else roots if kernels.count(kernel) == 1 else []
        nodes = [node for part in within for node in _nodes(part) if _name(node) == kernel]
        if not nodes and scope is not None:
            nodes = [scope]
        found.append(_counters(nodes, kernel, file_of[index] if file_of else None))
    return found


def _counters(nodes: list[dict[str, Any]], kernel: str, file: str | None) -> Counters | None:
    stalls: defaultdict[str, int] = defaultdict(int)
    lines: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    nanoseconds = launches = 0.0
    for top in nodes:
        for node in _nodes(top):
            metrics = _metrics(node)
            place = _place(_name(node))
            for name, value in metrics.items():
                if name.startswith(_PREFIX) and value > 0:
                    word = reason(name)
                    stalls[word] += int(value)
                    if place is not None and (file is None or place[0].endswith(file.rpartition("/")[2])):
                        lines[place[1]][word] += int(value)
        own = _metrics(top)
        nanoseconds += own.get("time (ns)", 0.0)
        launches += own.get("count", 0.0)
    total = sum(stalls.values())
    if not total:
        return None
    return Counters(
        source="pcsampling",
        kernel=kernel,
        time_us=nanoseconds / launches / 1e3 if launches and nanoseconds else None,
        stalls={word: count / total for word, count in sorted(stalls.items(), key=lambda item: (-item[1], item[0]))},
        lines={
            line: LineCounters(samples=sum(words.values()), stalls=dict(sorted(words.items(), key=lambda i: -i[1])))
            for line, words in sorted(lines.items())
        },
        missing=(NO_HARDWARE_COUNTERS, *(() if lines else (NO_LINES,))),
    )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    todo = [node]
    while todo:
        one = todo.pop()
        yield one
        children = one.get("children")
        todo += [child for child in children if isinstance(child, dict)] if isinstance(children, list) else []


def _metrics(node: dict[str, Any]) -> dict[str, float]:
    found = node.get("metrics")
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, (int, float)) and -_MOST < value < _MOST}


def _name(node: dict[str, Any]) -> str:
    frame = node.get("frame")
    return str(frame.get("name", "")) if isinstance(frame, dict) else ""


def _place(name: str) -> tuple[str, int] | None:
    """Read `file:function@line` or `file:line@function`, as versions of Proton name a sampled source line."""
    file, colon, rest = name.rpartition(":")
    if not colon or "@" not in rest:
        return None
    first, _, second = rest.partition("@")
    number = second if second.isdecimal() else first
    return (file, int(number)) if number.isdecimal() and int(number) > 0 else None
