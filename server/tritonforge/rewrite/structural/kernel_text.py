"""A kernel as a concrete syntax tree, beside the same file as the host rules read it."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache

import libcst as cst

from tritonforge.domain.kernel import Kernel, LaunchSite
from tritonforge.domain.launch import Launch, Scalar, Tensor
from tritonforge.domain.source import Edit
from tritonforge.rewrite.elsewhere import with_all_sites
from tritonforge.rewrite.protocol import Task
from tritonforge.rewrite.rules.launch_values import (
    LaunchNode,
    Refused,
    Settings,
    kernel_function,
    launches_in,
    node_of_site,
)
from tritonforge.rewrite.scopes import read
from tritonforge.rewrite.structural.edits import minimal_edits


@lru_cache(maxsize=8)
def _parsed(text: str) -> cst.Module:
    return cst.parse_module(text)


@lru_cache(maxsize=8)
def _is_kept(text: str) -> bool:
    """Tell whether the syntax tree of a text gives it back as it is; writing it out takes as long as parsing."""
    return _parsed(text).code == text


@lru_cache(maxsize=8)
def _functions(text: str) -> tuple[cst.FunctionDef, ...]:
    return tuple(functions_of(_parsed(text)))


class KernelText:
    """What a structural rewrite works on. `module` and `function` are not to be changed; make new nodes instead.

    `source` and `scopes` are of the file that launches the kernel (`host_file`), which may import it from the one that
    `file`, `text`, `module`, `own_source` and `own_scopes` are of.

    Args:
        task: the kernel, the texts of its files, and its launches, the first of which decides.

    Raises:
        Refused: the kernel is not written as a function of this file, or the file is not one that can be edited.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.kernel: Kernel = with_all_sites(task.kernel, task.texts)
        self.launch: Launch = task.launches[0]
        self.file = self.kernel.file
        self.text = task.texts[self.file]
        self.host_file = self._host_file()
        try:
            self.own_source, self.own_scopes = read(self.file, self.text)
            self.source, self.scopes = read(self.host_file, task.texts[self.host_file])
            self.module = _parsed(self.text)
        except (SyntaxError, cst.ParserSyntaxError) as error:
            raise Refused(f"{self.file} cannot be parsed") from error
        if not _is_kept(self.text):
            raise Refused(f"{self.file} has line endings that cannot be kept")
        self.function = self._function()
        self.tl = _alias(self.text, "triton.language")
        self.triton = _alias(self.source.text, "triton")
        """What the file with the launches calls it; `own_triton`: the file with the kernel."""
        self.own_triton = _alias(self.text, "triton")

    def _host_file(self) -> str:
        files = dict.fromkeys(site.file for site in self.kernel.launch_sites)
        made = self.launch.call_site.file
        return made if made in files else next(iter(files), self.file)

    def _function(self) -> cst.FunctionDef:
        node = kernel_function(self.own_scopes, self.kernel)
        if node is None:
            raise Refused(f"{self.kernel.name} is not written as a function of {self.file}")
        same = sorted(
            n.lineno
            for n in self.own_scopes.nodes
            if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == node.name
        )
        found = [f for f in _functions(self.text) if f.name.value == node.name]
        if len(found) != len(same):
            raise Refused(f"{self.kernel.name} cannot be told from others of its name")
        return found[same.index(node.lineno)]

    # The launch.

    @property
    def sites(self) -> tuple[LaunchSite, ...]:
        """The kernel's launch sites in the file that launches it."""
        return tuple(s for s in self.kernel.launch_sites if s.file == self.host_file)

    def nodes_of_sites(self) -> tuple[LaunchNode, ...]:
        """Return every launch of the kernel, all of them in one file.

        Raises:
            Refused: there is none, or the kernel is launched in several files.
        """
        files = dict.fromkeys(site.file for site in self.kernel.launch_sites)
        if len(files) > 1:
            raise Refused(f"{self.kernel.name} is launched in several files: {', '.join(files)}")
        launches = launches_in(self.scopes)
        nodes = [node_of_site(self.source, launches, s) for s in self.sites]
        if not nodes or any(n is None for n in nodes):
            raise Refused(f"no launch of {self.kernel.name} is written in {self.host_file}")
        return tuple(n for n in nodes if n is not None)

    def settings(self) -> Settings:
        """Return what tells where launches take their values from."""
        return Settings(self.source, self.scopes, self.kernel, kernel_function(self.own_scopes, self.kernel))

    def value(self, name: str) -> int | None:
        """Return what the recorded launch passes for a parameter of the kernel, if that is an integer."""
        problem, config = self.launch.problem, self.launch.config
        pairs = (*problem.arguments, *problem.constexprs, *config.constexprs, *config.options)
        found = next((v for n, v in pairs if n == name), None)
        return found.value if isinstance(found, Scalar) and type(found.value) is int else None

    def size(self, words: str) -> int | None:
        """Return what an extent comes to in the recorded launch, if it is a number or a parameter of the kernel."""
        return int(words) if words.isdecimal() else self.value(words)

    def at(self, launch: Launch) -> KernelText:
        """Return this with another recorded launch in the place of the first, to ask for values of it."""
        again = copy.copy(self)
        again.launch = launch
        return again

    def share_memory(self, first: str, second: str) -> bool:
        """Tell whether a recorded launch passes tensors of the same memory for two parameters."""
        for launch in self.task.launches:
            tensors = {n: v for n, v in launch.problem.arguments if isinstance(v, Tensor)}
            one, other = tensors.get(first), tensors.get(second)
            if one is not None and other is not None and one.buffer >= 0 and one.buffer == other.buffer:
                return True
        return False

    # Names and code.

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that the kernel uses or the module's own code has."""
        module = self.own_scopes.tree
        return frozenset(n.value for n in _names(self.function)) | frozenset(
            name.id
            for node in module.body
            for name in ast.walk(node)
            if isinstance(name, ast.Name) and self.own_scopes.scope_of(name) is module
        )

    def fresh(self, *wishes: str, but: Iterable[str] = ()) -> str:
        """Return the first of `wishes` that the kernel does not use; the last one numbered when it uses all.

        `but` are further names that are taken.
        """
        taken = self.names | set(but)
        for wish in wishes:
            if wish not in taken:
                return wish
        return next(f"{wishes[-1]}_{i}" for i in range(2, 99) if f"{wishes[-1]}_{i}" not in taken)

    def reading(self, function: cst.FunctionDef) -> KernelText:
        """Return this with `function` in the kernel's place, to be read and transformed; it makes no edits."""
        again = copy.copy(self)
        again.function = function
        again.__dict__.pop("names", None)  # kept from before, without those that `function` adds
        return again

    def with_body(self, body: Iterable[cst.CSTNode]) -> cst.FunctionDef:
        """Return the kernel with other statements in its body."""
        return self.function.with_changes(body=self.function.body.with_changes(body=list(body)))

    def edits(self, function: cst.FunctionDef) -> tuple[Edit, ...]:
        """Return the edits that put `function` in the place of the kernel's.

        Raises:
            Refused: nothing would change.
        """
        after = self.module.deep_replace(self.function, function)
        assert isinstance(after, cst.Module)
        if after.code == self.text:
            raise Refused("there is nothing to change")
        return minimal_edits(self.file, self.text, after.code)


