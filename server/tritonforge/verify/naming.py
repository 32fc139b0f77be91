"""The arguments of a call by the names of the function's parameters."""

from __future__ import annotations

import dataclasses
import itertools

from tritonforge.domain.launch import Call, Value
from tritonforge.verify.signature import Parameter


def by_name(call: Call, parameters: tuple[Parameter, ...]) -> dict[str, Value | None]:
    """Return the arguments of `call` by name; positional ones that no parameter stands for are left out."""
    positional = [parameter.name for parameter in parameters if parameter.positional]
    return {**dict(zip(positional, call.arguments, strict=False)), **dict(call.keywords)}


def given(call: Call, parameters: tuple[Parameter, ...], named: dict[str, Value | None]) -> Call:
    """Return `call` with arguments by name; they stay positional up to the first that is left out (None)."""
    positional = [parameter.name for parameter in parameters if parameter.positional][: len(call.arguments)]
    kept = list(itertools.takewhile(lambda name: named[name] is not None, positional))
    arguments = tuple(value for name in kept if (value := named[name]) is not None)
    keywords = tuple((name, value) for name, value in named.items() if name not in kept and value is not None)
    return dataclasses.replace(call, arguments=arguments, keywords=keywords)
