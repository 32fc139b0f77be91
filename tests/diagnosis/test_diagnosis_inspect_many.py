"""Many files at once: one that breaks never stops the rest, a lost worker stops all, architectures are tried first."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tritonforge.config import Settings
from tritonforge.diagnosis import architectures, inspect_many
from tritonforge.diagnosis.inspect_many import Part
from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.errors import TargetUnreachable, UsageError
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.messages import Compile, CompiledLaunch, CompileResult, Failure
from tritonforge.domain.results import AnalyzedKernel
from tritonforge.domain.source import Position, Range
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.store import open_store
from tritonforge.workload.specs import SpecError

INFO = WorkerInfo(PROTOCOL_VERSION, "3.11.7", "/usr/bin/python", "linux", "2.13.0", "3.7.1", 4, 3)


def part(file, *names, named=False):
    kernels = tuple(Kernel(file, name, Range.of(3, 1, 9, 5), Range.of(4, 5, 4, 8), ()) for name in names)
    workload = SimpleNamespace(analysis=FileAnalysis(file, kernels), settings=Settings(root=None))
    return Part(workload, kernels, named)


def session(worker):
    return Session(Target("offline", arch="sm_90"), worker, INFO, "sm_90", measures=False)


def judge(parts, monkeypatch, inspect):
    found, errors = {}, []

    async def inspect_kernel(_workload, kernel, *_):
        await asyncio.sleep(0)
        return inspect(kernel) or AnalyzedKernel(kernel)

    monkeypatch.setattr(inspect_many, "inspect_kernel", inspect_kernel)
    asyncio.run(
        inspect_many.inspect_many(
            parts, session(SimpleNamespace(hello=INFO)), ("sm_90",), earlier=None,
            on_kernel=lambda number, place, one: found.__setitem__((number, place), one), on_error=errors.append,
        )
    )  # fmt: skip
    return found, errors


def raising(name, error):
    def inspect(kernel):
        if kernel.name == name:
            raise error

    return inspect


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("x"), JobError(Failure("crashed", "The lane died.")), UsageError("u")]
)
def test_a_kernel_that_cannot_be_judged_costs_the_others_nothing(monkeypatch, error):
    found, errors = judge([part("a.py", "one", "two"), part("b.py", "three")], monkeypatch, raising("one", error))
    assert {one.kernel.name for one in found.values()} == {"two", "three"}
    ((told),) = errors
    assert (told.file, told.line) == ("a.py", 3)
    assert "one" in told.message


def test_the_only_kernel_raises_what_is_wrong_with_it(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        judge([part("a.py", "one")], monkeypatch, raising("one", ZeroDivisionError()))


def test_a_wrong_spec_leaves_the_source_in_a_folder_and_is_raised_for_a_named_file(monkeypatch):
    wrong = SpecError("a.py", Position(2, 5), "there is no dtype fp17.", "Did you mean fp16?")
    found, errors = judge([part("a.py", "one"), part("b.py", "two")], monkeypatch, raising("one", wrong))
    assert found[0, 0].launch_note.startswith("its launch spec is wrong")
    assert [(error.line, error.message) for error in errors] == [(2, "there is no dtype fp17. Did you mean fp16?")]
    with pytest.raises(SpecError):
        judge([replace(part("a.py", "one"), named=True)], monkeypatch, raising("one", wrong))


def test_a_lost_worker_ends_it(monkeypatch):
    with pytest.raises(TargetUnreachable):
        judge([part("a.py", "one", "two")], monkeypatch, raising("one", TargetUnreachable("gone")))


class Worker:
    """Compiles for what it is told to be able to, and counts what it is asked for."""

    def __init__(self, able, crashing=()):
        self.able, self.crashing, self.asked = able, crashing, []

    async def run(self, request, **_):
        assert isinstance(request, Compile)
        self.asked.append(request.arch)
        if request.arch in self.crashing:
            raise JobError(Failure("crashed", "LLVM ERROR: unknown processor"))
        error = None if request.arch in self.able else "PassManager::run failed"
        return CompileResult((CompiledLaunch(None, request.arch, "3.7.1", error=error),))


def require(worker, archs, store):
    asyncio.run(architectures.require_architectures(session(worker), archs, store))


def test_an_architecture_that_triton_cannot_target_is_one_sentence_with_those_it_can(tmp_path):
    worker = Worker({"sm_80", "sm_90", "gfx942"}, crashing={"gfx999"})
    with open_store(tmp_path) as store, pytest.raises(UsageError) as error:
        require(worker, ("sm_90", "gfx999"), store)
    assert str(error.value) == "Triton 3.7.1 does not compile for gfx999. It does for sm_80, sm_90 and gfx942."
    assert error.value.exit_code == 2


def test_architectures_are_tried_once_and_failures_again(tmp_path):
    with open_store(tmp_path) as store:
        require(Worker({"sm_80", "sm_90"}), ("sm_90", "sm_80", "sm_90"), store)
        again = Worker({"sm_80", "sm_90", "sm_120"})
        require(again, ("sm_80", "sm_90", "sm_120"), store)
    assert again.asked == ["sm_120"]
