"""A launch's values left to `@triton.autotune`: those it has today and those that were found, for every GPU to choose.

Where a value stands in the host code is found by giving it a number that stands nowhere else: what `rewrite_launch`
writes it to is what has to read the autotuner's choice.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from tritonforge.domain.candidate import Candidate
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch, Scalar, Tensor
from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite.diff import edits_between
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.launch_parameters import rewrite_launch
from tritonforge.rewrite.rules.launch_values import COMPILER_DEFAULTS, OPTIONS, Refused, integer, launches_in
from tritonforge.rewrite.scopes import Scopes
from tritonforge.rewrite.text import Source

NAME = "autotuned"
_FIRST_MARK = 900_000_001


def autotuned(kernel: Kernel, text: str, wanted: Mapping[str, int], launch: Launch) -> Candidate | Refusal:
    """Return the edits that put `@triton.autotune` above `kernel`, with `wanted` and what `launch` ran with as configs.

    `text` is that of the kernel's file. Refused where that would change what the kernel computes or cannot be written:
    a kernel that is tuned already, that changes what it reads (an autotuner runs it many times), whose values stand
    elsewhere than at one launch and its grid.
    """
    try:
        edits = _edits(kernel, text, wanted, launch)
    except Refused as refused:
        return Refusal(f"{refused}.", NAME)
    title = "add @triton.autotune with these configs"
    return Candidate(title, edits, ((NAME, tuple((n, str(v)) for n, v in wanted.items())),), "rule")


def tuned_by(kernel: Kernel) -> tuple[str, ...]:
    """Return the parameters by whose values the kernel's autotuner chooses anew, or the one that it would get."""
    if kernel.autotune is not None:
        return kernel.autotune.key
    return tuple(p.name for p in kernel.parameters if p.role == "scalar" and not p.constexpr)


def told_apart(kernel: Kernel, one: Launch, other: Launch) -> bool:
    """Tell whether an autotuner can choose differently for two launches: by its key, or by the types of tensors."""
    names = tuned_by(kernel)

    def seen(launch: Launch) -> tuple[object, ...]:
        given = dict((*launch.problem.arguments, *launch.problem.constexprs, *launch.config.constexprs))
        types = [(name, value.dtype) for name, value in given.items() if isinstance(value, Tensor)]
        return (*(given.get(name) for name in names if not isinstance(given.get(name), Tensor)), *sorted(types))

    return seen(one) != seen(other)


def _edits(kernel: Kernel, text: str, wanted: Mapping[str, int], launch: Launch) -> tuple[Edit, ...]:
    _check(kernel)
    given = (*launch.config.constexprs, *launch.config.options)
    running = {name: value.value for name, value in given if isinstance(value, Scalar)}
    before = {name: running.get(name, COMPILER_DEFAULTS.get(name)) for name in wanted}
    if any(type(value) is not int for value in before.values()):
        raise Refused("what the launch ran with is not known")
    marks = {name: _FIRST_MARK + number for number, name in enumerate(wanted)}
    if any(str(mark) in text for mark in marks.values()):
        raise Refused("the file has numbers that would be mistaken")
    marked = rewrite_launch(kernel, {kernel.file: text}, marks, launch, in_branches=False)
    if isinstance(marked, Refusal):
        raise Refused(marked.reason.rstrip("."))
    source = Source(kernel.file, text)
    comments = [(start, end) for _, start, end, said in source.tokens if said.startswith("#")]
    code = tuple(e for e in marked.edits if not any(s <= e.start and e.end <= t for s, t in comments))
    tuned = _take_out(Source(kernel.file, apply_edits(text, code)), marks)
    configs = [_config(values) for values in (wanted, before)]
    final = _decorated(tuned, kernel, configs)
    return edits_between(kernel.file, text, final)


