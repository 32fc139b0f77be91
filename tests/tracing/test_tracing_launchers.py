"""Programs that others start: a notebook, torchrun, Triton's interpreter, and one that runs out of memory."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from tritonforge.store import open_store

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

KERNELS = Path(__file__).parent / "programs" / "traced_kernels.py"
PYTHON = sys.executable
BESIDE_PYTHON = str(Path(PYTHON).parent)


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "tritonforge.toml").touch()
    (tmp_path / "tmp").mkdir()
    shutil.copy(KERNELS, tmp_path)
    return tmp_path


def write(workspace, name, text):
    (workspace / name).write_text(textwrap.dedent(text))
    return name


def traced(workspace, *command, **more):
    """Trace a command without a GPU; return how it ended and its report."""
    outside = {"PATH": f"{BESIDE_PYTHON}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(workspace / "tmp")}
    done = subprocess.run(
        [PYTHON, "-m", "tritonforge", "trace", "--", *command],
        cwd=workspace, capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, **outside, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **more},
    )  # fmt: skip
    assert not [p for p in (workspace / "tmp").iterdir() if "tritonforge" in p.name]
    return done, json.loads((workspace / ".tritonforge" / "trace.json").read_text())


def counts(report):
    """How often the only kernel was launched for each size."""
    assert {one["kernel"]["name"] for one in report["launches"]} == {"add_kernel"}
    return {one["args"]["n"]: one["count"] for one in report["launches"]}


def notebook(*cells):
    return json.dumps({
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [
            {"cell_type": "code", "id": f"cell{i}", "metadata": {}, "execution_count": None, "outputs": [],
             "source": textwrap.dedent(cell).strip()}
            for i, cell in enumerate(cells)
        ],
    })  # fmt: skip


FILL = """
import triton
import triton.language as tl


@triton.jit
def {name}(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def fill(x):
    {name}[(1,)](x, BLOCK=16)
"""


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("nbclient", "ipykernel"))), reason="needs nbclient and ipykernel"
)
def test_the_cells_of_a_notebook_are_recorded_up_to_the_one_that_fails(workspace):
    (workspace / "run.ipynb").write_text(
        notebook(
            "import torch\nimport traced_kernels as k\nk.add(torch.ones(10, device='cuda'))",
            "%%writefile written_kernels.py\n" + FILL.format(name="written_kernel"),
            "import written_kernels\nwritten_kernels.fill(torch.ones(61, device='cuda'))",
            FILL.format(name="cell_kernel") + "\nfill(torch.ones(60, device='cuda'))",
            """
            def twice(x):
                k.add_kernel[(1,)](x, x, x, 20, 0, 1.0, BLOCK=32)

            twice(torch.ones(20, device="cuda"))
            """,
            "raise ValueError('the last cell')",
        )
    )
    places = {name: str(workspace / "home") for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
    done, report = traced(workspace, "jupyter", "execute", "run.ipynb", **places)
    assert done.returncode == 1
    assert "the last cell" in done.stderr
    assert Counter(one["kernel"]["name"] for one in report["launches"]) == {
        "add_kernel": 2, "written_kernel": 1, "cell_kernel": 1,
    }  # fmt: skip
    (failure,) = report["failures"]
    assert failure["kernel"] == "cell_kernel"
    assert "notebook" in failure["reason"]
    assert "move it to a file" in failure["reason"]
    # A function of a module is called again; one of a cell is nowhere to be loaded from, so the kernel itself is.
    with open_store(workspace) as store:
        (kept,) = store.calls_for("traced_kernels.py", "add_kernel")
        assert [call.function for call in kept.calls] == ["add", "add_kernel"]


def test_the_ranks_of_torchrun_are_counted_together(workspace):
    name = write(
        workspace,
        "ranks.py",
        """
        import torch
        import torch.distributed as dist
        import traced_kernels as k

        dist.init_process_group("gloo")
        rank = dist.get_rank()
        for _ in range(3 + rank):
            k.add(torch.ones(10, device="cuda"))
        k.add(torch.ones(20 + rank, device="cuda"))
        dist.barrier()
        dist.destroy_process_group()
        """,
    )
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    done, report = traced(workspace, PYTHON, *torchrun, name)
    assert done.returncode == 0, done.stderr
    assert counts(report) == {10: 3 + 4, 20: 1, 21: 1}
    assert report["failures"] == []
    assert "in 2 processes" in done.stderr


def test_launches_in_the_interpreter_run_and_are_recorded(workspace):
    name = write(
        workspace,
        "interpreted.py",
        """
        import torch
        import traced_kernels as k
        print(k.add(torch.ones(50)).sum().item())
        """,
    )
    done, report = traced(workspace, PYTHON, name, TRITON_INTERPRET="1")
    assert (done.returncode, done.stdout) == (0, "100.0\n"), done.stderr
    assert counts(report) == {50: 1}
    assert "no GPU here" not in done.stderr


def test_more_memory_than_there_is_loses_nothing(workspace):
    name = write(
        workspace,
        "hungry.py",
        """
        import os, resource, signal
        import torch
        import traced_kernels as k

        huge = torch.ones(1 << 40, device="cuda", dtype=torch.uint8)
        k.add(huge)
        used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
        held = []
        pid = os.fork()
        try:
            while True:
                held.append(bytearray(1 << 20))
                k.add(torch.ones(11, device="cuda"))
        except MemoryError:
            held.clear()
        k.add(torch.ones(12, device="cuda"))
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        os.kill(os.getpid(), signal.SIGKILL)  # as the system does when memory runs out
        """,
    )
    done, report = traced(workspace, PYTHON, name)
    assert done.returncode == 128 + 9, done.stderr
    found = counts(report)
    assert found[1 << 40] == 1
    assert found[11] > 2
    assert found[12] == 2
    assert [one["reason"] for one in report["failures"]] == [
        "the command was ended by SIGKILL, which the system sends when memory runs out; what it launched before is here"
    ]
