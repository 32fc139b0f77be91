"""Further parameters of a kernel, written as its author writes parameters."""

from __future__ import annotations

import libcst as cst

from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.layout import LONGEST

_SPACED = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def with_parameter(function: cst.FunctionDef, name: str, *, constexpr: str = "", least: int = 0) -> cst.FunctionDef:
    """Return `function` with one more parameter that launches give by name.

    Args:
        function: the kernel.
        name: of the parameter.
        constexpr: the annotation of a constexpr (`tl.constexpr`), in the words that others of the kernel use; empty for
            a value at run time, which goes in front of the constexprs.
        least: how many arguments launches pass by position; it goes behind those.

    Raises:
        Refused: the parameters are not plain ones, or have defaults where it would have to go.
    """
    parameters = function.params
    plain = (
        isinstance(parameters.star_arg, cst.MaybeSentinel)
        and not (parameters.kwonly_params or parameters.posonly_params)
        and parameters.star_kwarg is None
    )
    if not plain or not parameters.params:
        raise Refused("the kernel's parameters are not plain ones")
    listed = list(parameters.params)
    most = next((i for i, p in enumerate(listed) if p.default is not None), len(listed))
    first = next((i for i, p in enumerate(listed) if _is_constexpr(p)), len(listed))
    at = min(most, len(listed)) if constexpr else max(least, min(first, most))
    if not least <= at <= most:
        raise Refused("launches pass by position where the kernel has defaults")
    annotation = None
    if constexpr:
        like = next((p.annotation for p in listed if _is_constexpr(p)), None)
        annotation = like.deep_clone() if like is not None else cst.Annotation(cst.parse_expression(constexpr))
    new = cst.Param(cst.Name(name), annotation=annotation)
    between = listed[-2].comma if len(listed) > 1 else _SPACED
    if at < len(listed):
        listed.insert(at, new.with_changes(comma=listed[at - 1].comma if at else between))
    else:
        trailing = listed[-1].comma
        if isinstance(trailing, cst.Comma):
            new = new.with_changes(comma=trailing)
        else:
            new = new.with_changes(whitespace_after_param=listed[-1].whitespace_after_param)
            listed[-1] = listed[-1].with_changes(whitespace_after_param=cst.SimpleWhitespace(""))
        listed[-1] = listed[-1].with_changes(comma=between)
        listed.append(new)
    return _laid_out(function.with_changes(params=parameters.with_changes(params=listed)))


def _laid_out(function: cst.FunctionDef) -> cst.FunctionDef:
    """Return `function` with a header that has grown too long for one line spread over several."""
    bare = function.with_changes(decorators=(), leading_lines=(), body=cst.IndentedBlock([]))
    header = cst.Module([]).code_for_node(bare).split("\n")
    written = cst.Module([]).code_for_node(function.params)
    if "\n" in written:
        return _one_a_line(function) if any(len(line) > LONGEST for line in header) and "#" not in written else function
    if len(header[0]) <= LONGEST:
        return function
    if not isinstance(function.whitespace_before_params, cst.SimpleWhitespace):
        return function
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    outer = cst.ParenthesizedWhitespace(indent=True)
    one_line = len(cst.Module([]).code_for_node(function.params)) + 4 <= LONGEST
    listed = list(function.params.params)
    for i, parameter in enumerate(listed[:-1]):
        listed[i] = parameter.with_changes(comma=_SPACED if one_line else cst.Comma(whitespace_after=inner))
    last = cst.MaybeSentinel.DEFAULT if one_line else cst.Comma(whitespace_after=outer)
    listed[-1] = listed[-1].with_changes(comma=last)
    if one_line:
        listed[-1] = listed[-1].with_changes(whitespace_after_param=outer)
    return function.with_changes(whitespace_before_params=inner, params=function.params.with_changes(params=listed))


def _one_a_line(function: cst.FunctionDef) -> cst.FunctionDef:
    """Return `function` with every parameter of a header that is spread already on a line of its own."""
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    outer = cst.ParenthesizedWhitespace(indent=True)
    listed = [p.with_changes(comma=cst.Comma(whitespace_after=inner)) for p in function.params.params]
    listed[-1] = listed[-1].with_changes(
        comma=cst.Comma(whitespace_after=outer), whitespace_after_param=cst.SimpleWhitespace("")
    )
    return function.with_changes(whitespace_before_params=inner, params=function.params.with_changes(params=listed))


def _is_constexpr(parameter: cst.Param) -> bool:
    annotation = parameter.annotation
    return annotation is not None and "constexpr" in cst.Module([]).code_for_node(annotation.annotation)
