"""Puts what the other modules of this room find together into the noun `Kernel`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from tritonforge.analysis.apis import read_apis
from tritonforge.analysis.comments import above
from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.facts import AccessFact, Facts, LoopFact, OperationFact
from tritonforge.analysis.flow import follow_kernel
from tritonforge.analysis.flow_memory import MemoryFlow
from tritonforge.analysis.reaches import read_reaches
from tritonforge.analysis.roles import program_axes, read_parameters
from tritonforge.analysis.text import SourceText
from tritonforge.analysis.tuning import read_autotune, read_heuristics
from tritonforge.analysis.unit import Unit
from tritonforge.domain.kernel import (
    Access,
    Helper,
    Kernel,
    Loop,
    Operation,
    Parameter,
    Suppression,
)
from tritonforge.domain.source import Range


def build_kernel(kernel: JitFunction, unit: Unit, sized: set[str]) -> tuple[Kernel, bool]:
    """Return the kernel's facts, and whether its body could be followed to the end.

    Launch sites are left to `launches`, suppressions to `place_kernel`, hashes to `hashing`. `sized` names constexprs
    that some launch sets to a tensor's extent. Facts depend on the statements that the kernel's names lead to, and on
    nothing else of the file (`memo` and `links` rely on that).
    """
    text = unit.text
    whole = True
    try:
        facts = follow_kernel(kernel, text, unit.jits)
    except RecursionError:
        facts, whole = Facts(), False
    autotune = read_autotune(kernel, text)
    parameters = read_parameters(kernel, facts, autotune, sized, text)
    tiles = {p.name for p in parameters if p.role == "tile"}
    helpers = tuple(
        Helper(name, text.range(node) if node is not None else None) for name, node in facts.helpers.items()
    )
    return Kernel(
        file=unit.file,
        name=kernel.name,
        range=text.definition_range(kernel.node),
        name_range=text.name_range(kernel.node),
        parameters=parameters,
        loops=tuple(_loop(loop, tiles, text) for loop in facts.loops),
        accesses=_accesses(facts, parameters, text),
        dots=_operations(facts.dots.values(), text),
        reductions=_operations(facts.reductions.values(), text),
        scans=_operations(facts.scans.values(), text),
        atomics=_operations(facts.atomics.values(), text),
        math=_operations(facts.math.values(), text),
        decorators=tuple(text.segment(decorator) for decorator, _ in kernel.decorators()),
        autotune=autotune,
        heuristics=read_heuristics(kernel),
        helpers=helpers,
        program_axes=program_axes(facts, parameters),
        constants=tuple(sorted(facts.constants)),
        reaches=read_reaches(kernel, unit) if whole else None,
        apis=read_apis(kernel, unit),
    ), whole


def place_kernel(kernel: Kernel, suppressions: tuple[tuple[Suppression, bool], ...], text: SourceText) -> Kernel:
    """Return a kernel, which has its launch sites, with the comments that silence findings of it."""
    helpers = (helper.range for helper in kernel.helpers if helper.range is not None)
    places = [kernel.range, *helpers, *(site.range for site in kernel.launch_sites)]
    own = _suppressions(suppressions, kernel.range, places, text) if suppressions else ()
    return replace(kernel, suppressions=own) if own else kernel


def _loop(loop: LoopFact, tiles: set[str], text: SourceText) -> Loop:
    return Loop(
        kind=loop.kind,
        range=text.range(loop.node),
        variable=loop.variable,
        start=loop.start,
        stop=loop.stop,
        step=loop.step,
        depth=loop.depth,
        step_tile=next((name for name in loop.step_sizes if name in tiles), None),
        scalar=loop.scalar_access and not loop.block_work,
    )


def _accesses(facts: Facts, parameters: tuple[Parameter, ...], text: SourceText) -> tuple[Access, ...]:
    constexprs = {p.name for p in parameters if p.constexpr}

    def access(fact: AccessFact) -> Access:
        bases = tuple(b for b in fact.bases if b not in constexprs)
        return Access(
            kind=fact.kind,
            range=text.range(fact.node),
            pointer=MemoryFlow.base_of(bases) if bases else None,
            address=fact.address,
            mask=fact.mask,
            other=fact.other,
            block=None if fact.rank is None else fact.rank > 0,
            loops=fact.loops,
            feeds=tuple(sorted(fact.feeds)),
            varies=tuple(index for index in fact.loops if index in fact.varies),
            indirect=_chosen(fact, facts),
            indexes=_index_pointers(fact, facts, constexprs),
            hints=fact.hints,
        )

    return tuple(sorted((access(f) for f in facts.accesses.values()), key=lambda a: a.range))


def _chosen(fact: AccessFact, facts: Facts) -> Literal["no", "scalar", "rows", "elements"]:
    """What loaded values choose in an address: by their dimensions against those of the address."""
    ranks = [facts.accesses[load].rank for load in fact.chosen_by if load in facts.accesses]
    if not ranks or None in ranks or fact.rank is None:
        return "no"
    most = max(rank for rank in ranks if rank is not None)
    if most == 0:
        return "scalar"
    return "elements" if most >= fact.rank else "rows"


def _index_pointers(fact: AccessFact, facts: Facts, constexprs: set[str]) -> tuple[str, ...]:
    found = (facts.accesses[n].bases for n in fact.chosen_by if n in facts.accesses and facts.accesses[n].rank != 0)
    bases = (tuple(b for b in each if b not in constexprs) for each in found)
    return tuple(sorted({MemoryFlow.base_of(each) for each in bases if each}))


def _operations(found: Iterable[OperationFact], text: SourceText) -> tuple[Operation, ...]:
    operations = (Operation(f.name, text.range(f.node), f.arguments, f.keywords, f.loops) for f in found)
    return tuple(sorted(operations, key=lambda o: o.range))


def _suppressions(
    found: tuple[tuple[Suppression, bool], ...], where: Range, places: list[Range], text: SourceText
) -> tuple[Suppression, ...]:
    on_top = above(where.start.line, text)
    own: list[Suppression] = []
    for suppression, alone in found:
        if alone and suppression.line in on_top:
            own.append(replace(suppression, whole_kernel=True))
        elif any(place.start.line <= suppression.line <= place.end.line for place in places):
            own.append(suppression)
    return tuple(own)
