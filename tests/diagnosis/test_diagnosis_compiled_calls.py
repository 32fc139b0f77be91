"""What was compiled earlier is found again exactly as long as nothing that decides it has changed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tritonforge.analysis import analyze
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.compilation import Compilation, LineInstructions
from tritonforge.domain.faults import Fault
from tritonforge.domain.file_state import file_state
from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Tensor
from tritonforge.domain.messages import Program, WatchResult
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.jobs.session import Session
from tritonforge.store import open_store

SOURCE = """\
import triton
import triton.language as tl

FACTOR = 2


@triton.jit
def twice(x):
    return 2 * x


@triton.jit
def scale(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, twice(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


def size():
    return 64


def run(x):
    scale[(4,)](x, x.numel(), BLOCK=size())


def elsewhere():
    return 1
"""
STORE, LAUNCH = 15, 23
"""Lines of the kernel's store and of its launch."""
CALL = Call("c", "k.py", "run", (Tensor((256,), (1,), "float32"),))
INFO = WorkerInfo(PROTOCOL_VERSION, "3.11.7", "/usr/bin/python", "linux", "2.13.0", "3.7.1", 2, 1)


def session(**changes):
    target = Target("offline", arch="sm_90", **changes)
    return Session(target, worker=None, described=INFO, arch="sm_90", measures=False)


def kernel_of(text):
    return next(k for k in analyze(text.encode(), "k.py").kernels if k.name == "scale")


def program(text):
    return Program("/w", "k.py", (("k.py", text),))


@pytest.fixture
def memory(tmp_path):
    """A memory that knows the compilation of `SOURCE`, and asks after one more file."""
    (tmp_path / "helpers.py").write_text("x = 1\n")
    with open_store(tmp_path) as store:
        first = CompiledCalls(store, session())
        kernel = kernel_of(SOURCE)
        launch = RecordedLaunch("k.py", "scale", kernel.name_range.start.line, (), (), (), (4, 1, 1),
                                CallSite("k.py", LAUNCH, "run"))  # fmt: skip
        found = Compilation("L", "scale", "sm_90", "3.7.1", instructions={STORE: LineInstructions({"load_global": 1})})
        helpers = str(tmp_path / "helpers.py")
        key = first.key(program(SOURCE), kernel, CALL, "sm_90")
        first.keep(key, kernel, [(helpers, file_state(helpers))], [(launch, found)])
        yield lambda: CompiledCalls(store, session())


def look(memory, text=SOURCE, arch="sm_90", call=CALL):
    kernel = kernel_of(text)
    calls = memory()
    return calls.find(calls.key(program(text), kernel, call, arch), kernel)


def test_an_unchanged_kernel_is_found(memory):
    ((launch, compilation),) = look(memory)
    assert launch.kernel == "scale"
    assert list(compilation.instructions) == [STORE]


def test_a_kernel_that_moved_is_found_with_its_lines_where_it_is_now(memory):
    text = SOURCE.replace("FACTOR = 2\n", "FACTOR = 2\nUNUSED = [\n    1,\n]\n")
    ((launch, compilation),) = look(memory, text)
    assert list(compilation.instructions) == [STORE + 3]
    assert text.splitlines()[STORE + 2].lstrip().startswith("tl.store")
    assert text.splitlines()[launch.call_site.line - 1].lstrip().startswith("scale[")


def test_what_does_not_matter_to_the_kernel_may_change(memory):
    assert look(memory, SOURCE.replace("return 1\n", "return 2\n")) is not None
    assert look(memory, SOURCE + "\n\ndef more():\n    return 3\n") is not None


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("the kernel", SOURCE.replace("mask=i < n)\n", "mask=i <= n)\n")),
        ("a helper", SOURCE.replace("return 2 * x", "return 3 * x")),
        ("the host function", SOURCE.replace("(4,)", "(8,)")),
        ("what the host function calls", SOURCE.replace("return 64", "return 128")),
        ("a comment that moves lines of the kernel", SOURCE.replace("    i = tl.prog", "    # index\n    i = tl.prog")),
        ("the way from the helper to the kernel", SOURCE.replace("\n\n@triton.jit\ndef scale", "\n\n\n@triton.jit\ndef scale")),
    ],
)  # fmt: skip
def test_a_change_of_what_decides_it_is_a_miss(memory, what, text):
    assert text != SOURCE
    assert look(memory, text) is None, what


def test_another_architecture_call_or_environment_is_a_miss(memory, monkeypatch):
    assert look(memory, arch="sm_80") is None
    assert look(memory, call=replace(CALL, arguments=(Tensor((512,), (1,), "float32"),))) is None
    assert look(memory) is not None
    monkeypatch.setenv("TRITON_ALWAYS_SOMETHING", "1")
    assert look(memory) is None


