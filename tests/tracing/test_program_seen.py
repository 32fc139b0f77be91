"""The launches of a program, by kernel, from what its processes left."""

from __future__ import annotations

from pathlib import Path

import pytest
from program_samples import SOURCE, launch

from tritonforge.domain.trace import Kept, Spool, TracedCall, TracedLaunch, TracedProcess
from tritonforge.workload.program_launches import seen_kernels
from tritonforge.workload.tracing_kernels import Sources


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    (tmp_path / "kernels.py").write_text(SOURCE)
    (tmp_path / "train.py").write_text("")
    return Sources(tmp_path)


def spool(name: str, count: int, parent: str = "") -> Spool:
    return Spool(name, TracedProcess(1, (), "gpu", parent=parent), kept={0: Kept(count)})


def call(file: str) -> TracedCall:
    return TracedCall(9, file, "step", (), (), (launch(),), (0,))


def test_a_forked_process_counts_on_and_its_call_is_known(sources: Sources) -> None:
    parent, child = spool("parent", 3), spool("child", 2, parent="parent")
    parent.launches.append(TracedLaunch(0, 5, launch()))
    child.calls.append(call("train.py"))
    (kernel,) = seen_kernels((parent, child), sources)
    assert kernel.count == 5
    assert [one.call and one.call.function for one in kernel.launches] == ["step", "step"]


def test_a_call_of_a_function_that_is_in_no_file_cannot_be_made_again(sources: Sources) -> None:
    one = spool("one", 1)
    one.launches.append(TracedLaunch(0, 5, launch()))
    one.calls.append(call("/tmp/ipykernel_7/8.py"))
    (kernel,) = seen_kernels((one,), sources)
    assert [seen.call for seen in kernel.launches] == [None]
    assert kernel.kernel is not None