def _check(kernel: Kernel) -> None:
    if kernel.autotune is not None or kernel.heuristics:
        raise Refused(f"{kernel.name} is tuned already")
    sites = kernel.launch_sites
    if len(sites) != 1 or sites[0].file != kernel.file:
        raise Refused(f"{kernel.name} is not launched in exactly one place of its file")
    if not any(decorator.startswith("triton.jit") for decorator in kernel.decorators):
        raise Refused(f"{kernel.name} is not decorated with @triton.jit")
    read = {a.pointer for a in kernel.accesses if a.kind == "load"}
    written = {a.pointer for a in kernel.accesses if a.kind == "store"}
    for reach in kernel.reaches or ():
        (read if reach.name == "load" else written).update(reach.pointers)
    if kernel.reaches is None or kernel.atomics or None in written or read & written:
        raise Refused(f"{kernel.name} changes what it reads, and an autotuner runs it many times")


def _config(values: Mapping[str, object]) -> str:
    tiles = ", ".join(f'"{name}": {value}' for name, value in values.items() if name not in OPTIONS)
    options = "".join(f", {name}={value}" for name, value in values.items() if name in OPTIONS)
    return f"triton.Config({{{tiles}}}{options})"


def _take_out(source: Source, marks: Mapping[str, int]) -> Source:
    """Return the text without the marked arguments of the launch, and with a grid that reads the chosen values."""
    names = {mark: name for name, mark in marks.items()}
    scopes = Scopes(source.tree)
    launch = next(
        (one for one in launches_in(scopes) if any(integer(k.value) in names for k in one.call.keywords)), None
    )
    if launch is None or launch.grid is None:
        raise Refused("the values do not stand at the launch")
    edits = _without(source, launch.call, [k for k in launch.call.keywords if integer(k.value) in names])
    grid: ast.expr = launch.grid
    if isinstance(grid, ast.Name):
        variable = scopes.resolve(grid)
        value = variable.single if variable is not None else None
        if variable is None or not isinstance(value, ast.expr) or len(variable.reads) != 1:
            raise Refused("the grid is used elsewhere, too")
        grid = value
    inside = [node for node in ast.walk(grid) if integer(node) in names]
    if inside:
        meta, head = "META", "lambda META: "
        if isinstance(grid, ast.Lambda):
            if len(grid.args.args) != 1:
                raise Refused("the grid's function does not take one argument")
            meta, head = grid.args.args[0].arg, ""
        if head:
            edits.append(source.insert(source.span(grid)[0], head))
        for node in inside:
            assert isinstance(node, ast.expr)
            edits.append(source.replace(node, f'{meta}["{names[integer(node) or 0]}"]'))
    text = apply_edits(source.text, tuple(edits))
    if any(str(mark) in text for mark in names):
        raise Refused("the values are used beyond the launch and its grid")
    return Source(source.file, text)


def _without(source: Source, call: ast.Call, gone: Sequence[ast.keyword]) -> list[Edit]:
    """Return the edits that take arguments out of a call, each with one of the commas beside it."""
    items: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    items.sort(key=lambda item: source.span(item)[0])
    edits: list[Edit] = []
    for number, item in enumerate(items):
        if item not in gone:
            continue
        start, end = source.span(item)
        kept = [one for one in items[:number] if one not in gone]
        if number + 1 < len(items) and not kept:
            end = source.span(items[number + 1])[0]
        elif number:
            start = source.span(items[number - 1])[1]
        edits.append(Edit(source.file, start, end, ""))
    return edits


def _decorated(source: Source, kernel: Kernel, configs: Sequence[str]) -> str:
    named = [n for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef) and n.name == kernel.simple_name]
    if len(named) != 1 or not named[0].decorator_list:
        raise Refused(f"{kernel.name} is not the only function of its name")
    first = source.line_of(source.span(named[0].decorator_list[0])[0])
    line = source.line_text(first)
    if not line.lstrip().startswith("@"):
        raise Refused("the decorators cannot be read")
    indent = line[: len(line) - len(line.lstrip())]
    keys = ", ".join(f'"{name}"' for name in tuned_by(kernel))
    listed = [f"        {one}," for one in configs]
    lines = ["@triton.autotune(", "    configs=[", *listed, "    ],", f"    key=[{keys}],", ")"]
    at = source.line_starts[first - 1]
    return source.text[:at] + "".join(f"{indent}{one}{source.newline}" for one in lines) + source.text[at:]
