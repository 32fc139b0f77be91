"""The real worker, when the compiler or the user's file takes its process down: one typed failure, and the next runs."""

import asyncio
import time
from pathlib import Path

import pytest
from worker_core_support import assert_nothing_left, failure_of_request, new_mark

from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Compile, Limits, Program
from tritonforge.domain.target import Target
from tritonforge.jobs import connect
from tritonforge.targets import ProcessTransport

pytestmark = pytest.mark.triton

KERNEL = """
import ctypes, os, torch, triton
import triton.language as tl

{before}

@triton.jit
def double(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i))

def run(x):
    {inside}
    double[(1,)](x, BLOCK=64)
"""
CRASHING_COMPILER = """
from triton.backends.nvidia.compiler import CUDABackend
CUDABackend.make_llir = lambda *a, **k: ctypes.string_at(0)
"""
HANGING_PTXAS = """
os.environ["TRITON_PTXAS_PATH"] = {ptxas!r}
"""
PTXAS = """#!/bin/sh
case "$*" in *--version*) echo "Cuda compilation tools, release 12.8, V12.8.93"; exit 0;; esac
trap '' TERM INT HUP
touch "{started}"
while true; do sleep 1; done
"""
CALL = Call("c", "k.py", "run", (Tensor((64,), (1,), "float32"),))


def program(folder, before="", inside="pass"):
    text = KERNEL.format(before=before, inside=inside)
    Path(folder, "k.py").write_text(text)
    return Program(str(folder), "k.py")


@pytest.fixture(scope="module")
def mark(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITONFORGE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield new_mark(patch)


def test_a_compiler_that_crashes_or_hangs_costs_its_job_and_nothing_else(mark, tmp_path):
    ptxas, started = tmp_path / "ptxas", tmp_path / "started"
    ptxas.write_text(PTXAS.format(started=started))
    ptxas.chmod(0o755)
    sources = {
        "the compiler crashes": {"before": CRASHING_COMPILER},
        "ptxas never ends": {"before": HANGING_PTXAS.format(ptxas=str(ptxas))},
        "the file crashes": {"before": "ctypes.string_at(0)"},
        "the function raises": {"inside": "raise ValueError('no')"},
        "the function eats memory": {"inside": "hog = [bytearray(1 << 26) for _ in range(1000)]"},
    }

    async def fails(connected, folder, source, seconds):
        folder.mkdir()
        request = Compile(program(folder, **source), CALL, "sm_90", artefacts=())
        start = time.monotonic()
        failure = await failure_of_request(connected, request, Limits(seconds, 1 << 30))
        return failure, time.monotonic() - start

    async def run():
        target = Target("fire")
        async with connect(target, transport=ProcessTransport(target, {"lanes": 2, "warm": ["compile"]})) as connected:
            jobs = [
                fails(connected, tmp_path / name.replace(" ", "_"), source, 6.0 if "never" in name else 60.0)
                for name, source in sources.items()
            ]
            ended = await asyncio.gather(*jobs)
            result = await connected.run(Compile(program(tmp_path), CALL, "sm_90", artefacts=()))
            return dict(zip(sources, ended, strict=True)), result

    ended, result = asyncio.run(run())
    found = {name: failure for name, (failure, _) in ended.items()}
    assert {name: failure.kind for name, failure in found.items()} == {
        "the compiler crashes": "crashed",
        "ptxas never ends": "timeout",
        "the file crashes": "crashed",
        "the function raises": "user-error",
        "the function eats memory": "memory",
    }
    assert started.exists(), "the hanging ptxas was really called"
    assert "SIGSEGV" in found["the compiler crashes"].message
    assert found["the function raises"].file == "k.py"
    assert max(seconds for _, seconds in ended.values()) < 40
    assert result.launches[0].error is None
    assert_nothing_left(mark)
