"""Ignore files (`.gitignore`, `.git/info/exclude`), read as git reads them; and names that are never sent."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass
from pathlib import Path

_NAMES = (".gitignore", ".tritonforgeignore")
_LARGEST = 1 << 20
_SECRET = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "id_rsa*", "id_ed25519*", "id_ecdsa*", "id_dsa*",
    ".netrc", ".pypirc", ".npmrc", ".pgpass", ".htpasswd", "credentials", "credentials.json", "secrets.*",
)  # fmt: skip
_SECRET_FOLDERS = frozenset([".git", ".hg", ".svn", ".ssh", ".aws", ".gnupg", ".kube", ".docker"])


_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "blank": r" \t", "xdigit": "0-9A-Fa-f", "punct": r"!-/:-@[\\\]^_`{-~", "cntrl": r"\x00-\x1f\x7f", "graph": "!-~",
    "print": " -~",
}  # fmt: skip
_CLASS = re.compile(rf"\[:({'|'.join(_CLASSES)}):\]")
_BRACKETS = re.compile(r"\[([!^]?)(\]?(?:\[:\w+:\]|\\.|[^\]\\])*)\]")


@dataclass(frozen=True)
class _Pattern:
    regex: re.Pattern[str]
    negated: bool
    folders_only: bool
    place: str


class Ignored:
    """What the ignore files of the workspace `root` leave out. Paths are relative to it, with `/`."""

    def __init__(self, root: Path) -> None:
        """Read ignore files when they are first needed."""
        self._root = root
        self._known: dict[str, tuple[tuple[tuple[int, int] | None, ...], tuple[_Pattern, ...]]] = {}
        self._reasons: dict[str, str | None] = {}

    def look_again(self) -> None:
        """Notice ignore files that have changed."""
        changed = [folder for folder, (states, _) in self._known.items() if self._states(folder) != states]
        for folder in changed:
            del self._known[folder]
        if changed:
            self._reasons.clear()

    def reason(self, name: str) -> str | None:
        """Say why `name` must not be sent, as a clause; None when it may be."""
        if name not in self._reasons:
            self._reasons[name] = self._reason(name)
        return self._reasons[name]

    def leaves_out(self, folder: str) -> bool:
        """Tell whether nothing below `folder` may be sent."""
        parts = folder.split("/")
        return any(part in _SECRET_FOLDERS for part in parts) or any(
            self._decided(parts[:depth], folder=True) for depth in range(1, len(parts) + 1)
        )

    def _reason(self, name: str) -> str | None:
        parts = name.split("/")
        if any(part in _SECRET_FOLDERS for part in parts[:-1]) or any(
            fnmatch.fnmatchcase(parts[-1].lower(), pattern) for pattern in _SECRET
        ):
            return "files of that name may hold secrets"
        for depth in range(1, len(parts) + 1):
            found = self._decided(parts[:depth], folder=depth < len(parts))
            if found is not None:
                return f"it is ignored ({found.place})"
        return None

    def _decided(self, parts: list[str], *, folder: bool) -> _Pattern | None:
        """The pattern that ignores a path; the last one that matches decides, and the innermost file is the last."""
        decided: _Pattern | None = None
        for depth in range(len(parts)):
            inside = "/".join(parts[depth:])
            for pattern in self._patterns("/".join(parts[:depth])):
                if (folder or not pattern.folders_only) and pattern.regex.fullmatch(inside):
                    decided = pattern
        return None if decided is None or decided.negated else decided

    def _names(self, folder: str) -> list[str]:
        names = [f"{folder}/{name}" if folder else name for name in _NAMES]
        return names if folder else [".git/info/exclude", *names]

    def _states(self, folder: str) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_state(self._root / name) for name in self._names(folder))

    def _patterns(self, folder: str) -> tuple[_Pattern, ...]:
        if folder not in self._known:
            states = self._states(folder)
            read = [
                _read(self._root / name, name) for name, state in zip(self._names(folder), states, strict=True) if state
            ]
            self._known[folder] = states, tuple(pattern for patterns in read for pattern in patterns)
        return self._known[folder][1]


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read(path: Path, name: str) -> list[_Pattern]:
    if path.is_symlink():  # git does not follow them either, and it may lead outside
        return []
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(_LARGEST).splitlines()
    except OSError:
        return []
    return [found for number, line in enumerate(lines, 1) if (found := _pattern(line, f"{name}:{number}"))]


def _pattern(line: str, place: str) -> _Pattern | None:
    text = line
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    folders_only = text.endswith("/")
    text = text.rstrip("/") if folders_only else text
    if not text:
        return None
    anchored = "/" in text
    try:
        regex = re.compile(("" if anchored else "(?:.*/)?") + _regex(text.removeprefix("/")), re.DOTALL)
    except re.error:
        return None
    return _Pattern(regex, negated, folders_only, f"{place}: {line.strip()}")


def _regex(text: str) -> str:
    out, i = "", 0
    while i < len(text):
        rest = text[i:]
        if rest.startswith("**/") and (i == 0 or text[i - 1] == "/"):
            out, i = out + "(?:.*/)?", i + 3
        elif rest == "**" and (i == 0 or text[i - 1] == "/"):
            out, i = out + ".*", i + 2
        elif rest[0] == "*":
            out, i = out + "[^/]*", i + 1
        elif rest[0] == "?":
            out, i = out + "[^/]", i + 1
        elif found := _BRACKETS.match(rest):
            body = re.sub(r"([\[&~|])", r"\\\1", _CLASS.sub(lambda one: _CLASSES[one[1]], found[2]))
            out, i = out + f"(?!/)[{'^' if found[1] else ''}{body}]", i + found.end()
        elif rest[0] == "\\" and len(rest) > 1:
            out, i = out + re.escape(rest[1]), i + 2
        else:
            out, i = out + re.escape(rest[0]), i + 1
    return out
