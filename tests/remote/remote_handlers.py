"""Handlers of a worker that has the client's files: a `Record` job does what its `name` says. Without torch."""

import importlib
import os
import sys
import time
from pathlib import Path

from tritonforge.domain.launch import Call, ExactValues, Tensor
from tritonforge.domain.messages import Compile, CompileResult, Describe, Record, RecordResult
from tritonforge.domain.target import GpuInfo, WorkerInfo
from tritonforge.worker.failures import JobFailed


def prepare(kind):
    del kind


def record(request, context):
    action, _, argument = request.name.partition(" ")
    done = ACTIONS[action](request, context, argument)
    return done if isinstance(done, RecordResult) else RecordResult((), (), str(done))


def read(request, context, argument):
    """The content of a file of the workspace, or a failure that names it as a program's would."""
    try:
        return Path(request.program.root, argument).read_text()
    except OSError as error:
        raise JobFailed("user-error", f"{type(error).__name__}: {error}") from error


def import_it(request, context, argument):
    """What a module of the workspace calls `VALUE`."""
    sys.path.insert(0, request.program.root)
    for name in list(sys.modules):
        if getattr(sys.modules[name], "__file__", None) and "/trees/" in str(sys.modules[name].__file__):
            del sys.modules[name]
    importlib.invalidate_caches()
    sys.dont_write_bytecode = True
    try:
        return str(importlib.import_module(argument).VALUE)
    except ImportError as error:
        raise JobFailed("user-error", f"{type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(request.program.root)


def listing(request, context, argument):
    """Every file of the workspace as it is over there, one a line."""
    root = Path(request.program.root)
    return "\n".join(sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()))


def fails(request, context, argument):
    where = Path(request.program.root, "kernels.py")
    raise JobFailed("user-error", f"ValueError in {where}", file=str(where), line=7, detail=f'  File "{where}", line 7')


def large(request, context, argument):
    data = bytes(int(argument))
    return RecordResult((Call("c", "f.py", "f", (Tensor((len(data),), (1,), "int8", values=ExactValues(data)),)),))


def spoil(request, context, argument):
    Path(request.program.root, argument).write_text("spoilt")
    return "spoilt"


def spin(request, context, argument):
    context.progress(f"spinning in {request.program.root}")
    while True:
        time.sleep(0.05)


def wait_for(request, context, argument):
    """Say that it runs in a file, and wait until another appears."""
    begun, go = argument.split("|")
    with Path(begun).open("a") as file:
        file.write(f"{os.getpid()}\n")
    context.progress("waiting")
    while not Path(go).exists():
        time.sleep(0.02)
    return "went on"


ACTIONS = {
    "echo": lambda r, c, a: a,
    "pid": lambda r, c, a: os.getpid(),
    "root": lambda r, c, a: r.program.root,
    "sleep": lambda r, c, a: time.sleep(float(a)),
    "read": read,
    "import": import_it,
    "list": listing,
    "fails": fails,
    "large": large,
    "spoil": spoil,
    "spin": spin,
    "wait": wait_for,
    "environment": lambda r, c, a: os.environ.get(a, ""),
}


def describe(request, context):
    gpu = os.environ.get("TRITONFORGE_TEST_GPU")
    path = os.environ.get("TRITONFORGE_TEST_GPU_FILE")
    name = Path(path).read_text() if path else gpu
    gpus = tuple(GpuInfo(one, "sm_90", 132, 1 << 37) for one in (name or "").split(",") if one)
    return WorkerInfo(1, "3", "python", "fake", "2", "3", 1, 1, gpus)


def sizes(request, context):
    """How many bytes of tensors came with a call, and from where the program was loaded."""
    held = [one.values.data for one in request.call.arguments if isinstance(one, Tensor)]
    return CompileResult((), f"{sum(map(len, held))}", ((str(Path(request.program.root, request.program.file)), "x"),))


HANDLERS = {Record: record, Compile: sizes, Describe: describe}
