# ruff: noqa: PTH100, PTH118, PTH120, PTH123, T201, SIM115
"""A program that launches from everywhere: forks, spawned processes, threads, text, cells; it ends with code 5."""

import importlib.util
import linecache
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading

if __name__ == "__main__":
    before = list(sys.path)

import torch
import traced_kernels as k
import triton
from triton import language as tl


def ones(n):
    return torch.ones(n, device="cuda")


def in_child(action):
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def launch_and_exit(n):
    k.add(ones(n))
    os._exit(7)


def launch_and_die(n):
    k.add(ones(n))
    os.kill(os.getpid(), signal.SIGKILL)


def spawned(n):
    k.add(ones(n))


CELL = """
@triton.jit
def cell_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
"""


def cell():
    name = "/tmp/ipykernel_123/456.py"  # what ipykernel calls the file of a cell, which is never written
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    scope = {"triton": triton, "tl": tl, "__name__": "__main__"}
    exec(compile(CELL, name, "exec"), scope)
    scope["cell_kernel"][(1,)](ones(60), BLOCK=16)


def generated():
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write("import triton\nimport triton.language as tl\n" + CELL.replace("cell_kernel", "text_kernel"))
        file.flush()
        scope = {"__name__": "generated"}
        exec(compile(open(file.name).read(), file.name, "exec"), scope)
        scope["text_kernel"][(1,)](ones(61), BLOCK=16)


def start_tests(here):
    """Start pytest, with two workers where xdist is there."""
    workers = ["-p", "xdist", "-n", "2"] if importlib.util.find_spec("xdist") else []
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *workers, "-p", "no:cacheprovider", "test_in_pytest.py"],
        cwd=here,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    tests = start_tests(here)
    for _ in range(3):
        k.add(ones(10))
    k.tuned(ones(256))
    k.tuned(ones(256))
    k.gather(ones(100), torch.tensor([5, 3, 9], device="cuda", dtype=torch.int32))
    k.oddly(ones(17))
    buffer = ones(64)
    k.add(buffer[:20], buffer[20:40])
    k.Doubled.apply(ones(25).requires_grad_()).sum().backward()
    print(
        in_child(lambda: k.add(ones(10))), in_child(lambda: launch_and_exit(30)), in_child(lambda: launch_and_die(40))
    )
    thread = threading.Thread(target=lambda: k.add(ones(55)))
    thread.start()
    thread.join()
    runpy.run_path(os.path.join(here, "train.py"))
    for step in range(400):
        k.add(ones(70), seed=step, scale=step / 7)
    cell()
    generated()
    os.chdir("/")
    child = multiprocessing.get_context("spawn").Process(target=spawned, args=(50,))
    child.start()
    child.join()
    print("spawned", child.exitcode, "path as ever:", before[0] == os.path.dirname(os.path.abspath(__file__)))
    print("pytest", tests.wait())
    sys.stdout.flush()
    sys.exit(5)


if __name__ == "__main__":
    main()
