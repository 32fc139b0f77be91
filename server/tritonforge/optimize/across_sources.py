"""One source out of several targets' best versions: their values in an autotuner's list, or in a table by GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.autotuned import autotuned
from tritonforge.rewrite.rules.launch_parameters import NAME, rewrite_launch
from tritonforge.rewrite.rules.launch_values import COMPILER_DEFAULTS, Refused
from tritonforge.rewrite.structural.edits import trimmed
from tritonforge.rewrite.text import Source

_ARCH = re.compile(r"sm_(\d+)(\d)[af]?")
_KEYWORD = re.compile(r"\b(\w+)=(\d+)\b")


def values_of(candidate: Candidate) -> dict[str, int] | None:
    """Return the launch's values that a candidate sets, when it does nothing else."""
    if not candidate.rewrites or any(name != NAME for name, _ in candidate.rewrites):
        return None
    return {key: int(value) for _, parameters in candidate.rewrites for key, value in parameters}


def autotune_list(
    kernel: Kernel, text: str, wanted: Sequence[Mapping[str, int]], launch: Launch
) -> Candidate | Refusal:
    """Return the source whose autotuner chooses among every target's values, and what the launch has today.

    Every GPU tries them when it first meets a size, and keeps the fastest.
    """
    if kernel.autotune is not None:
        current, form = text, None
    else:
        form = autotuned(kernel, text, _filled(wanted), launch)
        if isinstance(form, Refusal):
            return form
        current = apply_edits(text, form.edits)
    for values in wanted[0 if form is None else 1 :]:
        again = _same(kernel, text, current)
        if again is None:
            return Refusal("the kernel cannot be found in its autotuned form.", "autotuned")
        more = rewrite_launch(again, {kernel.file: current}, {**_filled(wanted), **values})
        if isinstance(more, Refusal):
            if more.already:
                continue
            return more
        current = apply_edits(current, more.edits)
    if current == text:
        return Refusal("the autotuner has all of these values already.", "autotuned")
    listed = " | ".join(", ".join(f"{name}={value}" for name, value in values.items()) for values in wanted)
    return Candidate(f"autotune over {listed}", (trimmed(kernel.file, 0, text, current),), (("autotuned", ()),))


