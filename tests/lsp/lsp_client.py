"""A small language client: a real server process, real JSON-RPC over its pipes."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

CAPABILITIES = json.loads((Path(__file__).parents[1] / "data" / "lsp" / "vscode_capabilities.json").read_text())
MARK = "TRITONFORGE_LSP_TEST"


def capabilities(**changes):
    """VS Code's capabilities, with `path__to__value=…` changed; None removes the key."""
    said = copy.deepcopy(CAPABILITIES)
    for path, value in changes.items():
        *outer, last = path.split("__")
        at = said
        for step in outer:
            at = at[step]
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return said


class LspError(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    """`answers` maps a method of the server's to what is answered: a value, or a function of its params."""

    def __init__(self, root, *, arguments=("serve", "--stdio"), capabilities=CAPABILITIES):
        self.root = Path(root)
        self.mark = uuid.uuid4().hex
        self.capabilities = capabilities
        self.answers = {"window/showMessageRequest": None, "workspace/applyEdit": self._apply}
        self.received = []
        self.texts = {}
        self.versions = {}
        self.stray = b""
        self._condition = threading.Condition()
        self._responses = {}
        self._ids = itertools.count(1)
        self._sending = threading.Lock()
        self._closed = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tritonforge", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.root,
            env={**os.environ, MARK: self.mark},
        )  # fmt: skip
        self._errors = []
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._log, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    # ------------------------------------------------------------------ wire
    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        with self._sending:  # threads answer the server's questions, and a benchmark asks from several
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self.process.stdin.flush()

    def notify(self, method, params=None):
        self.send({"method": method, "params": params})

    def begin(self, method, params=None):
        number = next(self._ids)
        self.send({"id": number, "method": method, **({} if params is None else {"params": params})})
        return number

    def end(self, number, timeout=30):
        with self._condition:
            found = self._condition.wait_for(lambda: number in self._responses or self._closed, timeout)
            assert found, f"no answer within {timeout} s; the log says:\n{self.log}"
            assert number in self._responses, f"the server ended without an answer:\n{self.log}"
            message = self._responses.pop(number)
        if "error" in message:
            raise LspError(message["error"])
        return message["result"]

    def request(self, method, params=None, timeout=30):
        return self.end(self.begin(method, params), timeout)

    def wait(self, wanted, timeout=60):
        """The first message received so far, or from now on, for which `wanted(method, params)` holds."""

        def found():
            return next((m for m in self.received if wanted(m["method"], m.get("params"))), None)

        with self._condition:
            self._condition.wait_for(lambda: found() is not None or self._closed, timeout)
            message = found()
        assert message is not None, f"nothing of the kind in {timeout} s; got {self.received[-8:]}\n{self.log}"
        return message.get("params")

    @staticmethod
    def until(condition, timeout=20):
        """Wait until something on our side is so."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, "it did not come to pass"
            time.sleep(0.02)

    def all(self, method):
        with self._condition:
            return [m.get("params") for m in self.received if m["method"] == method]

    @property
    def log(self):
        return "".join(self._errors[-60:])

    def _log(self):
        for line in self.process.stderr:
            self._errors.append(line.decode("utf-8", "replace"))

    def _read(self):
        out = self.process.stdout
        while True:
            length = None
            while True:
                line = out.readline()
                if not line:
                    with self._condition:
                        self._closed = True
                        self._condition.notify_all()
                    return
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                elif not line.strip():
                    if length is not None:
                        break
                elif b":" not in line or not line.lower().startswith(b"content-"):
                    self.stray += line
            message = json.loads(out.read(length))
            with self._condition:
                if "method" in message:
                    self.received.append(message)
                else:
                    self._responses[message["id"]] = message
                self._condition.notify_all()
            if "method" in message and "id" in message:
                threading.Thread(target=self._answer, args=(message,), daemon=True).start()

    def _answer(self, message):
        answer = self.answers.get(message["method"])
        if callable(answer):
            answer = answer(message.get("params"))
        # A test may have closed the pipe since: nobody waits for an answer any more.
        with contextlib.suppress(ValueError, BrokenPipeError):
            self.send({"id": message["id"], "result": answer})

    # -------------------------------------------------------------- protocol
    def initialize(self, options=None, **more):
        return self.start(options, **more)["capabilities"]

    def start(self, options=None, **more):
        result = self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "clientInfo": {"name": "Visual Studio Code", "version": "1.139.0"},
                "locale": "en",
                "rootPath": str(self.root),
                "rootUri": self.root.as_uri(),
                "capabilities": self.capabilities,
                "initializationOptions": options,
                "trace": "off",
                "workspaceFolders": [{"uri": self.root.as_uri(), "name": self.root.name}],
                **more,
            },
        )
        self.notify("initialized", {})
        return result

    def uri(self, name):
        return (self.root / name).as_uri()

    def open(self, name, text=None):
        text = (self.root / name).read_bytes().decode() if text is None else text
        uri = name if ":" in name else self.uri(name)
        self.texts[uri], self.versions[uri] = text, 1
        self.notify(
            "textDocument/didOpen",
            {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}},
        )
        return uri

    def change(self, uri, text):
        """Replace the whole text."""
        self.versions[uri] += 1
        self.texts[uri] = text
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": self.versions[uri]}, "contentChanges": [{"text": text}]},
        )

    def edit(self, uri, edits):
        """Apply LSP edits in UTF-16 to our copy, and tell the server as an editor would: incrementally, from the back."""
        ordered = sorted(
            edits, key=lambda e: (e["range"]["start"]["line"], e["range"]["start"]["character"]), reverse=True
        )
        self.versions[uri] += 1
        for edit in ordered:
            start, end = (utf16_offset(self.texts[uri], edit["range"][side]) for side in ("start", "end"))
            self.texts[uri] = self.texts[uri][:start] + edit["newText"] + self.texts[uri][end:]
        self.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": uri, "version": self.versions[uri]},
                "contentChanges": [{"range": e["range"], "text": e["newText"]} for e in ordered],
            },
        )

    def apply(self, edit):
        for change in edit["documentChanges"]:
            uri = change["textDocument"]["uri"]
            assert change["textDocument"]["version"] == self.versions[uri]
            self.edit(uri, change["edits"])

    def _apply(self, params):
        self.apply(params["edit"])
        return {"applied": True}

    def pull(self, uri, previous=None):
        return self.request(
            "textDocument/diagnostic",
            {
                "textDocument": {"uri": uri},
                "identifier": "tritonforge",
                **({"previousResultId": previous} if previous else {}),
            },
        )

    def hover(self, uri, line, character):
        found = self.request(
            "textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
        )
        return found["contents"]["value"] if found else None

    def lenses(self, uri):
        return self.request("textDocument/codeLens", {"textDocument": {"uri": uri}})

    def actions(self, uri, line, diagnostics=(), only=None):
        at = {"line": line, "character": 0}
        context = {"diagnostics": list(diagnostics), "triggerKind": 1, **({"only": only} if only else {})}
        return self.request(
            "textDocument/codeAction",
            {"textDocument": {"uri": uri}, "range": {"start": at, "end": at}, "context": context},
        )

    def command(self, name, **argument):
        return self.request("workspace/executeCommand", {"command": f"tritonforge.{name}", "arguments": [argument]})

    def outcome(self, job, timeout=150):
        """Wait for the end of a job's progress; its message."""
        params = self.wait(
            lambda m, p: m == "$/progress" and p["token"] == job and p["value"]["kind"] == "end", timeout
        )
        return params["value"]["message"]

    def messages(self):
        return [p["message"] for p in self.all("window/showMessage")]

    def shut_down(self, timeout=15):
        self.request("shutdown", timeout=timeout)
        self.notify("exit")
        return self.process.wait(timeout)

    # --------------------------------------------------------------- cleanup
    def close(self):
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(5)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def processes(self):
        """Every process that was started by this client, directly or not."""
        found = []
        needle = f"{MARK}={self.mark}".encode()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if (
                        needle in (folder / "environ").read_bytes()
                        and (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                    ):
                        found.append(int(folder.name))
                except OSError:
                    continue
        return found

    def assert_nothing_left(self, seconds=10):
        until = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.1)
        assert not left, f"still there: {left}"


def utf16_offset(text, position):
    line_start = 0
    for _ in range(position["line"]):
        line_start = text.index("\n", line_start) + 1
    line = text[line_start:]
    return line_start + len(line.encode("utf-16-le")[: 2 * position["character"]].decode("utf-16-le"))


__all__ = ["CAPABILITIES", "Client", "LspError", "capabilities"]
