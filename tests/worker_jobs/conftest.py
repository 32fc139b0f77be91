"""Fixtures: one lane that compiles, one that interprets, and programs with changed texts."""

from __future__ import annotations

import textwrap

import pytest
from worker_jobs_lane import PROGRAMS, ROOT, Lane, changed

from tritonforge.domain.messages import Program


@pytest.fixture(scope="session")
def lane_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def compile_lane(lane_cache):
    pytest.importorskip("triton")
    lane = Lane("compile", lane_cache)
    yield lane
    lane.close()


@pytest.fixture(scope="session")
def interpret_lane(lane_cache):
    pytest.importorskip("triton")
    lane = Lane("interpret", lane_cache)
    yield lane
    lane.close()


@pytest.fixture
def example():
    """Make a `Program` of an example of the repository, with replacements in its text."""

    def make(name: str, *changes: tuple[str, str]) -> Program:
        return changed(Program(str(ROOT), f"examples/{name}.py"), *changes)

    return make


@pytest.fixture
def program():
    """Make a `Program` of a file in `programs/`, with replacements in its text."""

    def make(file: str, *changes: tuple[str, str]) -> Program:
        return changed(Program(str(PROGRAMS), file), *changes)

    return make


PREAMBLE = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

def run(x):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), B=4096)
    return y

"""


@pytest.fixture
def written(tmp_path):
    """Make a `Program` of a text, after a kernel `double` and its host `run`."""

    def make(text: str) -> Program:
        (tmp_path / "written.py").write_text(PREAMBLE)
        whole = PREAMBLE + textwrap.dedent(text)
        return Program(str(tmp_path), "written.py", (("written.py", whole),))

    return make
