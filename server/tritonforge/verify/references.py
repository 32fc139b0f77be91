"""The PyTorch function that says what is right: named by the user, or recognised beside the kernel."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tritonforge.analysis import analyze
from tritonforge.analysis.scopes import Function, parameters_of
from tritonforge.domain.errors import UsageError
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program, Reference
from tritonforge.verify.host_code import File, reached, read_file
from tritonforge.verify.signature import text_of

_MARKS = ("ref", "reference", "torch", "pytorch", "naive", "eager", "golden", "native")
_MARKED = re.compile(
    rf"^(?:(?:{'|'.join(_MARKS)})_(?P<of>\w+)|(?P<of_>\w+)_(?:{'|'.join(_MARKS)})|(?:{'|'.join(_MARKS)}))$"
)
_FUSED = re.compile(r"^(?:triton|fused|tl)_|_(?:triton|fused|tl|kernel|forward|fwd)$")


@dataclass(frozen=True)
class Named:
    """A reference with how to call it for a person: `file::function`, and whether it was recognised or named."""

    reference: Reference
    text: str
    recognised: bool = False


def named_reference(program: Program, function: str, text: str, file: str, calls: Sequence[Call]) -> Named:
    """Return the reference that a user names.

    Args:
        program: what to load: the reference's file.
        function: its name in that file.
        text: the file's text.
        file: the file, as a person knows it.
        calls: the calls that it must be able to take.

    Raises:
        UsageError: when the file has no such function, or it takes other arguments than the host function is given.
    """
    parsed = read_file(text)
    if parsed is None:
        raise UsageError(f"{file} is no Python.")
    node = _function(parsed, function)
    if node is None:
        known = sorted(name for name in _functions(parsed) if not name.startswith("test_"))
        raise UsageError(f"{file} defines no function {function}.", f"It defines {', '.join(known[:5]) or 'none'}.")
    if _launches(parsed, function, file, text):
        raise UsageError(f"{function} launches a kernel itself.", "A reference is written in PyTorch alone.")
    for call in calls:
        problem = _cannot_take(node, call)
        if problem:
            raise UsageError(
                f"{function} cannot be called as {call.function} is: {problem}.",
                f"Give it the parameters of {call.function}.",
            )
    return Named(Reference(program, function), f"{file}::{function}")


def reference_beside(program: Program, calls: Sequence[Call]) -> Named | None:
    """Return the reference that is recognised beside the host function that all `calls` are of; None without one."""
    hosts = {(call.file, call.function) for call in calls}
    if len(hosts) != 1:
        return None
    text = text_of(program, calls[0].file)
    return recognised_reference(replace(program, file=calls[0].file), text, calls[0]) if text is not None else None


def recognised_reference(program: Program, text: str, call: Call) -> Named | None:
    """Return the function beside the host function of `call` that is plainly its reference, or None.

    It has the same parameters in the same order, a name that says so (`torch_softmax`, `softmax_ref`, `naive_softmax`
    beside `softmax`; `reference` where nothing else is marked), and launches no kernel. Two such functions are none.
    """
    if call.kernel_launch is not None or "." in call.function:
        return None
    parsed = read_file(text)
    host = _function(parsed, call.function) if parsed is not None else None
    if parsed is None or host is None:
        return None
    wanted = [parameter.arg for parameter, _ in parameters_of(host)]
    found = [
        name
        for name, node in _functions(parsed).items()
        if _speaks_of(name, call.function)
        and [parameter.arg for parameter, _ in parameters_of(node)] == wanted
        and not node.decorator_list
        and any(isinstance(one, ast.Return) and one.value is not None for one in ast.walk(node))
        and not _launches(parsed, name, call.file, text)
    ]
    exact = [name for name in found if _MARKED.match(name) and _stem(name) is not None] or found
    if len(exact) != 1:
        return None
    return Named(Reference(program, exact[0]), f"{call.file}::{exact[0]}", recognised=True)


def _functions(file: File) -> dict[str, Function]:
    return {node.name: node for node in file.tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and id(node) not in file.jits}  # fmt: skip


def _function(file: File, name: str) -> Function | None:
    return _functions(file).get(name)


def _stem(name: str) -> str | None:
    found = _MARKED.match(name)
    return (found["of"] or found["of_"]) if found else None


def _speaks_of(name: str, host: str) -> bool:
    """Tell whether a name marks a reference of the function `host`."""
    if name == host or not _MARKED.match(name):
        return False
    stem = _stem(name)
    return stem is None or _plain(stem) == _plain(host)


def _plain(name: str) -> str:
    before = None
    while before != name:
        before, name = name, _FUSED.sub("", name)
    return name.strip("_")


def _launches(file: File, function: str, path: str, text: str) -> bool:
    """Tell whether a function, or one that it calls, launches a kernel of the file."""
    names = {file.scope(node).qualname for node in reached(file, [function])}
    return bool(names & {site.host for kernel in analyze(text, path).kernels for site in kernel.launch_sites})


def _cannot_take(node: Function, call: Call) -> str:
    """Say why a function cannot be given the arguments of a call; empty when it can."""
    positional = [*node.args.posonlyargs, *node.args.args]
    if len(call.arguments) > len(positional) and node.args.vararg is None:
        return f"it takes {len(positional)} arguments in order, not {len(call.arguments)}"
    given = {parameter.arg for parameter in positional[: len(call.arguments)]} | {name for name, _ in call.keywords}
    known = {parameter.arg for parameter, _ in parameters_of(node)}
    unknown = [name for name, _ in call.keywords if name not in known]
    if unknown and node.args.kwarg is None:
        return f"it has no parameter {unknown[0]}"
    missing = [name for name in _required(node) if name not in given]
    return f"nothing is given for its parameter {missing[0]}" if missing else ""


def _required(node: Function) -> Iterable[str]:
    return [parameter.arg for parameter, default in parameters_of(node) if default is None]
