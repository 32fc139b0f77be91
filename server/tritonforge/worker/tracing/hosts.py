"""Host calls: which functions of the program were called, with what, and the launches that they made in order.

The arguments of a function have to be seen when it starts, before anything is known of its launches. Functions that
show nothing new for a while are left alone, and watched again when a launch appears that was not seen before.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType, FunctionType
from typing import Any

from tritonforge.domain.launch import RecordedLaunch, is_repeatable
from tritonforge.domain.trace import TracedCall
from tritonforge.worker.calling import identity
from tritonforge.worker.host_functions import Functions, described_arguments, holds_graph, is_backward
from tritonforge.worker.places import relative
from tritonforge.worker.recording import launch_key, without_values
from tritonforge.worker.tracing.arguments import describable, values_of
from tritonforge.worker.tracing.host_functions import may_launch
from tritonforge.worker.tracing.host_watching import watching
from tritonforge.worker.tracing.leaking import keep_for_good
from tritonforge.worker.tracing.quietly import is_capturing, quietly
from tritonforge.worker.tracing.spool import Spooled
from tritonforge.worker.values import Describing

_MAX_CALLS = 512
_MAX_LAUNCHES_OF_A_CALL = 64
_MAX_EVENTS = 256
_FRUITLESS = 6
"""Calls of a function that showed nothing new before it is left alone."""

_REARM_NS = 500_000_000
_QUIET_NS = 200_000_000
"""How long nothing new has to be seen before functions are no longer told at all."""
_SHARE = 0.02


@dataclass
class _Entered:
    """A function that is running, with what it was called with."""

    code: CodeType
    function: FunctionType
    name: str
    values: dict[str, Any]
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()
    known: Describing | None = None
    usable: bool | None = None
    graph: bool = False
    """Whether an argument is the result of differentiable operations, which a description cannot bring back."""
    events: int = 0
    elsewhere: int = 0
    """Launches of other threads' while it ran."""
    chosen: bool = False
    launches: list[RecordedLaunch] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)


