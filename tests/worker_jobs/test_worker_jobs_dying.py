"""A program that dies while it is recorded loses nothing of what was recorded."""

import asyncio

import pytest

from tritonforge.config import OFFLINE
from tritonforge.domain.messages import Limits, Program, Record
from tritonforge.jobs import connect

pytestmark = pytest.mark.triton
pytest.importorskip("triton")

PROGRAM = """
import ctypes, os, torch, triton, triton.language as tl

@triton.jit
def fill(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, i, mask=i < n)

def first(x):
    fill[(triton.cdiv(x.numel(), 64),)](x, x.numel(), B=64)

def last(x):
    fill[(2,)](x, x.numel(), B=32)
    {end}

if __name__ == "__main__":
    first(torch.empty(100, device="cuda"))
    for _ in range(100):
        first(torch.empty(200, device="cuda"))
    last(torch.empty(64, device="cuda"))
"""
ENDS = {
    "os._exit(3)": "exited with status 3",
    "ctypes.string_at(0)": "SIGSEGV",
    "os.kill(os.getpid(), 9)": "SIGKILL",
    "os.fork() or os._exit(0); os.abort()": "SIGABRT",
    "exec('while True: pass')": "took more than its",
}


def test_what_was_recorded_before_a_program_died_is_kept(tmp_path):
    async def record_all():
        async with connect(OFFLINE, warm=("compile",)) as worker:
            # The first job waits for imports, and so does not count for the limit of the last.
            for number, end in enumerate(ENDS):
                (tmp_path / f"dies{number}.py").write_text(PROGRAM.format(end=end))
                limits = Limits(seconds=4.0) if "while" in end else None
                yield end, await worker.run(Record(Program(str(tmp_path), f"dies{number}.py"), "main"), limits=limits)

    async def check():
        async for end, result in record_all():
            assert [call.function for call in result.calls] == ["first", "first", "last"], end
            assert [call.launches[0].grid[0] for call in result.calls] == [2, 4, 2]
            ((kernel, why),) = result.failures
            assert not kernel
            assert "cut short" in why
            assert ENDS[end] in why

    asyncio.run(check())
