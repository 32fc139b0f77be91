"""A persistent kernel: as many programs as the device holds at once, each of which goes through many tiles.

What a program does before its first load is done once, the loads of the next tile can begin while this one is stored
(`tl.range(flatten=True)` makes one loop of the loop over tiles and the one inside), and no wave of programs waits for
the last program of the one before.

Preconditions: a dot, or a finding that programs are too short or their last wave too long; one launch with a grid that
is a tuple; every program along every axis does its own tile, none ends early or asks how many there are; many more
programs than the device has multiprocessors.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.source import Edit
from tritonforge.prediction.gpus import gpu_for
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, nodes_of
from tritonforge.rewrite.structural.loops import simple_statements
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.walking import (
    extent_of,
    in_loop,
    loop_over,
    plural_of,
    program_ids,
    split_body,
    tile_name,
    with_own_pointers,
)
from tritonforge.rewrite.structural.workspace import HostNames, device_of, grid_tuple

_LEAST_WAVES = 4
"""Programs for each multiprocessor below which a loop over them has too few rounds."""


class Persistent:
    """As many programs as the device holds."""

    name = "persistent"
    treats = frozenset({"TF303", "TF304"})
    classes: frozenset[BottleneckClass] = frozenset({"load-imbalance", "block-too-small", "tensor-core"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield one and two programs for each multiprocessor where there is a dot, else eight and four."""
        written, text = text, with_own_pointers(text)
        programs = math.prod(text.launch.config.grid)
        spec = gpu_for(text.task.arch)
        units = spec.sms if spec else 100
        if any(name_of(n, text.tl) == "num_programs" for n in nodes_of(text.function)):
            raise Absent("the kernel asks for the number of its programs already")
        if any(isinstance(n, cst.While) for n in nodes_of(text.function)):
            raise Absent("the kernel waits in a loop")
        dot = any(name_of(n, text.tl) == "dot" for n in nodes_of(text.function))
        counts = [c for c in ((1, 2) if dot else (8, 4)) if programs >= _LEAST_WAVES * c * units]
        if not dot and not _short(text):
            raise Absent("programs are not known to be too short, or their last wave too long")
        if not counts:
            raise Absent(f"{programs} programs are no more than the device holds at once")
        host = Host(text)
        if len(host.nodes) != 1:
            raise Refused("the kernel is launched in several places")
        grid = grid_tuple(host)
        axes = len(grid.elts)
        asked = {axis for _, axis in program_ids(text, {0, 1, 2})}
        if not asked or max(asked) >= axes:
            raise Refused("programs do not ask for their places along the axes of the grid")
        for axis in range(axes):
            host.extent(0, axis)
        flow = flow_of(text.function, text.kernel, text.tl)
        split = split_body(text, flow, set(range(axes)))
        wishes = (
            (plural_of(tile_name(text, 0)),) if axes == 1 else tuple(f"tiles_{'xyz'[axis]}" for axis in range(axes))
        )
        extents = [extent_of(text, host, axis, wishes[axis]) for axis in range(axes)]
        function = text.with_body([*split.before, _loop(text, split.inside, [e.words for e in extents])])
        pairs = [pair for extent in extents for pair in extent.passed]
        for name, _ in pairs:
            function = with_parameter(function, name, least=host.most_positional)
        edits: tuple[Edit, ...] = written.edits(function)
        if pairs:
            edits += host.keywords([pairs])
        if "min" in host.names_set():
            raise Refused("min is a variable of the file that launches it")
        units_name = HostNames(n.id for n in host.scopes.nodes if isinstance(n, ast.Name))("NUM_SMS")
        edits += _units(text, host, units_name)
        for count in counts:
            most = units_name if count == 1 else f"{count} * {units_name}"
            one = text.source.segment(grid.elts[0])
            tiles = " * ".join(_factor(text, e) for e in grid.elts) if axes > 1 else one
            yield Change(
                f"{count} program{'s' if count > 1 else ''} for each multiprocessor, each for many tiles",
                (*edits, text.source.replace(grid, f"(min({most}, {tiles}),)")),
                (("programs", str(count)),),
                {},
                (min(count * units, programs), 1, 1),
            )


def _short(text: KernelText) -> bool:
    """Tell whether something was found that fewer programs mend: without a dot, that they are many costs little."""
    bottleneck = text.task.bottlenecks.get(text.launch.id)
    found = {finding.code for finding in text.task.findings}
    return bool(found & Persistent.treats) or (bottleneck is not None and bottleneck.kind in Persistent.classes)


def _loop(text: KernelText, statements: Sequence[cst.BaseStatement], extents: Sequence[str]) -> cst.For:
    tl = text.tl
    tile = tile_name(text, 0) if len(extents) == 1 else text.fresh("tile", "tile_id", "program")
    ids = {0: tile}
    if len(extents) > 1:
        # As programs are counted: those along x lie next to each other.
        first = _grouped(extents[0])
        ids = {0: f"{tile} % {first}", 1: f"{tile} // {first}"}
    if len(extents) > 2:
        ids[1] = f"{tile} // {_grouped(extents[0])} % {_grouped(extents[1])}"
        ids[2] = f"{tile} // ({_grouped(extents[0])} * {_grouped(extents[1])})"
    every = " * ".join(_grouped(e) for e in extents)
    bounds = f"{tl}.program_id(0), {every}, {tl}.num_programs(0)"
    body = in_loop(text, statements, ids)
    nested = any(isinstance(s, cst.For) for s in body)
    plain = all(not isinstance(s, cst.For) or simple_statements(s.body) is not None for s in body)
    # One loop of both is made where the inner one is a pipeline of loads and dots.
    dot = any(name_of(n, tl) == "dot" for s in body for n in nodes_of(s))
    words = f"{tl}.range({bounds}, flatten=True)" if nested and plain and dot else f"range({bounds})"
    return loop_over(f"for {tile} in {words}:", body)


def _grouped(words: str) -> str:
    return words if re.fullmatch(r"[\w.]+(\([^()]*\))?", words) else f"({words})"


def _factor(text: KernelText, element: ast.expr) -> str:
    words = text.source.segment(element)
    return words if isinstance(element, ast.Call | ast.Name | ast.Attribute | ast.Subscript) else f"({words})"


def _units(text: KernelText, host: Host, name: str) -> tuple[Edit, ...]:
    """Return the edit that asks for the number of multiprocessors in front of the grid.

    Raises:
        Refused: the grid is made outside of the function that launches, or torch goes by another name.
    """
    host.require_torch()
    first = host.first_statement([host.nodes[0].call, grid_tuple(host)])
    line = text.source.line_text(first.lineno)
    indent = line[: len(line) - len(line.lstrip())]
    words = f"{name} = torch.cuda.get_device_properties({device_of(text, host, first)}).multi_processor_count"
    return (text.source.insert(text.source.span(first)[0], f"{words}{text.source.newline}{indent}"),)
