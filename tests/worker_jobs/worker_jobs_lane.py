"""Lanes for the tests: one process that compiles and one that interprets, each asked to do one job after another."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

from tritonforge.domain.messages import Program
from tritonforge.worker.failures import JobFailed

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROGRAMS = HERE / "programs"

_SERVER = """
import os, pickle, struct, sys
import tritonforge.worker.handlers as handlers
handlers.prepare(sys.argv[1])
requests, answers = os.fdopen(int(sys.argv[2]), "rb"), os.fdopen(int(sys.argv[3]), "wb")
class Context:
    def progress(self, message, fraction=None): pass
    def output(self): return ""
while True:
    head = requests.read(8)
    if len(head) < 8: break
    request = pickle.loads(requests.read(struct.unpack("<Q", head)[0]))
    try:
        answer = handlers.HANDLERS[type(request)](request, Context())
    except Exception as error:
        answer = getattr(error, "failure", None) or repr(error)
        import traceback
        traceback.print_exc()
    body = pickle.dumps(answer)
    answers.write(struct.pack("<Q", len(body)) + body)
    answers.flush()
"""


class Lane:
    """A process that does jobs; a failed job raises `JobFailed` here."""

    def __init__(self, kind: str, cache: Path) -> None:
        ask_read, self._ask = os.pipe()
        self._answer, answer_write = os.pipe()
        environment = {**os.environ, "TRITONFORGE_CACHE_DIR": str(cache)}
        environment.pop("TRITON_INTERPRET", None)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, kind, str(ask_read), str(answer_write)],
            pass_fds=(ask_read, answer_write),
            env=environment,
        )
        os.close(ask_read)
        os.close(answer_write)

    def do(self, request):
        body = pickle.dumps(request)
        os.write(self._ask, struct.pack("<Q", len(body)))
        with os.fdopen(os.dup(self._ask), "wb") as pipe:
            pipe.write(body)
        size = struct.unpack("<Q", self._read(8))[0]
        answer = pickle.loads(self._read(size))
        if type(answer).__name__ == "Failure":
            raise JobFailed(answer.kind, answer.message, file=answer.file, line=answer.line, detail=answer.detail)
        assert not isinstance(answer, str), answer
        return answer

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = os.read(self._answer, size - len(data))
            assert part, "the lane's process died"
            data += part
        return data

    def close(self) -> None:
        os.close(self._ask)
        os.close(self._answer)
        self._process.wait(10)


def changed(program: Program, *changes: tuple[str, str]) -> Program:
    if not changes:
        return program
    text = Path(program.root, program.file).read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return Program(program.root, program.file, ((program.file, text),))
