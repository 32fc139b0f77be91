"""Which modules a file imports, read off its bytes: fast enough for every file of a workspace, and for any content."""

from __future__ import annotations

import re

_LONGEST_LIST = 4000  # characters of a parenthesised import; bounds what an unclosed bracket costs
_REST = rb"(?:[^\n#;\\]|\\\r?\n)*"
_FROM = rb"from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]{0,%d}\)|%s)" % (_LONGEST_LIST, _REST)
_STATEMENT = re.compile(rb"^[ \t]*(?:%s|import[ \t]+(%s))" % (_FROM, _REST), re.MULTILINE)
_COMMENT = re.compile(rb"#[^\n]*")
_ITEM = re.compile(rb"([\w.]+|\*)(?:\s+as\s+\w+)?")


def scan_imports(source: bytes) -> tuple[str, ...]:
    """Return every module that `source` may import, each once, in order.

    `from a.b import c` gives `a.b` and `a.b.c`, which may be a module too; a star gives `a.b` and `a.b.*`; relative
    imports keep their dots. Text in strings that looks like an import counts: one too many costs nothing.
    """
    found: dict[str, None] = {}
    for module, listed, plain in _STATEMENT.findall(source):
        if plain:
            for item in _items(plain):
                found[item] = None
            continue
        name = module.decode("ascii")
        found[name] = None
        for item in _items(listed):
            found[f"{name}{item}" if name.endswith(".") else f"{name}.{item}"] = None
    return tuple(found)


def _items(listed: bytes) -> list[str]:
    if b"#" in listed:
        listed = _COMMENT.sub(b"", listed)
    return [item.decode("ascii") for item in _ITEM.findall(listed) if not item.startswith(b".")]
