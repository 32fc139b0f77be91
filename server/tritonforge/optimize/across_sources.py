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
from tritonforge.rewrite.rules.launch_values import COMPILER_DEFAULTS
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
        again = _same(kernel, current)
        if again is None:
            return Refusal("the kernel cannot be found in its autotuned form.", "autotuned")
        more = rewrite_launch(again, {kernel.file: current}, {**_filled(wanted), **values})
        if isinstance(more, Refusal):
            if "already" in more.reason and "this config" in more.reason:
                continue
            return more
        current = apply_edits(current, more.edits)
    if current == text:
        return Refusal("the autotuner has all of these values already.", "autotuned")
    listed = " | ".join(", ".join(f"{name}={value}" for name, value in values.items()) for values in wanted)
    return Candidate(f"autotune over {listed}", (_difference(kernel.file, text, current),), (("autotuned", ()),))


def _filled(wanted: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The first target's values, with what only others set as the compiler has it by default."""
    first = dict(wanted[0])
    for values in wanted[1:]:
        for name, value in values.items():
            default = COMPILER_DEFAULTS.get(name)
            first.setdefault(name, default if isinstance(default, int) else value)
    return first


def _same(kernel: Kernel, text: str) -> Kernel | None:
    return next((one for one in analyze(text, kernel.file).kernels if one.name == kernel.name), None)


def _difference(file: str, before: str, after: str) -> Edit:
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return Edit(file, start, len(before) - end, after[start : len(after) - end])


def architecture_table(kernel: Kernel, text: str, found: Sequence[tuple[str, Candidate]]) -> Candidate | Refusal:
    """Return the source in which each value that the candidates (architecture, edits) set is looked up by the GPU.

    Refused where an edit is more than a value, or the file has no `torch` to ask for the GPU.
    """
    capabilities = {}
    for arch, _ in found:
        match = _ARCH.fullmatch(arch)
        if match is None:
            return Refusal(f"{arch} has no compute capability to look values up by.", "architecture-table")
        capabilities[arch] = f"({match[1]}, {match[2]})"
    source = Source(kernel.file, text)
    if not _binds_torch(source.tree):
        return Refusal("the file does not import torch, which knows the GPU.", "architecture-table")
    comments = [(start, end) for _, start, end, said in source.tokens if said.startswith("#")]
    spans: dict[tuple[int, int], dict[str, str]] = {}
    for arch, candidate in found:
        for edit in candidate.edits:
            if edit.file != kernel.file:
                return Refusal("the values stand in several files.", "architecture-table")
            if not any(start <= edit.start and edit.end <= end for start, end in comments):
                spans.setdefault((edit.start, edit.end), {})[arch] = edit.text
    edits = []
    for (start, end), texts in sorted(spans.items()):
        try:
            made = _looked_up(text[start:end], texts, capabilities)
        except ValueError as error:
            return Refusal(f"{error}.", "architecture-table")
        edits.append(Edit(kernel.file, start, end, made))
    titles = "; ".join(f"{arch}: {candidate.title}" for arch, candidate in found)
    return Candidate(f"by architecture ({titles})", tuple(edits), (("architecture-table", ()),))


def _looked_up(before: str, texts: Mapping[str, str], capabilities: Mapping[str, str]) -> str:
    if not before:
        return _inserted(texts, capabilities)
    for text in (before, *texts.values()):
        if not _is_value(text):
            raise ValueError("an edit changes more than a value")
    return _table({capabilities[arch]: text for arch, text in texts.items()}, before)


def _inserted(texts: Mapping[str, str], capabilities: Mapping[str, str]) -> str:
    """Keywords that are inserted: what a target does not set is the compiler's own default there."""
    values: dict[str, dict[str, str]] = {}
    model = max(texts.values(), key=len)
    for arch, text in texts.items():
        for name, value in _KEYWORD.findall(text):
            values.setdefault(name, {})[capabilities[arch]] = value
    defaults = {name: COMPILER_DEFAULTS.get(name) for name in values}
    if not values or None in defaults.values() or set(values) != {name for name, _ in _KEYWORD.findall(model)}:
        raise ValueError("an edit adds more than options that have a default")
    return _KEYWORD.sub(lambda match: f"{match[1]}={_table(values[match[1]], str(defaults[match[1]]))}", model)


def _table(by_capability: Mapping[str, str], otherwise: str) -> str:
    entries = ", ".join(f"{capability}: {value}" for capability, value in by_capability.items())
    return f"{{{entries}}}.get(torch.cuda.get_device_capability(), {otherwise})"


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
