"""Edits as a unified diff that `git apply` and `patch -p1` accept."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from tritonforge.domain.source import Edit, apply_edits

_NO_NEWLINE = "\\ No newline at end of file\n"


def unified_diff(texts: Mapping[str, str], edits: Sequence[Edit], context: int = 3) -> str:
    """Return the diff that `edits` make of `texts`, files in alphabetical order; empty when nothing changes.

    Lines end at line feeds alone, as git and patch see it, so that carriage returns are part of a line's content. The
    diff must be written in the encoding of the files it describes (UTF-8 for nearly all).

    Raises:
        KeyError: an edit is of a file that `texts` lacks.
        ValueError: edits overlap or leave the text.
    """
    parts: list[str] = []
    for file in sorted({edit.file for edit in edits}):
        before = texts[file]
        after = apply_edits(before, tuple(e for e in edits if e.file == file))
        parts.extend(_of_file(file, before, after, context))
    return "".join(parts)


def edits_between(file: str, before: str, after: str) -> tuple[Edit, ...]:
    """Return edits that make `after` of `before`, one for each run of lines that differ; none overlap."""
    old, new = _lines(before), _lines(after)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        Edit(file, starts[a], starts[b], "".join(new[c:d]))
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    )


def _of_file(file: str, before: str, after: str, context: int) -> list[str]:
    old, new = _quoted(f"a/{file}"), _quoted(f"b/{file}")
    lines = list(difflib.unified_diff(_lines(before), _lines(after), old, new, n=context))
    if not lines:
        return []
    # Both tools end a header's name at a tab; git writes one only where the name holds a space.
    header = [f"--- {_ended(old)}\n", f"+++ {_ended(new)}\n"]
    body = [line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines[2:]]
    return header + body


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _ended(name: str) -> str:
    return f"{name}\t" if " " in name else name


def _quoted(name: str) -> str:
    """Quote a path as git does: in C style when it holds a quote, a backslash, a control or a non-ASCII character."""
    if name.isascii() and name.isprintable() and not set(name) & {'"', "\\"}:
        return name
    short = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    out = [
        short.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
        for byte in name.encode("utf-8", "surrogateescape")
    ]
    return f'"{"".join(out)}"'
