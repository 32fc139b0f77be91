"""Handlers that misbehave on demand: a `Record` job does what its `name` says. Runs in the worker, without torch."""
# ruff: noqa: T201 - printing is one of the things that user code does

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

from tritonforge.domain.launch import Call, ExactValues, Tensor
from tritonforge.domain.messages import (
    Compare,
    CompareOnDevice,
    CompareResult,
    Compile,
    CompileResult,
    Describe,
    InputOutcome,
    MeasureCeilings,
    Record,
    RecordResult,
    Time,
    TimeBeside,
    TimeFresh,
    TimeResult,
)
from tritonforge.domain.profile import Ceilings
from tritonforge.domain.target import WorkerInfo
from tritonforge.worker.failures import JobFailed

LOG = "TRITONFORGE_TEST_LOG"


def prepare(kind):
    assert ("TRITON_INTERPRET" in os.environ) == (kind == "interpret")
    broken = os.environ.get("TRITONFORGE_TEST_ZYGOTE")
    if broken == "missing":
        import a_module_that_is_not_there  # noqa: F401
    if broken == "segfault":
        print("about to load libbroken.so", flush=True)
        ctypes.string_at(0)
    if broken == "torch":
        import torch  # noqa: F401
        import triton  # noqa: F401
    if broken == "slow":
        time.sleep(1)


def record(request, context):
    action, _, argument = request.name.partition(" ")
    result = ACTIONS[action](request, context, argument)
    return (
        RecordResult((), (), result if isinstance(result, str) else "")
        if not isinstance(result, RecordResult)
        else result
    )


def hog(request, context, argument):
    held = []
    while True:
        held.append(bytearray(16 << 20))
        time.sleep(0.01)


def spin(request, context, argument):
    context.progress("spinning")
    while True:
        pass


def ignore_signals(request, context, argument):
    import signal

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    context.progress("deaf")
    while True:
        time.sleep(1)


def daemonise(keep_environment, then):
    """Double fork with setsid, as a daemon does."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if keep_environment:
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)"])
            time.sleep(1000)
        os._exit(0)
    os.wait()
    then()


def sleeper(request, context, argument):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    context.progress(str(child.pid))
    child.wait()


def progress(request, context, argument):
    for step in range(3):
        context.progress(f"step {step}", step / 3)
        time.sleep(0.08)
    return "done"


def shout(request, context, argument):
    line = "x" * 99 + "\n"
    for _ in range(int(argument) // 100):
        sys.stdout.write(line)
    print("the end")
    return context.output()


def large(request, context, argument):
    call = Call("c", "f.py", "f", (Tensor((1,), (1,), "int8", values=ExactValues(b"\xffab" * (int(argument) // 3))),))
    return RecordResult((call,))


def fail(request, context, argument):
    raise JobFailed(argument, f"this is a {argument}", file="f.py", line=3)


def raise_it(request, context, argument):
    raise ZeroDivisionError("a bug")


def segfault(request, context, argument):
    print("last words")
    ctypes.string_at(0)


def leave_fds(request, context, argument):
    os.closerange(3, 64)
    time.sleep(0.1)
    return "alive"


def about_torch(request, context, argument):
    torch = sys.modules["torch"]
    assert torch.get_num_threads() == 1
    assert not torch.cuda.is_initialized()
    assert "triton" in sys.modules
    return "one thread, CUDA untouched, triton imported"


ACTIONS = {
    "torch": about_torch,
    "echo": lambda r, c, a: a,
    "pid": lambda r, c, a: str(os.getpid()),
    "sleep": lambda r, c, a: time.sleep(float(a)),
    "hog": hog,
    "spin": spin,
    "deaf": ignore_signals,
    "sleeper": sleeper,
    "daemon": lambda r, c, a: daemonise(a == "exec", lambda: (c.progress("started"), time.sleep(1000))),
    "daemon-left": lambda r, c, a: daemonise(a == "exec", lambda: None),
    "progress": progress,
    "shout": shout,
    "large": large,
    "fail": fail,
    "raise": raise_it,
    "segfault": segfault,
    "exit": lambda r, c, a: os._exit(int(a)),
    "sys-exit": lambda r, c, a: sys.exit(int(a)),
    "killed": lambda r, c, a: os.kill(os.getpid(), 9),
    "close-fds": leave_fds,
    "environment": lambda r, c, a: os.environ.get(a, ""),
    "stdin": lambda r, c, a: repr(sys.stdin.read()),
    "not-a-result": lambda r, c, a: RecordResult(object()),
    "children": lambda r, c, a: (
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True) and c.output()
    ),
    "nice": lambda r, c, a: str(os.nice(0)),
}


def placed():
    """The GPUs that a lane sees, and the cores that it may use."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return f"{os.environ.get('CUDA_VISIBLE_DEVICES', 'all')} {cores}"


def timed(work):
    def run(request, context):
        start = time.monotonic()
        answer = work(request, context)
        if LOG in os.environ:
            with Path(os.environ[LOG]).open("a") as file:
                file.write(f"{type(request).__name__} {start} {time.monotonic()}\n")
        return answer

    return run


def on_device(request, context):
    """What `original.file` says, on the GPU; the outcome's detail is the lane's pid."""
    torch = sys.modules["torch"]
    if request.original.file == "hang":
        context.progress("launched")
        torch.cuda._sleep(10**13)
        torch.cuda.synchronize()
    if request.original.file == "fault":
        try:
            torch.zeros(1, device="cuda")[torch.tensor([5], device="cuda")].cpu()
        except RuntimeError as error:
            raise JobFailed("cuda-error", str(error).splitlines()[0]) from error
    assert torch.ones(1 << 20, device="cuda").sum().item() == 1 << 20
    return CompareResult((InputOutcome("equal", str(os.getpid())),))


HANDLERS = {
    CompareOnDevice: on_device,
    Record: record,
    Time: lambda request, context: TimeResult((), (str(os.getpid()),)),
    TimeFresh: lambda request, context: TimeResult((), (str(os.getpid()),)),
    TimeBeside: timed(lambda request, context: (time.sleep(0.15), TimeResult(()))[1]),
    Compile: timed(lambda request, context: (time.sleep(0.15), CompileResult(()))[1]),
    Compare: lambda request, context: CompareResult(()) if os.environ.get("TRITON_INTERPRET") == "1" else None,
    MeasureCeilings: timed(lambda request, context: (time.sleep(0.1), Ceilings(placed(), 1.0, {}, 1.0))[1]),
    Describe: lambda request, context: WorkerInfo(1, "", "", "", None, None, 1, 1),
}