def _filled(wanted: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The first target's values, with what only others set as the compiler has it by default."""
    first = dict(wanted[0])
    for values in wanted[1:]:
        for name, value in values.items():
            default = COMPILER_DEFAULTS.get(name)
            first.setdefault(name, default if isinstance(default, int) else value)
    return first


def _same(kernel: Kernel, before: str, after: str) -> Kernel | None:
    """Return `kernel` as it is in another version of its file, where several may have its name (in branches, say)."""
    if after == before:
        return kernel
    namesakes = [one.range for one in analyze(before, kernel.file).kernels if one.name == kernel.name]
    found = [one for one in analyze(after, kernel.file).kernels if one.name == kernel.name]
    if kernel.range not in namesakes or len(found) != len(namesakes):
        return None
    return found[namesakes.index(kernel.range)]


def architecture_table(kernel: Kernel, text: str, found: Sequence[tuple[str, Candidate]]) -> Candidate | Refusal:
    """Return the source in which the values of `found` (architecture, what sets them) are looked up by the GPU.

    The table stands above the kernel, with what the launch has today for every other GPU. Refused where an edit is more
    than a value, or the file has no `torch` to ask for the GPU.
    """
    try:
        edits = _tabled(kernel, text, found)
    except Refused as refused:
        return Refusal(f"{refused}.", "architecture-table")
    titles = "; ".join(f"{arch}: {candidate.title}" for arch, candidate in found)
    return Candidate(f"by architecture ({titles})", edits, (("architecture-table", ()),))


def _tabled(kernel: Kernel, text: str, found: Sequence[tuple[str, Candidate]]) -> tuple[Edit, ...]:
    wanted = {_capability(arch): values_of(candidate) or {} for arch, candidate in found}
    source = Source(kernel.file, text)
    if not _binds_torch(source.tree):
        raise Refused("the file does not import torch, which knows the GPU")
    comments = [(start, end) for _, start, end, said in source.tokens if said.startswith("#")]
    spans: dict[tuple[int, int], dict[str, str]] = {}
    for arch, candidate in found:
        for edit in candidate.edits:
            if edit.file != kernel.file:
                raise Refused("the values stand in several files")
            if not any(start <= edit.start and edit.end <= end for start, end in comments):
                spans.setdefault((edit.start, edit.end), {})[_capability(arch)] = edit.text
    table = f"_{kernel.simple_name.upper()}_VALUES"
    lookup = f"_value_of_{kernel.simple_name}"
    if table in text or lookup in text:
        raise Refused(f"the file has a {table} already")
    if not all(_in_a_function(source, start) for start, _ in spans):
        raise Refused("a value is set when the file is loaded, before it is known which GPU it is for")
    today: dict[str, str] = {}
    edits = []
    for (start, end), texts in sorted(spans.items()):
        before = text[start:end]
        made = _inserted(texts, today, lookup) if not before else _read(before, texts, wanted, today, lookup)
        edits.append(Edit(kernel.file, start, end, made))
    rows = [(capability, {**today, **{n: str(v) for n, v in values.items()}}) for capability, values in wanted.items()]
    place = _above(source, kernel)
    entries = [f"    {capability}: {_row(values)}," for capability, values in [*rows, ("None", today)]]
    lines = (
        "# What is fastest on each GPU, by its compute capability; None is every other.",
        f"{table} = {{", *entries, "}",
        "", "",
        f"def {lookup}(name):",
        f"    return {table}.get(torch.cuda.get_device_capability(), {table}[None])[name]",
        "", "", "",
    )  # fmt: skip
    head = source.newline.join(lines)
    return (Edit(kernel.file, place, place, head), *edits)


def _capability(arch: str) -> str:
    match = _ARCH.fullmatch(arch)
    if match is None:
        raise Refused(f"{arch} has no compute capability to look values up by")
    return f"({match[1]}, {match[2]})"


def _row(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}"


def _above(source: Source, kernel: Kernel) -> int:
    """The place of the statement of the module that holds the kernel, its decorators included."""
    line = kernel.range.start.line
    for node in source.tree.body:
        first: int = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        if first <= line <= (node.end_lineno or first):
            return source.line_starts[first - 1]
    raise Refused("the kernel is no statement of its module")


def _in_a_function(source: Source, place: int) -> bool:
    functions = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    bodies = ((node.body[0].lineno, node.end_lineno or node.lineno) for node in functions)
    starts = source.line_starts
    return any(starts[first - 1] <= place < (*starts, len(source.text) + 1)[last] for first, last in bodies)


def _read(
    before: str, texts: Mapping[str, str], wanted: Mapping[str, Mapping[str, int]], today: dict[str, str], lookup: str
) -> str:
    """Return what reads the value that stood as `before`, under the name that has these values on every GPU."""
    if not all(_is_value(text) for text in (before, *texts.values())):
        raise Refused("an edit changes more than a value")
    here = {capability: texts.get(capability, before) for capability in wanted}
    for name in dict.fromkeys(name for values in wanted.values() for name in values):
        if today.get(name, before) == before and here == {
            capability: str(values.get(name, before)) for capability, values in wanted.items()
        }:
            today[name] = before
            return f'{lookup}("{name}")'
    raise Refused("a value that is edited is none of those that are tuned")


def _inserted(texts: Mapping[str, str], today: dict[str, str], lookup: str) -> str:
    """Keywords that are inserted: who does not set one has the compiler's own default."""
    model = max(texts.values(), key=len)
    names = [name for name, _ in _KEYWORD.findall(model)]
    for name in names:
        default = COMPILER_DEFAULTS.get(name)
        if default is None:
            raise Refused("an edit adds more than options that have a default")
        today[name] = str(default)
    if any(name not in names for text in texts.values() for name, _ in _KEYWORD.findall(text)):
        raise Refused("what is added to the launch is not the same everywhere")
    return _KEYWORD.sub(lambda match: f'{match[1]}={lookup}("{match[1]}")', model)


def _is_value(text: str) -> bool:
    try:
        return isinstance(ast.parse(text.strip(), mode="eval").body, ast.Constant)
    except SyntaxError:
        return False


def _binds_torch(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Import) and any((alias.asname or alias.name) == "torch" for alias in node.names)
        for node in tree.body
    )