def test_a_changed_file_behind_the_program_is_a_miss_and_the_same_text_written_anew_is_none(memory, tmp_path):
    (tmp_path / "helpers.py").write_text("x = 1\n")
    assert look(memory) is not None
    (tmp_path / "helpers.py").write_text("x = 2\n")
    assert look(memory) is None
    (tmp_path / "helpers.py").unlink()
    assert look(memory) is None


def test_another_triton_is_a_miss(memory, monkeypatch):
    monkeypatch.setitem(INFO.__dict__, "triton", "3.9.0")
    assert look(memory) is None


def test_a_target_elsewhere_has_no_memory_here(tmp_path):
    with open_store(tmp_path) as store:
        assert CompiledCalls.for_session(store, session(command=("ssh", "gpu1"))) is None
        assert CompiledCalls.for_session(store, session()) is not None


def test_files_behind_a_call_are_told_of_a_target_elsewhere_too_and_nothing_of_it_is_kept(tmp_path):
    (tmp_path / "helpers.py").write_text("x = 1\n")
    behind = ((str(tmp_path / "helpers.py"), file_state(str(tmp_path / "helpers.py"))),)
    kernel = kernel_of(SOURCE)
    question = program(SOURCE), kernel, CALL, "sm_90"
    with open_store(tmp_path) as store:
        for target, kept in ((session(command=("ssh", "gpu1")), False), (session(), True)):
            calls = CompiledCalls(store, target)
            key = calls.key(*question)
            calls.keep(key, kernel, behind, [])
            assert calls.states_of(*question) == behind
            assert (calls.find(key, kernel) is not None, store.compiled(key) is not None) == (kept, kept)


def test_what_the_interpreter_saw_is_kept_with_the_files_behind_the_compilation(memory, tmp_path):
    fault = Fault("out-of-bounds", "scale", "reads past x_ptr", STORE)
    text = "# moved\n" + SOURCE
    unseen = memory()
    assert unseen.find_faults(program(SOURCE), kernel_of(SOURCE), CALL) is None
    unseen.keep_faults(program(SOURCE), kernel_of(SOURCE), CALL, ["sm_90"], [fault])
    assert unseen.find_faults(program(SOURCE), kernel_of(SOURCE), CALL) is None, (
        "nobody knows which files are behind it"
    )
    seen = memory()
    seen.find(seen.key(program(SOURCE), kernel_of(SOURCE), CALL, "sm_90"), kernel_of(SOURCE))
    seen.keep_faults(program(SOURCE), kernel_of(SOURCE), CALL, ["sm_80", "sm_90"], [fault])
    assert memory().find_faults(program(SOURCE), kernel_of(SOURCE), CALL) == (fault,)
    assert memory().find_faults(program(text), kernel_of(text), CALL) == (replace(fault, line=STORE + 1),)
    changed = SOURCE.replace("return 2 * x", "return 3 * x")
    assert memory().find_faults(program(changed), kernel_of(changed), CALL) is None
    (tmp_path / "helpers.py").write_text("x = 2\n")
    assert memory().find_faults(program(SOURCE), kernel_of(SOURCE), CALL) is None


def interpreting(seconds):
    """Return what looks, waiting so many seconds at each look, and the list of its looks."""
    looks = []

    async def look():
        looks.append(len(looks))
        await asyncio.sleep(seconds[min(len(looks), len(seconds)) - 1])
        return WatchResult(())

    return look, looks


def test_a_call_is_interpreted_once_for_all_the_kernels_that_it_launches(memory):
    look_once, looks = interpreting([0.01])

    async def run():
        calls = memory()
        await asyncio.gather(*(calls.interpreted_once(program(SOURCE), CALL, look_once) for _ in range(3)))
        await calls.interpreted_once(program(SOURCE), CALL, look_once)
        assert looks == [0]
        await calls.interpreted_once(program(SOURCE + "\n"), CALL, look_once)
        await calls.interpreted_once(program(SOURCE), replace(CALL, id="d"), look_once)

    asyncio.run(run())
    assert looks == [0, 1, 2]


def test_who_is_cancelled_leaves_the_look_to_the_next(memory):
    look_once, looks = interpreting([60.0, 0.01])

    async def run():
        calls = memory()
        first = asyncio.ensure_future(calls.interpreted_once(program(SOURCE), CALL, look_once))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(calls.interpreted_once(program(SOURCE), CALL, look_once))
        await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.wait_for(second, 10.0) == WatchResult(())
        assert first.cancelled()

    asyncio.run(run())
    assert looks == [0, 1]
