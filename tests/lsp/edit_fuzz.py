"""Random edit sequences, as editors send them, against a model that knows the client's text only as encoded units."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path

from in_process import InProcess
from lsp_client import CAPABILITIES

ENCODINGS = ("utf-8", "utf-16", "utf-32")
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
_KERNEL = '''\
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    """Größe, λ und 🚀."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offs, tl.load(x + offs, mask=offs < n), mask=offs < n)


def run(x, out):
    kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
'''
_TYPED = (
    '@triton.jit\ndef added(p, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n\ts = "é🚀"\n    tl.store(p + i, i * n)\n'
)
_PIECES = (
    "", "x", "\n", "\r\n", "\r", "\t", "🚀", "é", "e\u0301", "\u2028", "\x0b", "\x0c", "\x85", "👩‍👩‍👧", "\ufeff", "'''", '"', "(", ")", "    ",
    "\n\n", "@triton.jit\n", "def f(", "tl.load(", "# tritonforge: ignore[TF203]", "\U0010ffff", "\x00", "\\\n", "\r\r\n\n",
)  # fmt: skip


class Units:
    """A text as the client's encoding has it: nothing but bytes, and lines that end at CR LF, LF or CR."""

    def __init__(self, text, encoding):
        self.codec, self.size = _CODECS[encoding]
        self.data = text.encode(self.codec)

    @property
    def text(self):
        return self.data.decode(self.codec)

    def _is(self, at, char):
        return self.data[at : at + self.size] == char.encode(self.codec)

    def lines(self):
        """(start, end without the line end) of every line, in bytes."""
        found, start, at = [], 0, 0
        while at < len(self.data):
            if self._is(at, "\r") or self._is(at, "\n"):
                end = at
                at += self.size
                if self._is(end, "\r") and self._is(at, "\n"):
                    at += self.size
                found.append((start, end))
                start = at
            else:
                at += self.size
        return [*found, (start, len(self.data))]

    def offset(self, position, lines):
        if position["line"] >= len(lines):
            return len(self.data)
        start, end = lines[position["line"]]
        return min(start + position["character"] * self.size, end)

    def apply(self, change):
        if "range" not in change:
            self.data = change["text"].encode(self.codec)
            return
        lines = self.lines()
        start, end = (self.offset(change["range"][side], lines) for side in ("start", "end"))
        self.data = self.data[:start] + change["text"].encode(self.codec) + self.data[end:]

    def position(self, rng, lines):
        """A place between two characters, now and then one beyond the end of its line or of the text."""
        number = rng.randrange(len(lines))
        if rng.random() < 0.03:
            return {"line": len(lines) + rng.randrange(5), "character": rng.randrange(9)}
        start, end = lines[number]
        if rng.random() < 0.03:
            return {"line": number, "character": (end - start) // self.size + rng.randrange(1, 99)}
        line = self.data[start:end].decode(self.codec)
        return {"line": number, "character": len(line[: rng.randrange(len(line) + 1)].encode(self.codec)) // self.size}


def change(units, rng):
    """One change event, as an editor would make it of `units`."""
    if rng.random() < 0.01:
        return {"text": "".join(rng.choice(_PIECES) for _ in range(rng.randrange(30)))}
    lines = units.lines()
    start = end = units.position(rng, lines)
    if rng.random() < 0.5:
        end = (
            units.position(rng, lines)
            if rng.random() < 0.1
            else {**start, "character": start["character"] + rng.randrange(4)}
        )
        if (end["line"], end["character"]) < (start["line"], start["character"]):
            start, end = end, start
        end = _between_characters(units, end, lines)
    return {"range": {"start": start, "end": end}, "text": rng.choice(_PIECES)}


def _between_characters(units, position, lines):
    """No editor cuts a character in two."""
    if position["line"] >= len(lines):
        return position
    start, end = lines[position["line"]]
    at = start + position["character"] * units.size
    while at < end:
        try:
            units.data[start:at].decode(units.codec)
            break
        except UnicodeDecodeError:
            at += units.size
    return {**position, "character": (at - start) // units.size}


def typing(units, rng, count):
    """Somebody types a kernel, character by character, at the end of a line."""
    lines = units.lines()
    number = rng.randrange(len(lines))
    start, end = lines[number]
    at = {"line": number, "character": (end - start) // units.size}
    for char in _TYPED[:count]:
        yield {"range": {"start": dict(at), "end": dict(at)}, "text": char}
        if char == "\n":
            at = {"line": at["line"] + 1, "character": 0}
        else:
            at["character"] += len(char.encode(units.codec)) // units.size


class Fuzz:
    """Sequences of edits on one server; to be made in a running event loop."""

    def __init__(self, folder: Path, encoding, seed):
        said = copy.deepcopy(CAPABILITIES)
        said["general"]["positionEncodings"] = [encoding]
        self.rng = random.Random(f"{encoding}-{seed}")
        self.server = InProcess(folder, capabilities=said)
        assert self.server.initialized["capabilities"].get("positionEncoding", "utf-16") == encoding
        self.uri = (folder / "fuzzed.py").as_uri()
        self.encoding = encoding
        self.sequences = self.events = self.edits = 0
        self.read = 0

    def sequence(self):
        """Open a document, edit it a few times, and compare after every notification."""
        rng = self.rng
        text = rng.choice(
            (_KERNEL, _KERNEL.replace("\n", "\r\n"), "", "\r", "🚀", _KERNEL[: rng.randrange(len(_KERNEL))])
        )
        units = Units(text, self.encoding)
        version = 1
        document = {"uri": self.uri, "languageId": "python", "version": version, "text": text}
        self.server.notify("textDocument/didOpen", {"textDocument": document})
        if rng.random() < 0.1:
            steps = ([one] for one in typing(units, rng, rng.randrange(1, len(_TYPED))))
        else:
            steps = (None for _ in range(rng.randrange(1, 9)))
        for step in steps:
            # Several changes of one notification apply one after the other.
            changes = step or []
            for number in range(0 if step else rng.choice((1, 1, 1, 2, 4))):
                changes.append(change(units, rng))
                units.apply(changes[number])
            if step:
                units.apply(step[0])
            version += 1
            self.server.notify(
                "textDocument/didChange",
                {"textDocument": {"uri": self.uri, "version": version}, "contentChanges": changes},
            )
            self.events += 1
            self.edits += len(changes)
            held, ours = self.server.text(self.uri), units.text
            assert held == ours, json.dumps({"encoding": self.encoding, "changes": changes, "held": held, "ours": ours})
        if rng.random() < 0.1:
            self._ask(units)
        self.server.notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})
        assert self.server.text(self.uri) is None
        self.sequences += 1
        self.server.wire.messages.clear()

    def _ask(self, units):
        """Whatever state the text is in, requests are answered, and ranges lie in the text."""
        document = {"textDocument": {"uri": self.uri}}
        lines = units.lines()
        found = self.server.request("textDocument/diagnostic", document)["items"]
        lenses = self.server.request("textDocument/codeLens", document)
        self.server.request("textDocument/hover", {**document, "position": units.position(self.rng, lines)})
        for one in [*found, *lenses]:
            start, end = one["range"]["start"], one["range"]["end"]
            assert (start["line"], start["character"]) <= (end["line"], end["character"])
            for place in (start, end):
                first, last = lines[place["line"]]
                assert place["character"] <= (last - first) // units.size, one
                units.data[first : first + place["character"] * units.size].decode(units.codec)
        self.read += 1
