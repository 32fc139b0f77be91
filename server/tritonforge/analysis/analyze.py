"""The whole of static analysis: one file's text in, everything it shows about its kernels out."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from tritonforge.analysis.comments import find_directives, read_specs, read_suppressions
from tritonforge.analysis.discovery import JitFunction, KernelResolver, attach_wrappers, find_jit_functions
from tritonforge.analysis.entries import find_entries
from tritonforge.analysis.hashing import CodeHasher
from tritonforge.analysis.hosts import find_hosts
from tritonforge.analysis.kernels import build_kernel
from tritonforge.analysis.launches import Launch, Tuned, describe_launch, find_launches, true_sizes
from tritonforge.analysis.names import dotted
from tritonforge.analysis.origins import Origins
from tritonforge.analysis.parsing import parse_source
from tritonforge.analysis.roles import returns_value
from tritonforge.analysis.scopes import index_module
from tritonforge.analysis.text import SourceText, decode_source
from tritonforge.analysis.tuning import read_autotune, read_heuristics
from tritonforge.analysis.unit import Unit
from tritonforge.domain.kernel import FileAnalysis, Kernel, SourceError


def analyze(source: str | bytes, file: str) -> FileAnalysis:
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
    tree, failure = parse_source(text)
    # Where a byte did not decode, the parser stumbles over what stands in its place: that has been said.
    if failure is not None and not (problem is not None and "U+FFFD" in failure.message):
        errors.append(SourceError(file, failure.line, failure.message))
    if tree is None:
        return FileAnalysis(file, errors=tuple(errors))
    try:
        return _analyze_tree(tree, text, file, errors)
    except RecursionError:
        errors.append(SourceError(file, 1, "the code is nested too deeply to analyse"))
        return FileAnalysis(file, errors=tuple(errors))


def _analyze_tree(tree: ast.Module, text: SourceText, file: str, errors: list[SourceError]) -> FileAnalysis:
    index = index_module(tree)
    unit = Unit(file, text, index, find_jit_functions(index))
    directives = find_directives(text)
    specs = read_specs(directives, index, text)
    launches: list[Launch] = []
    if unit.jits:
        resolver = KernelResolver(index, unit.jits)
        attach_wrappers(index, resolver)
        launches = find_launches(unit, resolver)
    entries = find_entries(tree, index, launches)
    suppressions = read_suppressions(directives)
    origins = Origins(index, text)
    kernels: list[tuple[JitFunction, list[Launch], Kernel]] = []
    for jit in _entry_kernels(unit.jits, launches):
        own = [launch for launch in launches if launch.kernel is jit]
        tuned = Tuned(read_autotune(jit, text), read_heuristics(jit))
        sites = tuple(describe_launch(launch, tuned, unit, origins) for launch in own)
        sized = {name for launch in own for name in true_sizes(launch, origins)}
        kernel, whole = build_kernel(jit, unit, sites, sized, suppressions)
        if not whole:
            errors.append(SourceError(file, jit.node.lineno, f"{jit.name} is nested too deeply to analyse"))
        kernels.append((jit, own, kernel))
    hashed = _hash_all(kernels, CodeHasher(index, text)) if kernels else []
    hosts = find_hosts(index, text, unit.jits) if kernels or specs else ()
    return FileAnalysis(file, tuple(hashed), tuple(errors), specs, entries, hosts)


def _hash_all(kernels: list[tuple[JitFunction, list[Launch], Kernel]], hasher: CodeHasher) -> list[Kernel]:
    hashed = []
    for jit, launches, kernel in kernels:
        sites = []
        for launch, site in zip(launches, kernel.launch_sites, strict=True):
            host = launch.at.scope.function()
            sites.append(replace(site, site_hash=hasher.host(host.node if host is not None else launch.at.statement)))
        hashed.append(replace(kernel, launch_sites=tuple(sites), code_hash=hasher.kernel(jit)))
    return hashed


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
