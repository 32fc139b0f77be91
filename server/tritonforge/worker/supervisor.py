"""The supervisor: takes requests from the client, gives them to lanes, watches these, and leaves no process behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.frames import Frame, FrameError, body_of, message
from tritonforge.domain.messages import JOBS, Failure, Lane
from tritonforge.domain.target import WorkerInfo
from tritonforge.worker import endings, linux, ownership, processes
from tritonforge.worker.children import ZYGOTE_OF, LaneProcess, Zygote, fork_lane, start_zygote, why_it_died
from tritonforge.worker.schedule import Job, in_turn, startable
from tritonforge.worker.streams import Stream
from tritonforge.worker.zygote import ZygoteKind

_WATCH_S = 0.1
_ZYGOTE_START_S = 180.0
_LANE_START_S = 30.0
_ZYGOTE_TRIES = 3
_UNKILLABLE_S = 10.0
_LARGE_LANE_BYTES = 4 << 30
_UNSENT_LIMIT = 64 << 20
_SWEEP_S = 1.0


@dataclass(frozen=True)
class Options:
    """What the client may choose: the module with the handlers, folders it is found in, zygotes to start at once."""

    handlers: str = "tritonforge.worker.handlers"
    path: tuple[str, ...] = ()
    warm: tuple[ZygoteKind, ...] = ("compile", "interpret")
    lanes: int | None = None


class Supervisor:
    """One per client, single-threaded: everything happens between two calls of `poll`."""

    def __init__(self, client: Stream, options: Options) -> None:
        self._client = client
        self._options = options
        self._cores = linux.available_cores()
        self._lane_count = options.lanes or max(1, self._cores - 1)
        self._waiting: list[Job] = []
        self._lanes: list[LaneProcess] = []
        self._zygotes: dict[ZygoteKind, Zygote] = {}
        self._deaths: Counter[ZygoteKind] = Counter()
        self._last_failure: dict[ZygoteKind, Failure] = {}
        self._orders = 0
        self._lane_names = 0
        self._next_watch = 0.0
        self._oom_kills = endings.oom_kills()
        self._stopping = False
        self._woken, self._wake = socket.socketpair()

    def run(self) -> int:
        """Serve until the client is gone; returns the exit status. Everything below this process is dead then."""
        self._take_signals()
        self._client.send(message("hello", self._hello()))
        for kind in self._options.warm:
            self._start_zygote(kind)
        status = 0
        try:
            while not (self._client.ended or self._stopping):
                self._wait()
                self._collect()
                self._watch()
                self._start_jobs()
        except FrameError as error:
            print(f"tritonforge worker: {error}", file=sys.stderr)  # noqa: T201 - fd 2 is all that is left to say it on
            status = 2
        finally:
            processes.sweep(_SWEEP_S)
        return status

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

    def _stop(self, *_: object) -> None:
        self._stopping = True

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Sleep until there is something to read, room to write, a dead child or a limit to check."""
        poll = select.poll()
        ready: dict[int, list[Callable[[int], None]]] = {}

        def listen(fd: int, events: int, then: Callable[[int], None]) -> None:
            poll.register(fd, events)
            ready.setdefault(fd, []).append(then)

        listen(self._woken.fileno(), select.POLLIN, lambda _: self._drain_wakeups())
        listen(self._client.read_fd, select.POLLIN, lambda _: self._hear_client())
        if self._client.unsent:
            listen(self._client.write_fd, select.POLLOUT, lambda _: self._client.flush())
        for zygote in self._zygotes.values():
            if not zygote.hung_up:
                listen(zygote.control.fileno(), select.POLLIN, lambda _, z=zygote: z.hear())  # type: ignore[misc]
            if not zygote.tail.ended:
                listen(zygote.tail.read_fd, select.POLLIN, lambda _, z=zygote: z.tail.drain())  # type: ignore[misc]
        # A client that does not read must not make us hold everything that lanes have to say.
        hear_lanes = self._client.unsent < _UNSENT_LIMIT
        for lane in self._lanes:
            if lane.dying is not None:
                continue
            wanted = (select.POLLIN if hear_lanes else 0) | (select.POLLOUT if lane.stream.unsent else 0)
            if wanted and not lane.stream.ended:
                listen(lane.stream.read_fd, wanted, lambda events, on=lane: self._serve_lane(on, events))  # type: ignore[misc]
            if not lane.tail.ended:
                listen(lane.tail.read_fd, select.POLLIN, lambda _, on=lane: on.tail.drain())  # type: ignore[misc]
        for fd, events in poll.poll(self._patience()):
            for then in ready[fd]:
                then(events)

    def _patience(self) -> float | None:
        """How many milliseconds may pass without looking after limits; None for ever."""
        if any(lane.job is not None or lane.dying is not None for lane in self._lanes):
            return max(1.0, (self._next_watch - time.monotonic()) * 1000)
        if any(not zygote.ready for zygote in self._zygotes.values()):
            return 1000.0
        return None

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    # --- the client --------------------------------------------------------------------------------------------------

    def _hear_client(self) -> None:
        for frame in self._client.receive():
            if frame.version != PROTOCOL_VERSION:
                sentence = f"The server speaks protocol {frame.version}, this worker {PROTOCOL_VERSION}; restart both."
                self._fail(frame.header.get("id"), Failure("protocol", sentence))
            elif frame.kind == "request":
                self._accept(frame)
            elif frame.kind == "cancel":
                self._cancel(frame.header.get("id"))
            else:
                sentence = f"The worker does not know messages of kind {frame.kind!r}."
                self._fail(frame.header.get("id"), Failure("protocol", sentence))

    def _accept(self, frame: Frame) -> None:
        match frame.header:
            case {
                "id": int(number),
                "job": str(name),
                "seconds": int() | float() as seconds,
                "memory_bytes": int(memory),
            }:
                pass
            case _:
                self._fail(frame.header.get("id"), Failure("protocol", "A request lacks its id, job or limits."))
                return
        kind = JOBS.get(name)
        if kind is None:
            self._fail(number, Failure("protocol", f"The worker does not know {name} jobs."))
            return
        priority = frame.header.get("priority", 0)
        self._orders += 1
        job = Job(number, name, kind.lane, seconds, memory, frame, priority, self._orders)  # type: ignore[attr-defined]
        self._waiting = in_turn([*self._waiting, job])

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

    def _fail(self, number: object, failure: Failure) -> None:
        self._client.send(message("failure", failure, id=number))

    # --- jobs and lanes ----------------------------------------------------------------------------------------------

    def _start_jobs(self) -> None:
        for zygote_kind in {ZYGOTE_OF[job.lane] for job in self._waiting} - self._zygotes.keys():
            if self._deaths[zygote_kind] < _ZYGOTE_TRIES:
                self._start_zygote(zygote_kind)
            else:
                self._fail_waiting(zygote_kind)
        # A lane that is dying still computes until it is gone.
        running: Counter[Lane] = Counter(
            lane.kind for lane in self._lanes if lane.job is not None or lane.dying is not None
        )
        ready = [lane for lane, kind in ZYGOTE_OF.items() if kind in self._zygotes and self._zygotes[kind].ready]
        for job in startable(self._waiting, running, self._lane_count, ready):
            idle = (lane for lane in self._lanes if lane.kind == job.lane and lane.job is None and lane.dying is None)
            lane = next(idle, None) or self._fork_lane(job.lane)
            if lane is None:
                continue
            self._waiting.remove(job)
            lane.job = job
            lane.deadline = time.monotonic() + (_LANE_START_S if lane.pid is None else job.seconds)
            lane.tail.forget()
            lane.stream.send(job.request)

    def _fork_lane(self, kind: Lane) -> LaneProcess | None:
        self._lane_names += 1
        try:
            lane = fork_lane(self._zygotes[ZYGOTE_OF[kind]], kind, f"tf-lane-{self._lane_names}")
        except OSError:
            return None  # the zygote has just died: its end is about to be collected, and the job waits for the next
        self._lanes.append(lane)
        return lane

    def _serve_lane(self, lane: LaneProcess, events: int) -> None:
        if events & select.POLLOUT:
            lane.stream.flush()
        if events & ~select.POLLOUT:
            self._hear_lane(lane, lane.stream.receive)

    def _hear_lane(self, lane: LaneProcess, receive: Callable[[], object]) -> None:
        try:
            for frame in receive():  # type: ignore[attr-defined]
                self._take(lane, frame)
        except FrameError as error:
            if lane.job is not None:
                sentence = f"The {lane.job.name} job wrote into the worker's own socket ({error})."
                self._end(lane, Failure("crashed", sentence, detail=lane.tail.text()))

    def _take(self, lane: LaneProcess, frame: Frame) -> None:
        if frame.kind == "ready":
            lane.pid = frame.header["pid"]
            self._deaths[ZYGOTE_OF[lane.kind]] = 0
            if lane.job is not None:
                lane.deadline = time.monotonic() + lane.job.seconds
        elif frame.kind == "output":
            lane.stream.send(Frame(message("output").header, lane.tail.text().encode()))
        elif frame.kind == "progress":
            self._client.send(frame)
        elif frame.kind in {"result", "failure"} and lane.job is not None:
            lane.job = None
            self._client.send(frame)
            if self._is_spoiled(lane, frame):
                self._end(lane, None)

    def _is_spoiled(self, lane: LaneProcess, answer: Frame) -> bool:
        """Whether a lane must not do another job: its CUDA context is gone, it left processes behind, or grew large."""
        if answer.kind == "failure" and body_of(answer, Failure).kind == "cuda-error":
            return True
        if lane.pid is None:
            return True
        own = ownership.of_lanes(processes.descendants(os.getpid()), self._lanes)[lane.name]
        if own.keys() - {lane.pid}:
            return True
        # A device lane holds the CUDA libraries, which are large and worth keeping.
        return lane.kind != "device" and sum(p.resident for p in own.values()) > _LARGE_LANE_BYTES

    def _end(self, lane: LaneProcess, failure: Failure | None) -> None:
        """Kill a lane with everything it has started, and answer its job with `failure`."""
        own = ownership.of_lanes(processes.descendants(os.getpid()), self._lanes)[lane.name]
        processes.kill(own)
        lane.dying = time.monotonic()
        self._next_watch = 0.0
        if lane.pid is None:
            lane.stream.shut()  # it ends by itself as soon as it looks for work
        if lane.job is not None and failure is not None:
            self._fail(lane.job.id, failure)
        lane.job = None

    # --- what has ended, and what goes too far -----------------------------------------------------------------------

    def _collect(self) -> None:
        """Take note of every child that has ended."""
        for pid, status in processes.reap().items():
            for lane in self._lanes:
                if lane.pid == pid:
                    self._lane_died(lane, status)
            for zygote in list(self._zygotes.values()):
                if zygote.pid == pid:
                    self._zygote_died(zygote, status)

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

    def _start_zygote(self, kind: ZygoteKind) -> None:
        self._zygotes[kind] = start_zygote(kind, self._options.handlers, list(self._options.path))

    def _zygote_died(self, zygote: Zygote, status: int) -> None:
        while not zygote.hung_up:
            zygote.hear()
        del self._zygotes[zygote.kind]
        self._deaths[zygote.kind] += 1
        self._last_failure[zygote.kind] = why_it_died(zygote, processes.how_it_ended(status))
        zygote.close(status)
        if not zygote.ready:
            self._fail_waiting(zygote.kind)
        for lane in self._lanes:
            if lane.pid is None and ZYGOTE_OF[lane.kind] == zygote.kind:
                lane.deadline = min(lane.deadline, time.monotonic() + 1.0)

    def _fail_waiting(self, kind: ZygoteKind) -> None:
        for job in [job for job in self._waiting if ZYGOTE_OF[job.lane] == kind]:
            self._waiting.remove(job)
            self._fail(job.id, self._last_failure[kind])

    def _watch(self) -> None:
        """Hold every job to its limits, and bury lanes that are dead with all they had started."""
        now = time.monotonic()
        for zygote in self._zygotes.values():
            if not zygote.ready and now - zygote.started > _ZYGOTE_START_S:
                processes.kill([zygote.pid])
        active = [lane for lane in self._lanes if lane.job is not None or lane.dying is not None]
        if now < self._next_watch or not active:
            return
        below = processes.descendants(os.getpid())
        owned = ownership.of_lanes(below, self._lanes)
        for lane in active:
            own = owned[lane.name]
            lane.seen = {(p.pid, p.started) for p in own.values()}
            if lane.dying is not None:
                processes.kill(own)
                gone = not own and (lane.status is not None or lane.pid is None)
                if gone or now - lane.dying > _UNKILLABLE_S:
                    self._lanes.remove(lane)
                    lane.close()
            elif lane.job is not None:
                self._hold_to_limits(lane, lane.job, sum(p.resident for p in own.values()), now)
        # On a machine with thousands of processes a look at them all takes a while: at most a tenth of our time.
        self._next_watch = now + max(_WATCH_S, 10 * (time.monotonic() - now))

    def _hold_to_limits(self, lane: LaneProcess, job: Job, resident: int, now: float) -> None:
        if resident > job.memory_bytes:
            self._end(lane, endings.out_of_memory(job, resident, lane.tail.text()))
        elif now > lane.deadline:
            late = endings.never_started(job) if lane.pid is None else endings.out_of_time(job, lane.tail.text())
            self._end(lane, late)
