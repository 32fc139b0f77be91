"""The whole of static analysis: one file's text in, everything it shows about its kernels out."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from tritonforge.analysis.comments import comment_problems, find_directives, read_specs, read_suppressions
from tritonforge.analysis.discovery import JitFunction, KernelResolver, attach_wrappers, find_jit_functions
from tritonforge.analysis.entries import find_entries
from tritonforge.analysis.hashing import CodeHasher
from tritonforge.analysis.hosts import find_hosts
from tritonforge.analysis.kernels import build_kernel, place_kernel
from tritonforge.analysis.launches import Launch, Tuned, describe_launch, find_launches, true_sizes
from tritonforge.analysis.links import Links
from tritonforge.analysis.memo import Facts, Memo, View
from tritonforge.analysis.names import dotted
from tritonforge.analysis.origins import Origins
from tritonforge.analysis.parsing import Parsed
from tritonforge.analysis.roles import returns_value
from tritonforge.analysis.scopes import ModuleIndex, index_module
from tritonforge.analysis.text import SourceText, decode_source
from tritonforge.analysis.tuning import read_autotune, read_heuristics
from tritonforge.analysis.unit import Unit
from tritonforge.domain.kernel import FileAnalysis, Kernel, SourceError, Suppression


def analyze(source: str | bytes, file: str, memo: Memo | None = None) -> FileAnalysis:
    """Return every kernel of a file with the facts its source shows, and what could not be read.

    `source` is the file's text, or its bytes (decoded as Python would). `file` is carried through as it is. Never
    raises for any input: what is wrong with the source is in `errors`, each with a line, and the parts of a half-typed
    file that are whole are analysed all the same. Columns count code points of the text; a byte-order mark counts when
    it is part of a given `str` and not when it is part of given `bytes`.
    """
    errors: list[SourceError] = []
    problem = None
    if isinstance(source, bytes):
        source, problem = decode_source(source)
        if problem is not None:
            errors.append(SourceError(file, *problem))
    text = SourceText(source)
    memo = Memo() if memo is None else memo
    parsed = memo.parse(text, file)
    tree, failure = parsed.tree, parsed.failure
    # Where a byte did not decode, the parser stumbles over what stands in its place: that has been said.
    if failure is not None and not (problem is not None and "U+FFFD" in failure.message):
        errors.append(SourceError(file, failure.line, failure.message))
    if tree is None:
        return FileAnalysis(file, errors=tuple(errors))
    try:
        parsed.index = index_module(tree, parsed.index)
        found = _analyze_index(parsed.index, text, file, errors, (memo, parsed))
    except RecursionError:
        errors.append(SourceError(file, 1, "the code is nested too deeply to analyse"))
        return FileAnalysis(file, errors=tuple(errors))
    memo.done(parsed, file)
    return found


def _analyze_index(
    index: ModuleIndex, text: SourceText, file: str, errors: list[SourceError], known: tuple[Memo, Parsed]
) -> FileAnalysis:
    unit = Unit(file, text, index, find_jit_functions(index))
    directives = find_directives(text)
    specs = read_specs(directives, index, text)
    launches: list[Launch] = []
    if unit.jits:
        resolver = KernelResolver(index, unit.jits)
        attach_wrappers(index, resolver)
        launches = find_launches(unit, resolver)
    entries = find_entries(index, launches)
    hosts = find_hosts(index, text, unit.jits) if unit.jits or specs else ()
    kernels: tuple[Kernel, ...] = ()
    if unit.jits:
        kernels = _kernels(unit, launches, read_suppressions(directives), known, errors)
    hosts = hosts if kernels or specs else ()
    return FileAnalysis(file, kernels, tuple(errors), specs, entries, hosts, comment_problems(directives, file))


def _kernels(
    unit: Unit,
    launches: list[Launch],
    suppressions: tuple[tuple[Suppression, bool], ...],
    known: tuple[Memo, Parsed],
    errors: list[SourceError],
) -> tuple[Kernel, ...]:
    memo, parsed = known
    text, origins, view = unit.text, Origins(unit.index, unit.text), memo.view(unit, parsed.lines)
    links = Links(unit, parsed.kernels)
    by_kernel: dict[int, list[Launch]] = {}
    for launch in launches:
        by_kernel.setdefault(id(launch.kernel), []).append(launch)
    found: list[tuple[JitFunction, list[Launch]]] = []
    new: list[tuple[JitFunction, list[Launch], Facts, set[str] | None]] = []
    for jit in _entry_kernels(unit.jits, launches):
        own = by_kernel.get(id(jit), [])
        found.append((jit, own))
        before = links.find(jit, own)
        whole = before is None or before.whole
        if before is None:
            tuned = Tuned(read_autotune(jit, text), read_heuristics(jit))
            sites = tuple(describe_launch(launch, tuned, unit, origins) for launch in own)
            sized = {name for launch in own for name in true_sizes(launch, origins)}
            facts = view.facts(jit, sized)
            anew = facts is None
            if facts is None:
                facts = Facts(*build_kernel(jit, unit, sized))
            whole = facts.whole
            facts = Facts(replace(facts.kernel, launch_sites=sites), whole)
            new.append((jit, own, facts, sized if anew else None))
        if not whole:
            errors.append(SourceError(unit.file, jit.node.lineno, f"{jit.name} is nested too deeply to analyse"))
    hasher = _LateHasher(unit, view)
    for jit, own, facts, sized_anew in new:
        kernel = facts.kernel
        if sized_anew is not None:
            kernel = replace(kernel, code_hash=hasher.kernel(jit))
            view.keep(jit, sized_anew, Facts(replace(kernel, launch_sites=()), facts.whole))
        placed = zip(own, kernel.launch_sites, strict=True)
        hashed = tuple(replace(site, site_hash=hasher.host(at)) for at, site in placed)
        links.keep(jit, own, replace(kernel, launch_sites=hashed), whole=facts.whole)
    hasher.restore()
    parsed.kernels = links.known
    kernels = (place_kernel(links.known[id(jit.node)].kernel, suppressions, text) for jit, _ in found)
    return tuple(memo.same(kernel) for kernel in kernels)


class _LateHasher:
    """Hashes what is not known yet. The tree is normalised for that: nothing else may read it until it is restored."""

    def __init__(self, unit: Unit, view: View) -> None:
        self._unit = unit
        self._view = view
        self._hasher: CodeHasher | None = None

    def _of(self) -> CodeHasher:
        if self._hasher is None:
            self._hasher = CodeHasher(self._unit.index, self._unit.text)
        return self._hasher

    def restore(self) -> None:
        if self._hasher is not None:
            self._hasher.restore()

    def kernel(self, jit: JitFunction) -> str:
        return self._of().kernel(jit)

    def host(self, launch: Launch) -> str:
        host = launch.at.scope.function()
        node = host.node if host is not None else launch.at.statement
        known = self._view.host_hash(node)
        if known is None:
            known = self._of().host(node)
            self._view.keep_host(node, known)
        return known


def _entry_kernels(jits: Mapping[int, JitFunction], launches: list[Launch]) -> list[JitFunction]:
    """Return the jit functions that are kernels in their own right, not helpers of others.

    A launched or tuned function is one; so is a function that no other jit function uses and that returns nothing.
    """
    launched = {id(launch.kernel) for launch in launches}
    used: set[int] = set()
    for jit in jits.values():
        for name in jit.scope.names - jit.scope.bindings.keys():
            found = jit.scope.lookup(name)
            for binding in found[1] if found is not None else []:
                if binding.node is not jit.node:
                    used.add(id(binding.node))
    entries = []
    for jit in jits.values():
        paths = [dotted(d.func if isinstance(d, ast.Call) else d, scope) for d, scope in jit.decorators()]
        tuned = any(path in ("triton.autotune", "triton.heuristics") for path in paths)
        if id(jit) in launched or tuned or (id(jit.node) not in used and not returns_value(jit)):
            entries.append(jit)
    return entries
