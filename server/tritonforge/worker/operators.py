"""Operators that programs register with PyTorch: each version of a program keeps its own.

PyTorch's registry belongs to the process. A second version of a program that registers `mylib::op` would be refused, or
would take the place of the first's. So from the second on a namespace gets another name there, and `torch.ops.mylib` is
that of the program in force.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

_BY_NAME = (
    "impl", "register_kernel", "register_fake", "register_autograd", "register_autocast", "register_vmap",
    "register_torch_dispatch", "impl_abstract", "get_ctx",
)  # fmt: skip
_RESERVED = {"aten", "prim", "prims", "c10", "quantized", "inductor", "_inductor_test", "higher_order", "profiler"}
_names: dict[int, dict[str, str]] = {}
"""The name in the registry for each namespace, by the number of the program."""
_natural: dict[str, Any] = {}
_current = 0
_installed = False


@contextlib.contextmanager
def of_program(number: int) -> Iterator[None]:
    """Register operators inside the block for the program of that number, and show its own in `torch.ops`."""
    global _current
    _install()
    before, _current = _current, number
    _show()
    try:
        yield
    finally:
        _current = before
        _show()


def _show() -> None:
    own = _names.get(_current, {})
    for name, natural in _natural.items():
        setattr(torch.ops, name, getattr(torch.ops, own[name]) if own.get(name, name) != name else natural)


def _registered(namespace: str) -> str:
    """Return the name under which the program in force registers a namespace."""
    if _current == 0 or namespace in _RESERVED:
        return namespace
    own = _names.setdefault(_current, {})
    if namespace not in own:
        if any(namespace in names.values() for number, names in _names.items() if number == _current):
            return namespace  # already another name for one of its own
        others = sum(namespace in names for number, names in _names.items() if number != _current)
        own[namespace] = f"{namespace}__{others}" if others else namespace
        _natural.setdefault(namespace, getattr(torch.ops, namespace))
        _show()
    return own[namespace]


def _known(namespace: str) -> str:
    return _names.get(_current, {}).get(namespace, namespace)


def _install() -> None:
    global _installed
    if _installed:
        return
    _installed = True
    library = torch.library.Library.__init__

    @functools.wraps(library)
    def init(self: Any, ns: str, kind: str, *args: Any, **kwargs: Any) -> None:
        library(self, _known(ns) if kind == "IMPL" else _registered(ns), kind, *args, **kwargs)

    torch.library.Library.__init__ = init
    for name in _BY_NAME:
        if hasattr(torch.library, name):
            setattr(torch.library, name, _renaming(getattr(torch.library, name), _known))
    torch.library.define = _renaming(torch.library.define, _registered)
    with contextlib.suppress(ImportError):
        from torch._library.custom_ops import CustomOpDef

        definition = CustomOpDef.__init__

        @functools.wraps(definition)
        def defined(self: Any, namespace: str, *args: Any, **kwargs: Any) -> None:
            definition(self, _registered(namespace), *args, **kwargs)

        CustomOpDef.__init__ = defined


def _renaming(function: Callable[..., Any], name_of: Callable[[str], str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def renamed(first: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(first, str) and "::" in first:
            namespace, _, rest = first.partition("::")
            first = f"{name_of(namespace)}::{rest}"
        return function(first, *args, **kwargs)

    return renamed
