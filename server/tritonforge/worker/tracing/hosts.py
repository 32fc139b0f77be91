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
from tritonforge.worker.tracing.quietly import is_capturing, quietly
from tritonforge.worker.tracing.spool import Spooled
from tritonforge.worker.values import Describing

_MAX_CALLS = 512
_MAX_LAUNCHES_OF_A_CALL = 64
_MAX_EVENTS = 256
_FRUITLESS = 6
"""Calls of a function that showed nothing new before it is left alone."""

_REARM_NS = 500_000_000
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
        self._relevant: dict[CodeType, bool] = {}
        self._functions = Functions()
        self._fruitless: dict[CodeType, int] = {}
        self._seen: set[str] = set()
        self._tool = watching(self, share)
        self._rearmed = 0

    def start(self) -> None:
        """Begin to watch."""
        self._tool.arm()

    def stop(self) -> None:
        """Watch no more."""
        self._tool.stop()
        self.watched.clear()

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Keep what is done meanwhile by this thread from being told."""
        return self._tool.paused()

    def unseen(self) -> None:
        """A launch appeared that was not seen before: functions that were left alone may be worth watching again."""
        if self.watched or len(self._seen) >= _MAX_CALLS:
            return
        now = time.monotonic_ns()
        if now - self._rearmed > _REARM_NS:
            self._rearmed = now
            self._fruitless.clear()
            self._tool.arm()

    def fail(self, error: Exception) -> None:
        """End the watching because of a failure of ours."""
        self._spool.fail("", f"host calls are no longer recorded: {type(error).__name__}: {error}"[:300])
        self.stop()

    def forked(self) -> None:
        """Go on as the child of a fork."""
        self.watched.clear()

    def left_alone(self, code: CodeType) -> bool:
        """Whether calls of `code` need not be told."""
        relevant = self._relevant.get(code)
        if relevant is None:
            relevant = self._relevant[code] = may_launch(code, self._root)
        return not relevant or self._fruitless.get(code, 0) >= _FRUITLESS

    def entered(self, frame: FrameType) -> None:
        """A function that is not left alone begins."""
        code = frame.f_code
        self._fruitless[code] = self._fruitless.get(code, 0) + 1
        found = self._functions.of(frame)
        if found is None:
            self._fruitless[code] = _FRUITLESS
            return
        values = values_of(frame)
        if all(describable(v) for v in values.values()):
            self.watched[id(frame)] = _Entered(code, found[1], found[0], values, graph=holds_graph(values))

    def left(self, frame: FrameType, *, raised: bool) -> None:
        """A function ends. What it launched before it raised is known, but the call cannot be repeated."""
        entered = self.watched.pop(id(frame), None)
        if entered is not None and entered.chosen and not raised:
            self._keep(entered)

    def launched(self, event: Any, slot: int) -> None:
        """Give a launch to the functions on this thread's stack, before it runs."""
        stack = self._stack()
        with quietly():
            chosen = False
            for entered in stack:
                if self._usable(entered):
                    entered.chosen = entered.chosen or not chosen
                    chosen = True
                    self._give(entered, event, slot)

    def _stack(self) -> list[_Entered]:
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
        return stack

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
        self._fruitless[entered.code] = 0
        if len(self._seen) >= _MAX_CALLS:
            self.stop()
        call = TracedCall(
            time.monotonic_ns(), file, entered.name, entered.arguments, entered.keywords, launches, tuple(entered.slots)
        )
        self._spool.write(call)
