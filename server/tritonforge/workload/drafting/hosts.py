"""A first spec of a host function: tensors with the extents that its body names and relates, and other arguments."""

from __future__ import annotations

import ast
from functools import lru_cache

from tritonforge.domain.kernel import FileAnalysis, HostFunction, HostParameter, Kernel
from tritonforge.workload.drafting.evidence import Evidence, Reading
from tritonforge.workload.drafting.guesses import Guess, is_usually_tensor, scalar_guess, tensor_guess
from tritonforge.workload.drafting.shapes import common, read_host
from tritonforge.workload.drafting.sizes import Fixed, Shaped, Sizes
from tritonforge.workload.specs.dtypes import dtype_name

_DEPTH = 3


def host_words(host: HostFunction, kernel: Kernel, analysis: FileAnalysis) -> str | None:
    """Return the words of a spec that calls `host`, None when none of its parameters looks like a tensor."""
    reading = _read(host)
    wanted = [p for p in host.parameters if p.default is None]
    tensors = [p for p in wanted if _is_tensor(p, host, kernel, analysis)]
    if not tensors:
        return None
    shaped = _ranked(tensors, host, analysis, multiplies=bool(kernel.dots))
    sizes = Sizes(shaped, reading, {p.name for p in host.parameters}, Fixed.of(kernel, host))
    by_name = {one.name: one for one in shaped}
    words = []
    for parameter in wanted:
        one = by_name.get(parameter.name)
        if one is not None:
            words.append(f"{one.name}={sizes.tensor(one)}")
        elif parameter.name in sizes.parameters:
            words.append(f"{parameter.name}={sizes.parameters[parameter.name]}")
        else:
            words.append(f"{parameter.name}={_scalar(parameter, host, analysis, reading)}")
    return " ".join([*words, *(f"{name}={value}" for name, value in sizes.free())])


@lru_cache(maxsize=256)
def _read(host: HostFunction) -> Reading:
    return read_host(host.source, tuple(p.name for p in host.parameters))


def _is_tensor(
    parameter: HostParameter, host: HostFunction, kernel: Kernel | None, analysis: FileAnalysis, depth: int = 0
) -> bool:
    annotation = parameter.annotation or ""
    if "Tensor" in annotation:
        return True
    if annotation.strip("'\"") in ("int", "float", "bool", "str", "torch.dtype", "torch.device"):
        return False
    evidence = _read(host).evidence[parameter.name]
    for site in kernel.launch_sites if kernel is not None else ():
        if site.host != host.name:
            continue
        for name, text in site.arguments:
            passed = kernel.parameter(name) if kernel is not None and text == parameter.name else None
            if passed is not None and passed.role == "pointer":
                return True
            if passed is not None and passed.role != "unknown":
                return evidence.tensor > 2
    if evidence.tensor > evidence.scalar:
        return True
    passed_on = _passed_on(parameter.name, host, analysis)
    if not passed_on and not evidence.scalar and is_usually_tensor(parameter.name):
        return True
    return depth < _DEPTH and any(_is_tensor(inner, callee, None, analysis, depth + 1) for callee, inner in passed_on)


def _passed_on(name: str, host: HostFunction, analysis: FileAnalysis) -> list[tuple[HostFunction, HostParameter]]:
    """Return the parameters of other functions of the file that `host` passes its own parameter `name` to."""
    found = []
    for call in _read(host).calls:
        callee = _callee(call, analysis)
        if callee is None or callee.name == host.name:
            continue
        for parameter, argument in _bound(call, callee):
            if isinstance(argument, ast.Name) and argument.id == name:
                found.append((callee, parameter))
    return found


