"""Names of kernels that the C++ compiler mangled, shortened to what a person recognises."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LENGTH = re.compile(r"[1-9]\d*")
_PIECE = re.compile(r"L[a-z]+\d+E|[ST]\d*_|([1-9]\d*)")
"""A literal, a back-reference, or the length of an identifier that follows."""

_ANONYMOUS = re.compile(r"_GLOBAL__N_|^_?[0-9a-f]{8,}|_cu_[0-9a-f]{8}")
_DULL = {"at", "native", "std", "cuda", "detail", "cutlass", "c10", "thrust", "cub", "internal"}
_TELLING = re.compile(r"(?:^|_)(?:[A-Z]\w*|\w*(?:functor|op|kernel|epilogue)\w*)", re.IGNORECASE)


def short_name(name: str) -> str:
    """Return the function's own name and, for a template of PyTorch's, the operation that it was made for.

    `_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE…` becomes
    `vectorized_elementwise_kernel<CUDAFunctor_add>`. What is not mangled, or not understood, is returned as it is.
    """
    if not name.startswith("_Z"):
        return _plain(name)
    words, rest = _nested(name)
    if not words:
        return name
    own = words[-1]
    inner = next((word for word in _words(rest) if _tells(word) and word not in words), None)
    return f"{own}<{inner}>" if inner else own


def _plain(name: str) -> str:
    """Return a demangled name without its return type, arguments, template and namespaces."""
    if not set("<(") & set(name):
        return name
    head = name.replace("(anonymous namespace)::", "").partition("<")[0].partition("(")[0].strip()
    return head.rpartition("::")[2].rpartition(" ")[2] or name


def _nested(name: str) -> tuple[list[str], str]:
    """Return the namespaces and the name that a mangled name begins with, and what follows them."""
    at = 2
    if name[at : at + 1] == "N":
        at += 1
    words: list[str] = []
    while found := _LENGTH.match(name, at):
        start, size = found.end(), int(found[0])
        if start + size > len(name):
            break
        word = name[start : start + size]
        at = start + size
        if not _ANONYMOUS.search(word):
            words.append(word)
    return words, name[at:]


def _words(text: str) -> Iterator[str]:
    at = 0
    while found := _PIECE.search(text, at):
        at = found.end()
        if found[1]:
            word = text[at : at + int(found[1])]
            if len(word) == int(found[1]) and word.isidentifier():
                yield word
                at += len(word)


def _tells(word: str) -> bool:
    return word not in _DULL and not _ANONYMOUS.search(word) and bool(_TELLING.match(word))
