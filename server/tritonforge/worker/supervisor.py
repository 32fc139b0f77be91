"""The supervisor: takes requests from the client, gives them to lanes, watches these, and leaves no process behind."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from tritonforge.domain.codec import PROTOCOL_VERSION, CodecError
from tritonforge.domain.frames import Frame, FrameError, body_of, message
from tritonforge.domain.messages import Failure, Lane
from tritonforge.domain.target import WorkerInfo
from tritonforge.worker import cores, endings, linux, ownership, processes, rescuing
from tritonforge.worker.children import ZYGOTE_OF, LaneProcess
from tritonforge.worker.client_stream import ClientStream
from tritonforge.worker.filing import Filing
from tritonforge.worker.nursery import Nursery
from tritonforge.worker.options import Options
from tritonforge.worker.schedule import Job, in_turn, read_job, startable
from tritonforge.worker.zygote import ZygoteKind

_WATCH_S = 0.1
_LANE_START_S = 30.0
_UNKILLABLE_S = 10.0
_LARGE_LANE_BYTES = 4 << 30
_UNSENT_LIMIT = 64 << 20
_SWEEP_S = 1.0
_KILL_ROUNDS = 100
_MANY_CORES = 4


class Supervisor:
    """One per client, single-threaded: everything happens between two calls of `poll`."""

    def __init__(self, client: ClientStream, options: Options) -> None:
        self._client = client
        self._options = options
        self._cores = linux.available_cores()
        self._lane_count = options.lanes or max(1, self._cores - 1)
        self._apart: tuple[tuple[frozenset[int], ...], frozenset[int]] | None = None
        self._waiting: list[Job] = []
        self._lanes: list[LaneProcess] = []
        self._nursery = Nursery(options.handlers, options.path)
        self._filing = Filing(wanted=options.files)
        self._cold = list(options.warm)
        self._orders = 0
        self._heard = time.monotonic()
        self._silence = math.inf
        self._next_watch = 0.0
        self._oom_kills = endings.oom_kills()
        self._stopping = False
        self._woken, self._wake = socket.socketpair()

    def run(self) -> int:
        """Serve until the client is gone; returns the exit status. Everything below this process is dead then."""
        self._take_signals()
        folder = self._filing.folder
        self._client.send(message("hello", self._hello(), files=str(folder) if folder else None))
        status = 0
        try:
            while not (self._client.ended or self._stopping or self._abandoned()):
                self._warm_up()
                self._wait()
                self._collect()
                self._watch()
                self._start_jobs()
        except FrameError as error:
            print(f"tritonforge worker: {error}", file=sys.stderr)  # noqa: T201 - fd 2 is all that is left to say it on
            status = 2
        finally:
            processes.sweep(_SWEEP_S)
            self._filing.end()
        return status

    def _warm_up(self) -> None:
        """Start the zygotes that are going to be needed.

        On few cores one after the other, so that the first result does not wait for imports that others need.
        """
        while self._cold and (self._cores >= _MANY_CORES or all(zygote.ready for zygote in self._nursery)):
            self._nursery.want(self._cold.pop(0))

    def _hello(self) -> WorkerInfo:
        machine = os.uname()
        return WorkerInfo(
            protocol=PROTOCOL_VERSION,
            python=sys.version.split()[0],
            executable=sys.executable,
            platform=f"{machine.sysname} {machine.release} {machine.machine}",
            torch=None,
            triton=None,
            cores=self._cores,
            lanes=self._lane_count,
        )

    def _take_signals(self) -> None:
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _abandoned(self) -> bool:
        """Whether a client that pings has been silent for longer than it said it would ever be: its machine is gone."""
        return time.monotonic() - self._heard > self._silence

    def _stop(self, *_: object) -> None:
        self._stopping = True

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Sleep until there is something to read, room to write, a dead child or a limit to check."""
        poll = select.poll()
        ready: dict[int, list[Callable[[int], object]]] = {}

        def listen(fd: int, events: int, then: Callable[[int], object]) -> None:
            poll.register(fd, events)
            ready.setdefault(fd, []).append(then)

        listen(self._woken.fileno(), select.POLLIN, _plainly(self._drain_wakeups))
        listen(self._client.read_fd, select.POLLIN, _plainly(self._hear_client))
        if self._client.unsent:
            listen(self._client.write_fd, select.POLLOUT, _plainly(self._client.flush))
        for zygote in self._nursery:
            if not zygote.hung_up:
                listen(zygote.control.fileno(), select.POLLIN, _plainly(zygote.hear))
            if not zygote.tail.ended:
                listen(zygote.tail.read_fd, select.POLLIN, _plainly(zygote.tail.drain))
        # A client that does not read must not make us hold everything that lanes have to say.
        hear_lanes = self._client.unsent < _UNSENT_LIMIT
        for lane in self._lanes:
            if lane.dying is not None:
                continue
            wanted = (select.POLLIN if hear_lanes else 0) | (select.POLLOUT if lane.stream.unsent else 0)
            if wanted and not lane.stream.ended:
                listen(lane.stream.read_fd, wanted, partial(self._serve_lane, lane))
            if not lane.tail.ended:
                listen(lane.tail.read_fd, select.POLLIN, _plainly(lane.tail.drain))
        for fd, events in poll.poll(self._patience()):
            for then in ready[fd]:
                then(events)

    def _patience(self) -> float | None:
        """How many milliseconds may pass without looking after limits; None for ever."""
        if any(lane.job is not None or lane.dying is not None for lane in self._lanes):
            return max(1.0, (self._next_watch - time.monotonic()) * 1000)
        if any(not zygote.ready for zygote in self._nursery):
            return 1000.0
        if self._silence < math.inf:
            return max(1.0, (self._heard + self._silence - time.monotonic()) * 1000 + 1)
        return None

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    # --- the client --------------------------------------------------------------------------------------------------

    def _hear_client(self) -> None:
        self._heard = time.monotonic()
        for frame in self._client.receive():
            if frame.version != PROTOCOL_VERSION:
                sentence = f"The server speaks protocol {frame.version}, this worker {PROTOCOL_VERSION}; restart both."
                self._fail(frame.header.get("id"), Failure("protocol", sentence))
            elif frame.kind == "request":
                self._accept(frame)
            elif frame.kind == "cancel":
                self._cancel(frame.header.get("id"))
            elif (answer := self._filing.answer(frame)) is not None:
                silence = frame.header.get("silence")
                if isinstance(silence, int | float) and silence > 0:
                    self._silence = float(silence)
                self._client.send(answer)
            else:
                sentence = f"The worker does not know messages of kind {frame.kind!r}."
                self._fail(frame.header.get("id"), Failure("protocol", sentence))

    def _accept(self, frame: Frame) -> None:
        self._orders += 1
        job = read_job(frame, self._orders)
        if isinstance(job, Failure):
            self._fail(frame.header.get("id"), job)
        else:
            if (job.gpus > 1 or job.beside) and self._apart is None:
                self._set_apart(job.gpus)
            self._waiting = in_turn([*self._waiting, job])

    def _set_apart(self, gpus: int) -> None:
        """Give each GPU's lane cores of its own, so that it may measure while others compile."""
        here = os.sched_getaffinity(0)
        # Under a quota of CPU time, cores are shared however they are divided.
        wanted = self._options.apart and self._cores == len(here)
        self._apart = cores.divided(here, gpus) if wanted else None
        if self._apart is not None:
            self._lane_count = min(self._lane_count, len(self._apart[1]))
            for lane in self._lanes:
                self._place(lane)

    def _place(self, lane: LaneProcess) -> None:
        if self._apart is None or lane.pid is None:
            return
        own, rest = self._apart
        cores.pin(lane.pid, own[lane.gpu or 0] if lane.kind == "device" else rest)

    def _cancel(self, number: object) -> None:
        for job in self._waiting:
            if job.id == number:
                self._waiting.remove(job)
                self._fail(job.id, endings.cancelled(job))
                return
        for lane in self._lanes:
            if lane.job is not None and lane.job.id == number:
                self._end(lane, endings.cancelled(lane.job))
                return
        self._client.drop(number)  # it is done, and its result on its way

    def _fail(self, number: object, failure: Failure) -> None:
        self._client.send(message("failure", failure, id=number))

    # --- jobs and lanes ----------------------------------------------------------------------------------------------

    def _start_jobs(self) -> None:
        for kind in {ZYGOTE_OF[job.lane] for job in self._waiting}:
            if (failure := self._nursery.want(kind)) is not None:
                self._fail_waiting(kind, failure)
        # A lane that is dying still computes until it is gone.
        running: Counter[Lane] = Counter(
            lane.kind for lane in self._lanes if lane.job is not None or lane.dying is not None
        )
        measuring = [lane for lane in self._lanes if lane.kind == "device"]
        busy = {lane.gpu for lane in measuring if lane.job is not None or lane.dying is not None}
        comparing = {lane.gpu for lane in measuring if lane.job is not None and not lane.job.measures}
        chosen = startable(
            self._waiting,
            running,
            self._lane_count,
            self._nursery.ready(),
            busy=busy,
            comparing=comparing,
            apart=self._apart is not None,
        )
        for job in chosen:
            like = (lane for lane in self._lanes if (lane.kind, lane.gpu) == (job.lane, job.gpu))
            lane = next((lane for lane in like if lane.job is None and lane.dying is None), None)
            if lane is None:
                lane = self._nursery.fork(job.lane, job.gpu)
                if lane is None:
                    continue
                self._lanes.append(lane)
            elif job.fresh and lane.used:
                self._end(lane, None)  # it starts in another one, once this is gone
                continue
            self._waiting.remove(job)
            lane.job, lane.found, lane.used = job, {}, True
            lane.deadline = time.monotonic() + (_LANE_START_S if lane.pid is None else job.seconds)
            lane.tail.forget()
            lane.stream.send(job.request)

    def _serve_lane(self, lane: LaneProcess, events: int) -> None:
        if events & select.POLLOUT:
            lane.stream.flush()
        if events & ~select.POLLOUT:
            self._hear_lane(lane, lane.stream.receive)

    def _hear_lane(self, lane: LaneProcess, receive: Callable[[], Iterator[Frame]]) -> None:
        try:
            for frame in receive():
                self._take(lane, frame)
        except FrameError as error:
            if lane.job is not None:
                sentence = f"The {lane.job.name} job wrote into the worker's own socket ({error})."
                self._end(lane, Failure("crashed", sentence, detail=lane.tail.text()))

    def _take(self, lane: LaneProcess, frame: Frame) -> None:
        if frame.kind == "ready":
            lane.pid = frame.header["pid"]
            self._place(lane)
            self._nursery.succeeded(lane.kind)
            if lane.job is not None:
                lane.deadline = time.monotonic() + lane.job.seconds
        elif frame.kind == "output":
            lane.stream.send(Frame(message("output").header, lane.tail.text().encode()))
        elif frame.kind == "progress":
            self._client.send(frame)
        elif frame.kind == rescuing.KIND and lane.job is not None:
            rescuing.keep(lane.found, frame)
        elif frame.kind in {"result", "failure"} and lane.job is not None:
            lane.job, lane.found = None, {}
            self._client.send(frame)
            self._tidy_up(lane, frame)

    def _tidy_up(self, lane: LaneProcess, answer: Frame) -> None:
        """End a lane that must not do another job: its CUDA context is gone, it left processes behind, or is large."""
        owned = self._owned()
        own = owned[lane.name]
        large = sum(process.resident for process in own.values()) > _LARGE_LANE_BYTES
        # A device lane holds the CUDA libraries, which are large and worth keeping.
        if own.keys() - {lane.pid} or _poisons(answer) or (large and lane.kind != "device"):
            self._end(lane, None)
        if all(other.job is None for other in self._lanes):
            processes.kill(owned[ownership.NOBODY])

    def _owned(self) -> dict[str, dict[int, processes.Process]]:
        return ownership.of_lanes(processes.descendants(os.getpid()), self._lanes, {z.pid for z in self._nursery})

    def _end(self, lane: LaneProcess, failure: Failure | None) -> None:
        """Kill a lane with everything it has started, and answer its job with `failure`."""
        killed: set[int] = set()
        for _ in range(_KILL_ROUNDS):  # what is killed may just have started something
            own = self._owned()[lane.name].keys() - killed
            if not own:
                break
            processes.kill(own)
            killed |= own
        lane.dying = time.monotonic()
        self._next_watch = 0.0
        if lane.pid is None:
            lane.stream.shut()  # it ends by itself as soon as it looks for work
        if lane.job is not None and failure is not None:
            result = rescuing.rescued(lane.job, lane.found, failure, lane.tail.text())
            if result is not None:
                self._client.send(result)
            else:
                self._fail(lane.job.id, failure)
        lane.job, lane.found = None, {}

    # --- what has ended, and what goes too far -----------------------------------------------------------------------

    def _collect(self) -> None:
        """Take note of every child that has ended."""
        ended = processes.reap()
        if ended:
            for lane in self._lanes:
                if lane.pid is None:  # it may have died right after it said who it is
                    self._hear_lane(lane, lane.stream.receive)
        for pid, status in ended.items():
            for lane in self._lanes:
                if lane.pid == pid:
                    self._lane_died(lane, status)
            zygote = self._nursery.collect(pid, status)
            if zygote is not None:
                self._zygote_died(*zygote)

    def _lane_died(self, lane: LaneProcess, status: int) -> None:
        lane.status = status
        self._next_watch = 0.0
        if lane.dying is not None:
            return
        self._hear_lane(lane, lane.stream.receive_rest)  # its last words may be the result
        if lane.dying is None:
            kills = endings.oom_kills()
            failure = None
            if lane.job is not None:
                failure = endings.died(lane.job, status, lane.tail.text(), oom_killed=kills > self._oom_kills)
            self._oom_kills = kills
            self._end(lane, failure)

    def _zygote_died(self, kind: ZygoteKind, failure: Failure | None) -> None:
        if failure is not None:
            self._fail_waiting(kind, failure)
        for lane in self._lanes:
            if lane.pid is None and ZYGOTE_OF[lane.kind] == kind:
                lane.deadline = min(lane.deadline, time.monotonic() + 1.0)

    def _fail_waiting(self, kind: ZygoteKind, failure: Failure) -> None:
        for job in [job for job in self._waiting if ZYGOTE_OF[job.lane] == kind]:
            self._waiting.remove(job)
            self._fail(job.id, failure)

    def _watch(self) -> None:
        """Hold every job to its limits, and bury lanes that are dead with all they had started."""
        now = time.monotonic()
        self._nursery.give_up_on_slow()
        if now < self._next_watch or all(lane.job is None and lane.dying is None for lane in self._lanes):
            return
        owned = self._owned()
        for lane in list(self._lanes):
            own = owned[lane.name]
            lane.seen = {(p.pid, p.started) for p in own.values()}
            if lane.dying is not None:
                processes.kill(own)
                gone = not own and (lane.status is not None or lane.pid is None)
                if gone or now - lane.dying > _UNKILLABLE_S:
                    self._lanes.remove(lane)
                    lane.close()
            elif lane.job is None:
                if own.keys() - {lane.pid}:  # left by its last job, and not recognised when that ended
                    self._end(lane, None)
            else:
                self._hold_to_limits(lane, lane.job, sum(p.resident for p in own.values()), now)
        # On a machine with thousands of processes a look at them all takes a while: at most a tenth of our time.
        self._next_watch = now + max(_WATCH_S, 10 * (time.monotonic() - now))

    def _hold_to_limits(self, lane: LaneProcess, job: Job, resident: int, now: float) -> None:
        if lane.pid is None:
            if now > lane.deadline or lane.stream.ended:
                self._nursery.replace(lane.kind)
                self._end(lane, endings.never_started(job))
        elif resident > job.memory_bytes:
            self._end(lane, endings.out_of_memory(job, resident, lane.tail.text()))
        elif now > lane.deadline:
            self._end(lane, endings.out_of_time(job, lane.tail.text()))


def _poisons(answer: Frame) -> bool:
    """Whether nothing more can be run in the process that gave this answer."""
    try:
        return answer.kind == "failure" and body_of(answer, Failure).kind == "cuda-error"
    except CodecError:
        return True


def _plainly(then: Callable[[], object]) -> Callable[[int], object]:
    """Call `then` without the events that it does not care about."""
    return lambda _events: then()