def _callee(call: ast.Call, analysis: FileAnalysis) -> HostFunction | None:
    name = ast.unparse(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ""
    return next((f for f in analysis.functions if name and name in (f.called_as, f.name)), None)


def _bound(call: ast.Call, callee: HostFunction) -> list[tuple[HostParameter, ast.expr]]:
    pairs = list(zip(callee.parameters, call.args, strict=False))
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        pairs = []
    by_name = {p.name: p for p in callee.parameters}
    return [*pairs, *((by_name[k.arg], k.value) for k in call.keywords if k.arg in by_name)]


def _ranked(
    tensors: list[HostParameter], host: HostFunction, analysis: FileAnalysis, *, multiplies: bool
) -> list[Shaped]:
    reading = _read(host)
    known = {p.name: _rank(p, host, analysis) for p in tensors}
    for first, second in reading.alike:
        for one, other in ((first, second), (second, first)):
            if one in known and known.get(other) and known[one] is None:
                known[one] = known[other]
    floats = [p for p in tensors if not tensor_guess(p.name).dtype]
    # The one whose axes are known says most; what is only passed on usually has its shape.
    plain = [p for p in floats or tensors if tensor_guess(p.name).shape == "first"]
    named = {p.name: sum(extent[0] == p.name for extent in reading.names) for p in plain}
    ranked = sorted((p for p in plain if (known[p.name] or 0) > 1), key=lambda p: -named[p.name])
    main = (ranked or plain or floats or tensors)[0].name
    if known[main] is None:
        least = reading.evidence[main].least_rank
        known[main] = max(least, 2) if least else 1
    shaped = []
    for parameter in tensors:
        evidence, guess = reading.evidence[parameter.name], tensor_guess(parameter.name)
        if parameter.name == "b" and "a" in known:
            guess = Guess("", "", None, "first")  # a pair, not a bias
        rank = known[parameter.name]
        if rank is None and guess.shape == "last" and multiplies and "w" in parameter.name.lower():
            rank = 2
        if rank is None:
            rank = guess.rank if guess.rank is not None else known[main]
            if guess.per_row:
                rank = max((known[main] or 1) - 1, 1)
            rank = max(rank or 1, evidence.least_rank)
        dtype = dtype_name(_preferred(evidence) or guess.dtype or "fp16") or "float16"
        shaped.append(Shaped(parameter.name, rank, dtype, guess))
    shaped.sort(key=lambda one: one.name != main)
    return shaped


def _rank(parameter: HostParameter, host: HostFunction, analysis: FileAnalysis, depth: int = 0) -> int | None:
    evidence = _read(host).evidence[parameter.name]
    found = evidence.rank if evidence.rank is not None else evidence.weak_rank
    if found is None and depth < _DEPTH:
        for callee, inner in _passed_on(parameter.name, host, analysis):
            found = _rank(inner, callee, analysis, depth + 1)
            if found is not None:
                break
    return found


def _preferred(evidence: Evidence) -> str | None:
    for dtype in ("float16", "bfloat16", "float32"):
        if dtype in evidence.dtypes:
            return dtype
    return common(evidence.dtypes)


def _scalar(parameter: HostParameter, host: HostFunction, analysis: FileAnalysis, reading: Reading) -> str:
    """Return the text of another argument: what callers in the file pass, what it is compared with, else a guess."""
    given = _given_by_callers(parameter.name, host, analysis, 0)
    if given is not None:
        return given
    evidence = reading.evidence[parameter.name]
    if evidence.items:
        return f"[{', '.join(['16'] * evidence.items)}]"
    if evidence.texts:
        return repr(evidence.texts[0])
    namesake = next(
        (p.default for f in analysis.functions for p in f.parameters if p.name == parameter.name and p.default), None
    )
    if namesake is not None and namesake != "None" and _is_plain(ast.parse(namesake, mode="eval").body):
        return namesake
    if evidence.none and not parameter.annotation:
        return "None"
    return scalar_guess(parameter.name, parameter.annotation)


def _given_by_callers(name: str, host: HostFunction, analysis: FileAnalysis, depth: int) -> str | None:
    for caller in analysis.functions:
        for call in _read(caller).calls if caller.name != host.name else ():
            if _callee(call, analysis) is not host:
                continue
            for parameter, argument in _bound(call, host):
                if parameter.name != name:
                    continue
                if _is_plain(argument):
                    return ast.unparse(argument)
                passed = argument.id if isinstance(argument, ast.Name) else ""
                theirs = next((p for p in caller.parameters if p.name == passed), None)
                if theirs is None:
                    continue
                if theirs.default is not None and _is_plain(ast.parse(theirs.default, mode="eval").body):
                    return theirs.default
                if depth < _DEPTH and (found := _given_by_callers(passed, caller, analysis, depth + 1)) is not None:
                    return found
    return None


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str | None)
