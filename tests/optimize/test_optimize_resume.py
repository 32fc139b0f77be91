"""An interrupted search goes on where it was, and one that came to an end is answered from the store."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from optimize_pretended import FILE, PretendedGate, table

from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.messages import Failure, Program
from tritonforge.jobs import JobError
from tritonforge.optimize.memory import Memory
from tritonforge.store import TriedVersion, open_store

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

CHILD = Path(__file__).with_name("optimize_pretended.py")


def tried(folder):
    """What the store has of every version, by block."""
    with open_store(folder) as store:
        (key,) = store._database.keys("tried")
        return {one.values["BLOCK_SIZE"]: one for one in store.tried(key)}


def test_a_search_that_was_killed_goes_on_where_it_was_and_the_next_one_is_answered_at_once(fresh_examples, search):
    folder = fresh_examples()
    child = subprocess.Popen([sys.executable, CHILD, folder], stdout=subprocess.PIPE, text=True)
    try:
        said = [child.stdout.readline().strip() for _ in range(2)]
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert said == ["gate 1024", "gate 2048"], "it was killed while the gate judged the second version"
    left = tried(folder)
    assert {block: one.outcome for block, one in left.items()} == {
        128: "timed", 256: "timed", 512: "timed", 1024: "refused", 2048: "timed",
    }  # fmt: skip
    assert left[1024].trial.verdict.reason == "it differs"
    assert left[512].speedup[0] == pytest.approx(1.5, rel=0.01)
    assert left[512].facts["registers"] > 0
    assert left[512].structure == ""

    gate = PretendedGate(refuses=[1024])
    result, target = search(folder, gate)
    assert gate.judged == [2048], "what was refused is not judged again"
    assert target.blocks("Compile") == [], "nothing is compiled again"
    assert target.blocks("Time") == [64], "of what was measured, the original alone is measured again"
    assert target.blocks("TimeFresh") == [64, 2048], "and the winner beside it"
    assert result.best.trial.candidate.title == "BLOCK_SIZE=2048"
    assert result.best.speedup == pytest.approx(2.5, rel=0.01)
    assert any("5 versions that an earlier run had tried" in note for note in result.notes)
    assert {t.candidate.title: t.reason for t in result.trials}["BLOCK_SIZE=1024"] == "refused: it differs"
    assert tried(folder)[2048].outcome == "kept"

    gate = PretendedGate()
    again, target = search(folder, gate)
    assert (target.log, gate.judged) == ([], [])
    assert again.best == result.best
    assert any("that of an earlier run" in note for note in again.notes)

    path = folder / FILE
    path.write_text(path.read_text().replace("BLOCK = 64", "BLOCK = 64  # small"))
    anew, target = search(folder, PretendedGate(refuses=[1024]), blocks=(2048,))
    assert target.blocks("Time") == [64, 64, 2048, 64, 2048], "of a changed file nothing is known"
    assert anew.best.trial.candidate.title == "BLOCK_SIZE=2048"


def test_a_connection_that_is_lost_while_versions_compile_beside_each_other_is_said_as_any_other(
    fresh_examples, search
):
    lost, _ = search(fresh_examples(), PretendedGate(), lost_at=512)
    assert isinstance(lost, TargetUnreachable)


def test_after_a_lost_connection_what_was_measured_is_not_measured_again(fresh_examples, search):
    folder = fresh_examples()
    lost, target = search(folder, PretendedGate(), lost_after=3)
    assert isinstance(lost, TargetUnreachable)
    assert target.blocks("Time")[7:] == [64, 1024], "the original, five versions beside it, and the best at length"
    gate = PretendedGate()
    result, target = search(folder, gate)
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"
    assert target.blocks("Time") == [64]
    assert target.blocks("TimeFresh") == [64, 1024]
    assert gate.judged == [], "it had passed before"
    gate = PretendedGate()
    anew, target = search(folder, gate, again=True)
    assert anew.best.trial.candidate.title == "BLOCK_SIZE=1024"
    assert sorted(set(target.blocks("Time"))) == [64, 128, 256, 512, 1024, 2048]
    assert gate.judged == [1024], "again is again"


def test_where_the_machine_failed_the_search_ends_well_and_its_answer_is_not_kept(fresh_examples, search):
    folder, timed = fresh_examples(), itertools.count()

    def full(text, block, call):
        if next(timed):
            raise JobError(Failure("memory", "The memory of the GPU is full."))
        return table(text, block, call)

    result, _ = search(folder, PretendedGate(), blocks=(1024,), times=full)
    assert {trial.reason for trial in result.trials} == {"The memory of the GPU is full."}
    assert result.baseline_us
    result, _ = search(folder, PretendedGate(), blocks=(1024,))
    assert result.best.trial.candidate.title == "BLOCK_SIZE=1024"


def test_what_is_kept_is_written_beside_the_event_loop_in_order_and_before_the_end(tmp_path):
    where, loops = [], []

    class Slow:
        def put_tried(self, key, version):
            where.append((threading.current_thread(), version.outcome))
            loops[0].wait(60)  # until the event loop has gone on

    async def go():
        loops.append(threading.Event())
        async with Memory(Slow(), MagicMock()) as memory:
            memory._key = "a question"
            for outcome in ("timed", "refused"):
                version = TriedVersion("", "", {}, outcome, None)
                memory.keep(Program(str(tmp_path), "f.py", ()), version)
            loops[0].set()
            await memory.written()
            assert [outcome for _, outcome in where] == ["timed", "refused"]
            memory.keep(Program(str(tmp_path), "f.py", ()), replace(version, outcome="kept"))
        assert [outcome for _, outcome in where] == ["timed", "refused", "kept"]

    asyncio.run(go())
    assert threading.main_thread() not in {thread for thread, _ in where}


def test_a_cancellation_loses_nothing_of_what_was_kept(tmp_path):
    wrote, may_write = [], threading.Event()

    class Slow:
        def put_tried(self, key, version):
            may_write.wait(60)
            wrote.append(version.outcome)

    async def go():
        async with Memory(Slow(), MagicMock()) as memory:
            memory._key = "a question"
            for outcome in ("timed", "refused"):
                memory.keep(Program(str(tmp_path), "f.py", ()), TriedVersion("", "", {}, outcome, None))
            waiting = asyncio.create_task(memory.written())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            may_write.set()

    asyncio.run(go())
    assert wrote == ["timed", "refused"]
