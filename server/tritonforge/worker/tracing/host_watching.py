"""Telling which functions begin and end: `sys.monitoring` on Python 3.12 and later, `sys.setprofile` before.

`sys.monitoring` forgets every code object that is not the program's or has shown nothing new for a while, so that what
remains costs nothing. `sys.setprofile` tells of every call of every function, so it is given a budget of time.
"""

from __future__ import annotations

import contextlib
import dis
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, Protocol

_BUDGET_NS = 200_000_000
_EVENT_NS = 300
_CHECK_EVERY = 1024
_RETURNS = frozenset(n for name, n in dis.opmap.items() if name.startswith("RETURN"))


class Told(Protocol):
    """Who is told. What it raises ends the watching and is given to `fail`."""

    @property
    def watched(self) -> Mapping[int, object]:
        """Frames whose end is of interest, by their `id`."""

    def left_alone(self, code: CodeType) -> bool:
        """Whether calls of `code` need not be told."""

    def entered(self, frame: FrameType) -> None:
        """A function that is not left alone begins."""

    def left(self, frame: FrameType, *, raised: bool) -> None:
        """A function ends."""

    def fail(self, error: Exception) -> None:
        """Telling failed: stop it."""


class Watching(Protocol):
    """What tells."""

    def arm(self) -> None:
        """Watch, also what was left alone before."""

    def stop(self) -> None:
        """Watch no more, until `arm`."""

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Keep what is done meanwhile by this thread from being told."""


def watching(told: Told, share: float) -> Watching:
    """Return what tells of functions; `share` is the part of the program's time that it may take before Python 3.12."""
    return _monitoring(told) or _Profiling(told, share)


class _Profiling:
    """`sys.setprofile`, in every thread that launches, until its budget is spent."""

    def __init__(self, told: Told, share: float) -> None:
        self._told = told
        self._share = share
        self._events = 0
        self._spent = 0
        self._began = time.monotonic_ns()
        self._on = False

    def arm(self) -> None:
        """Watch this thread and those that start from now on, when there is time left for it."""
        self._on = self._afford()
        if self._on and sys.getprofile() is None:
            sys.setprofile(self._tell)
            threading.setprofile(self._tell)

    def stop(self) -> None:
        """Watch no more."""
        self._on = False
        self._off()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop telling for a while."""
        ours = sys.getprofile() == self._tell
        if ours:
            sys.setprofile(None)
        try:
            yield
        finally:
            if ours and self._on:
                sys.setprofile(self._tell)

    def _off(self) -> None:
        if sys.getprofile() == self._tell:
            sys.setprofile(None)

    def _afford(self) -> bool:
        return self._spent < _BUDGET_NS + self._share * (time.monotonic_ns() - self._began)

    def _tell(self, frame: FrameType, event: str, arg: Any) -> None:
        self._events += 1
        if self._events % _CHECK_EVERY == 0:
            self._spent += _CHECK_EVERY * _EVENT_NS
            self._on = self._on and self._afford()
            if not self._on:
                self._off()
        try:
            if event == "call":
                if not self._told.left_alone(frame.f_code):
                    self._told.entered(frame)
            elif event == "return" and id(frame) in self._told.watched:
                self._told.left(frame, raised=arg is None and _raising(frame))
        except Exception as error:
            self._told.fail(error)


def _raising(frame: FrameType) -> bool:
    """Tell whether a frame that returns None does so because of an exception."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return not (0 <= at < len(code) and code[at] in _RETURNS)


def _monitoring(told: Told) -> Watching | None:
    """Return what watches with `sys.monitoring`, None before Python 3.12 or when every tool's place is taken."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None
    for tool in (4, 3, 5):
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, "tritonforge")
            return _Monitoring(told, monitoring, tool)
    return None


class _Monitoring:
    """`sys.monitoring`, in all threads."""

    def __init__(self, told: Told, monitoring: Any, tool: int) -> None:
        self._told = told
        self._monitoring = monitoring
        self._tool = tool
        self._disable = monitoring.DISABLE
        self._armed = False
        events = monitoring.events
        self._events = events.PY_START | events.PY_RETURN | events.PY_UNWIND
        for event, callback in (
            (events.PY_START, self._on_start),
            (events.PY_RETURN, self._on_return),
            (events.PY_UNWIND, self._on_unwind),
        ):
            monitoring.register_callback(tool, event, callback)

    def arm(self) -> None:
        """Watch, also what was left alone before."""
        if not self._armed:
            self._armed = True
            self._monitoring.set_events(self._tool, self._events)
        self._monitoring.restart_events()

    def stop(self) -> None:
        """Watch no more, until `arm`."""
        self._armed = False
        self._monitoring.set_events(self._tool, 0)

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Our own functions are left alone after their first call anyway."""
        return contextlib.nullcontext()

    def _on_start(self, code: CodeType, _offset: int) -> Any:
        try:
            if self._told.left_alone(code):
                return self._disable
            self._told.entered(sys._getframe(1))
        except Exception as error:
            self._told.fail(error)
        return None

    def _on_return(self, code: CodeType, _offset: int, _value: Any) -> Any:
        try:
            frame = sys._getframe(1)
            if id(frame) in self._told.watched:
                self._told.left(frame, raised=False)
            elif self._told.left_alone(code):
                return self._disable
        except Exception as error:
            self._told.fail(error)
        return None

    def _on_unwind(self, _code: CodeType, _offset: int, _error: BaseException) -> None:
        if self._told.watched:
            self._told.left(sys._getframe(1), raised=True)