class Hosts:
    """Watches functions of the program; `launched` is to be called at each launch while `watched` is not empty."""

    def __init__(self, spool: Spooled, root: str, describing: Describing, share: float = _SHARE) -> None:
        self.watched: dict[int, _Entered] = {}
        self._spool = spool
        self._root = root
        self._describing = describing
        # By `id`: the hash of a code object depends on which of its instructions are monitored (Python 3.12).
        self._relevant: dict[int, bool] = {}
        self._fruitless: dict[int, int] = {}
        self._codes: dict[int, CodeType] = {}
        self._functions = Functions()
        self._seen: set[str] = set()
        self._tool = watching(self, share)
        self._rearmed = 0
        self._news = 0
        self._resting = False
        self._stopped = False

    def start(self) -> None:
        """Begin to watch."""
        self._news = time.monotonic_ns()
        self._tool.arm()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped = True
        self._tool.stop()
        self.watched.clear()

    def rest(self) -> None:
        """Watch no more for now when nothing new was seen for a while; a launch that was not seen before ends that."""
        if self._resting or self._stopped or self.watched or time.monotonic_ns() - self._news < _QUIET_NS:
            return
        self._resting = True
        self._tool.stop()

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Keep what is done meanwhile by this thread from being told."""
        return self._tool.paused()

    def unseen(self) -> None:
        """A launch appeared that was not seen before: functions that were left alone may be worth watching again."""
        now = self._news = time.monotonic_ns()
        if self.watched or self._stopped:
            return
        if self._resting or now - self._rearmed > _REARM_NS:
            self._resting = False
            self._rearmed = now
            self._fruitless.clear()
            self._tool.arm()

    def fail(self, error: Exception) -> None:
        """End the watching because of a failure of ours."""
        self._spool.fail("", f"host calls are no longer recorded: {type(error).__name__}: {error}"[:300])
        self.stop()

    def forked(self) -> None:
        """Go on as the child of a fork."""
        keep_for_good(dict(self.watched))  # arguments may lie on the GPU
        self.watched.clear()

    def left_alone(self, code: CodeType) -> bool:
        """Whether calls of `code` need not be told."""
        ident = id(code)
        relevant = self._relevant.get(ident)
        if relevant is None:
            relevant = self._relevant[ident] = may_launch(code, self._root)
            self._codes[ident] = code  # so that no other code gets its `id`
        return not relevant or self._fruitless.get(ident, 0) >= _FRUITLESS

    def entered(self, frame: FrameType) -> None:
        """A function that is not left alone begins."""
        code = frame.f_code
        ident = id(code)
        self._fruitless[ident] = self._fruitless.get(ident, 0) + 1
        found = self._functions.of(frame)
        if found is None:
            self._fruitless[ident] = _FRUITLESS
            return
        values = values_of(frame)
        if all(describable(v) for v in values.values()):
            self.watched[id(frame)] = _Entered(code, found[1], found[0], values, graph=holds_graph(values))

    def left(self, frame: FrameType, *, raised: bool) -> None:
        """A function ends. What it launched before it raised is known, but the call cannot be repeated."""
        entered = self.watched.pop(id(frame), None)
        if entered is not None and entered.chosen and not raised:
            self._keep(entered)

    def launched(self, stack: list[_Entered], event: Any, slot: int) -> None:
        """Give a launch to functions that `stack` returned, before it runs."""
        with quietly():
            chosen = False
            for entered in stack:
                if self._usable(entered):
                    entered.chosen = entered.chosen or not chosen
                    chosen = True
                    self._give(entered, event, slot)

    def stack(self) -> list[_Entered]:
        """Return what this thread has entered and can repeat the launch, innermost first.

        A function that makes very many launches is a program, not a call: it is not watched on. One that was given the
        result of a differentiable operation cannot repeat a launch of its backward.
        """
        stack: list[_Entered] = []
        in_backward = False
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            entered = self.watched.get(id(frame))
            if entered is not None and entered.code is frame.f_code:
                entered.events += 1
                if entered.events > _MAX_EVENTS:
                    del self.watched[id(frame)]
                elif not (in_backward and entered.graph):
                    stack.append(entered)
            in_backward = in_backward or is_backward(frame.f_code)
            frame = frame.f_back
        if not stack:
            self._elsewhere()
        return stack

    def _elsewhere(self) -> None:
        """Drop what waits for other threads: while anything is watched, every launch pays for it."""
        for ident, entered in list(self.watched.items()):
            entered.elsewhere += 1
            if entered.elsewhere > _MAX_EVENTS:
                self.watched.pop(ident, None)

    def _usable(self, entered: _Entered) -> bool:
        if entered.usable is None:
            known = self._describing
            readable = not self._spool.thrifty and not is_capturing()
            entered.known = Describing(known.written, known.unset, values=readable)
            entered.usable = False
            entered.arguments, entered.keywords = described_arguments(
                entered.code, entered.values, entered.function, entered.known
            )
            entered.values = {}
            entered.usable = all(is_repeatable(v) for v in entered.arguments) and all(
                is_repeatable(v) for _, v in entered.keywords
            )
        return entered.usable

    def _give(self, entered: _Entered, event: Any, slot: int) -> None:
        from tritonforge.worker.launching import describe_launch

        assert entered.known is not None
        launch = describe_launch(event, self._root, replace(entered.known, values=False))
        key = launch_key(launch)
        if key in entered.counted:
            entered.counted[key] += 1
        elif len(entered.launches) < _MAX_LAUNCHES_OF_A_CALL:
            entered.counted[key] = 1
            entered.launches.append(launch)
            entered.slots.append(slot)

    def _keep(self, entered: _Entered) -> None:
        launches = tuple(replace(launch, count=entered.counted[launch_key(launch)]) for launch in entered.launches)
        file = relative(entered.code.co_filename, self._root)
        key = identity(
            file,
            entered.name,
            [*map(without_values, entered.arguments), *((k, without_values(v)) for k, v in entered.keywords)],
            [launch_key(launch) for launch in launches],
        )
        if key in self._seen:
            return
        self._seen.add(key)
        self._news = time.monotonic_ns()
        self._fruitless[id(entered.code)] = 0
        if len(self._seen) >= _MAX_CALLS:
            self.stop()
        call = TracedCall(
            time.monotonic_ns(), file, entered.name, entered.arguments, entered.keywords, launches, tuple(entered.slots)
        )
        self._spool.write(call)
