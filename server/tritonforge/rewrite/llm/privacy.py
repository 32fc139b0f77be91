"""What leaves the machine is the kernel and what belongs to it: no path, no user's name, nothing that looks like a key.

Paths and keys inside the code itself become placeholders, so that an answer that keeps them can be put back.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import os
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path

from tritonforge.rewrite.llm.secrets import Redactor, environments_secrets, secrets_in

# Two parts at least, so that a quotient (`m/n`) is no path; `//` (an address, an integer quotient) begins none.
_PATH = re.compile(r"""(?<![\w/:.)\]])(?:~|\.{1,2})?(?:/[\w.@+~-]+){2,}/?|\b[A-Za-z]:[\\/](?:[\w.@+~ -]+[\\/]?)+""")
_FILE = re.compile(r"(?:[\w.+-]+/)*\b[\w-]+\.(?:py|toml|json|so|ptx|cubin|txt|csv|pt|pth|safetensors)\b(?::\d+)?")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>)]+")
_MAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_TEXTS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
_PLACEHOLDER = re.compile(r"HIDDEN_(\d+)_HIDDEN")


def own_names(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return what names the user and the machine, as far as it is long enough to be told from a word."""
    environment = os.environ if environment is None else environment
    names = {environment.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "HOSTNAME")}
    with contextlib.suppress(OSError, KeyError, RuntimeError, AttributeError):  # no such thing here: nothing to hide
        names |= {getpass.getuser(), Path.home().name, os.uname().nodename}
    common = {"root", "user", "home", "admin", "ubuntu", "localhost", "runner", "test"}
    return frozenset(name for name in names if len(name) >= 4 and name.lower() not in common)


class Hiding:
    """Replaces what must not leave, and puts it back where code comes back with it."""

    def __init__(
        self, root: str = "", names: frozenset[str] | None = None, secrets: frozenset[str] | None = None
    ) -> None:
        """`root` is the workspace's folder, `names` what names the user, `secrets` what the environment keeps."""
        self._root = root.rstrip("/")
        self._names = own_names() if names is None else names
        self._secrets = environments_secrets(os.environ) if secrets is None else secrets
        self._redact = Redactor(self._secrets)
        self._known: list[str] = []
        self._files: set[str] = set()

    def about(self, file: str) -> None:
        """Take note of what the file is called (relative to the workspace): messages name it, also as a module."""
        stem = file.rsplit(".", 1)[0]
        self._files |= {file, stem.replace("/", "."), stem.rpartition("/")[0], stem.partition("/")[0]} - {"", stem}

    def code(self, text: str, *, part: bool = False) -> str:
        """Return code with paths, addresses, names and keys in its strings and comments as placeholders.

        `part`: it is lines taken from somewhere, which may stand inside a string that begins elsewhere: all of it is
        looked at.
        """

        def hide(found: re.Match[str]) -> str:
            if found[0] not in self._known:
                self._known.append(found[0])
            return f"HIDDEN_{self._known.index(found[0])}_HIDDEN"

        def hidden_in(text: str) -> str:
            keys = sorted({*secrets_in(text), *(one for one in self._secrets if one in text)}, key=len, reverse=True)
            if keys:
                text = re.sub("|".join(map(re.escape, keys)), hide, text)
            for pattern in (_MAIL, _ADDRESS, _PATH):
                text = pattern.sub(hide, text)
            return self._names_pattern().sub(hide, text) if self._names else text

        out: list[str] = []
        at = 0
        for start, end in [(0, len(text))] if part else _texts_of(text):
            out += [text[at:start], hidden_in(text[start:end])]
            at = end
        return "".join([*out, text[at:]])

    def back(self, text: str) -> str:
        """Return code of an answer with the placeholders as what they stood for; unknown ones stay."""

        def known(found: re.Match[str]) -> str:
            number = int(found[1])
            return self._known[number] if number < len(self._known) else found[0]

        return _PLACEHOLDER.sub(known, text)

    def words(self, text: str) -> str:
        """Return a message (of a compiler, of a finding) without paths, addresses, names and keys; for good."""
        if self._root:
            text = text.replace(self._root + "/", "").replace(self._root, "the workspace")
        text = self._redact(text)
        for name in sorted(self._files, key=len, reverse=True):
            text = re.sub(rf"(?<![\w/.]){re.escape(name)}(?![\w/])", "<file>", text)
        for pattern, instead in ((_MAIL, "<mail>"), (_ADDRESS, "<address>"), (_PATH, "<path>"), (_FILE, "<file>")):
            text = pattern.sub(instead, text)
        return self._names_pattern().sub("<name>", text) if self._names else text

    def _names_pattern(self) -> re.Pattern[str]:
        listed = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        return re.compile(rf"(?<![A-Za-z0-9])(?:{listed})(?![A-Za-z0-9])")


def _texts_of(code: str) -> list[tuple[int, int]]:
    """Return where strings and comments stand in code: only there a slash is no quotient. All of what is no code."""
    starts = [0]
    for line in code.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type in _TEXTS:
                (row, column), (last, end) = token.start, token.end
                found.append((starts[row - 1] + column, starts[last - 1] + end))
    except (tokenize.TokenError, SyntaxError):
        return [(0, len(code))]
    return found
