"""Runs every malicious case as if nothing had judged it, each in a forked process, and prints what was seen as JSON.

`canary`: its file was touched, or the one to keep was removed. `hangs`: it was still running after its time, or had eaten
its memory. `exits`: it ended its process. `nothing`: none of these, as with what only misleads a reader.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import types
from pathlib import Path
from unittest.mock import MagicMock

import malicious

SECONDS = 0.5


class Kernel:
    """A jit function of the stand-in: it runs as Python."""

    def __init__(self, function):
        self.function = function
        self.__globals__ = function.__globals__

    def __getitem__(self, grid):
        def launch(*arguments, **keywords):
            if callable(grid):
                grid("true" if grid.__name__ == "run_hook" else {"BLOCK_SIZE": 64})
            return self.function(*arguments, **keywords)

        return launch


def decorate(*given, **keywords):
    """Stand in for autotune and heuristics: call every function that was given to it."""

    def apply(kernel):
        waiting = [*given, *keywords.values()]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                waiting += one.values()
            elif isinstance(one, (list, tuple)):
                waiting += one
            elif callable(one) and not isinstance(one, MagicMock):
                one("true") if one.__code__.co_argcount == 1 else one("true", {})
        return kernel

    return apply


def triton_standing_in():
    triton = types.ModuleType("triton")
    language = MagicMock(name="triton.language")
    language.static_range = range
    triton.jit = lambda function=None, **_: Kernel(function) if function else Kernel
    triton.autotune = triton.heuristics = decorate
    triton.Config = lambda values, **keywords: [values, keywords]
    triton.cdiv = lambda a, b: 1
    triton.language = language
    return {"triton": triton, "triton.language": language, "torch": MagicMock(name="torch")}


def run(code: str, canary: Path) -> None:
    sys.modules.update(triton_standing_in())
    names = {"__name__": "kernels"}
    exec(compile(malicious.BASE.replace("CANARY", str(canary)), "base", "exec"), names)
    exec(compile(code, "proposal", "exec"), names)
    x = MagicMock()
    result = names["scale_plain"](x, 2.0)
    if hasattr(result, "__next__"):
        next(result)


def main(folder: Path) -> None:
    seen = {}
    for number, (name, code) in enumerate(sorted(malicious.CASES.items())):
        canary = folder / f"canary{number}"
        keep = folder / f"canary{number}.keep"
        keep.touch()
        pid = os.fork()
        if pid == 0:
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            try:
                run(code.replace("CANARY", str(canary)), canary)
            except SystemExit:
                os._exit(7)
            except MemoryError:
                os._exit(8)
            except BaseException:  # noqa: BLE001 - a case may raise anything
                os._exit(0)
            os._exit(0)
        deadline = time.monotonic() + SECONDS
        status = None
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            time.sleep(0.01)
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            status = 8 << 8
        code_of = os.waitstatus_to_exitcode(status)
        seen[name] = (
            "canary"
            if canary.exists() or not keep.exists()
            else "hangs"
            if code_of == 8
            else "exits"
            if code_of
            else "nothing"
        )
    sys.stdout.write(json.dumps(seen))


main(Path(sys.argv[1]))