class Names:
    """Names for what a rewrite adds to a kernel, each given once: `text.fresh` with those given before taken, too.

    `taken` are further names that are not given.
    """

    def __init__(self, text: KernelText, taken: Iterable[str] = ()) -> None:
        self.text, self.taken = text, set(taken)

    def __call__(self, *wishes: str) -> str:
        """Return the first of `wishes` that is free."""
        name = self.text.fresh(*wishes, but=self.taken)
        self.taken.add(name)
        return name


@lru_cache(maxsize=16)
def _alias(text: str, module: str) -> str:
    """Return what a file calls `module`; empty when it is not imported under a name of its own."""
    parent, _, leaf = module.rpartition(".")
    for line in text.splitlines():
        words = line.split("#")[0].strip()
        if m := re.fullmatch(rf"import {re.escape(module)} as (\w+)", words):
            return m.group(1)
        if words == f"import {module}":
            return module
        if parent and (m := re.fullmatch(rf"from {re.escape(parent)} import (.+)", words)):
            for part in m.group(1).strip("()").split(","):
                name, _, alias = part.strip().partition(" as ")
                if name == leaf:
                    return alias.strip() or leaf
    return ""


_EMPTY = cst.Module([])


def code(node: cst.CSTNode) -> str:
    """Return the text of a node."""
    return _EMPTY.code_for_node(node)


def line_of(words: str) -> cst.SimpleStatementLine:
    """Return a statement on a line of its own."""
    return cst.ensure_type(cst.parse_statement(words), cst.SimpleStatementLine)


def functions_of(node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    """Yield every function in `node`, in the order of the text."""
    for child in node.children:
        if isinstance(child, cst.FunctionDef):
            yield child
        yield from functions_of(child)


def nodes_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield every node in `node`, outermost first, in the order of the text.

    Names of keywords and of attributes are left out: they read no variable.
    """
    for child in _children(node):
        yield child
        yield from nodes_of(child)


@lru_cache(maxsize=50_000)
def _children(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    # libcst finds them by visiting all fields, and rewrites walk over one kernel many times. Nodes hash by identity.
    left_out = node.keyword if isinstance(node, cst.Arg) else node.attr if isinstance(node, cst.Attribute) else None
    return tuple(child for child in node.children if child is not left_out)


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    for child in node.children:
        if isinstance(child, cst.Name):
            yield child
        yield from _names(child)


class _Replace(cst.CSTTransformer):
    def __init__(self, replaced: Mapping[int, Replacement]) -> None:
        super().__init__()
        self.replaced = replaced

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> Replacement:  # type: ignore[override]
        new = self.replaced.get(id(original_node))
        return updated_node if new is None else new


Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]


def replaced(function: cst.FunctionDef, nodes: Iterable[tuple[cst.CSTNode, Replacement]]) -> cst.FunctionDef:
    """Return `function` with other nodes in the place of some of its own; none of them lies in another."""
    new = replaced_in(function, nodes)
    assert isinstance(new, cst.FunctionDef)
    return new


def replaced_in(node: cst.CSTNode, nodes: Iterable[tuple[cst.CSTNode, Replacement]]) -> cst.CSTNode:
    """Return `node` with other nodes in the place of some that lie in it."""
    new = node.visit(_Replace({id(old): other for old, other in nodes}))
    assert isinstance(new, cst.CSTNode)
    return new
