"""Host calls: which functions of the program were called, with what, and the launches that they made in order.

The arguments of a function have to be seen when it starts, before anything is known of its launches. On Python 3.12 and
later `sys.monitoring` tells of it, and forgets every code object that is not the program's or has shown nothing new for
a while, so that what remains costs nothing. Before, `sys.setprofile` does, within a budget of time. Either is armed
again when a launch appears that was not seen before.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from tritonforge.domain.launch import RecordedLaunch, is_repeatable
from tritonforge.domain.trace import TracedCall
from tritonforge.worker.calling import identity
from tritonforge.worker.launching import is_machinery
from tritonforge.worker.places import in_workspace, relative
from tritonforge.worker.recording import launch_key, without_values
from tritonforge.worker.tracing.arguments import describable, described_arguments, holds_graph, is_backward, values_of
from tritonforge.worker.tracing.quietly import is_capturing, quietly
from tritonforge.worker.tracing.spool import Spooled
from tritonforge.worker.values import Describing

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_MAX_CALLS = 512
_MAX_LAUNCHES_OF_A_CALL = 64
_MAX_EVENTS = 256
_FRUITLESS = 6
"""Calls of a function that showed nothing new before it is left alone."""

_REARM_NS = 500_000_000
_BUDGET_NS = 200_000_000
_SHARE = 0.02
_EVENT_NS = 300
_CHECK_EVERY = 1024


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
        self._index: dict[CodeType, tuple[str, FunctionType]] = {}
        self._fruitless: dict[CodeType, int] = {}
        self._seen: set[str] = set()
        self._tool = _monitoring(self) or _Profiling(self, share)
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

    def forked(self) -> None:
        """Go on as the child of a fork."""
        self.watched.clear()

    def left_alone(self, code: CodeType) -> bool:
        """Whether calls of `code` need not be told."""
        relevant = self._relevant.get(code)
        if relevant is None:
            relevant = self._relevant[code] = self._is_relevant(code)
        return not relevant or self._fruitless.get(code, 0) >= _FRUITLESS

    def _is_relevant(self, code: CodeType) -> bool:
        odd = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        file = code.co_filename
        if code.co_name.startswith("<") or code.co_flags & odd or file.startswith("<"):
            return False
        if file.startswith(_OURS) or is_machinery(file):
            return False
        return in_workspace(file, self._root) or _mentions_triton(file)

    def entered(self, frame: FrameType) -> None:
        """A function that is not left alone begins."""
        code = frame.f_code
        self._fruitless[code] = self._fruitless.get(code, 0) + 1
        found = self._function_of(frame)
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

    def _function_of(self, frame: FrameType) -> tuple[str, FunctionType] | None:
        """Return the function of a frame and its path from its module, when attribute access reaches it there."""
        code = frame.f_code
        if code not in self._index:
            name = frame.f_globals.get("__name__")
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is not None and vars(module) is frame.f_globals:
                self._index_module(module)
        return self._index.get(code)

    def _index_module(self, module: ModuleType) -> None:
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == module.__name__:
                for inner, member in list(vars(value).items()):
                    self._index_value(f"{name}.{inner}", getattr(member, "__func__", member), module)
            else:
                self._index_value(name, value, module)

    def _index_value(self, path: str, value: Any, module: ModuleType) -> None:
        # Through wrappers (`functools.wraps`): repeating goes through them as well.
        for _ in range(8):
            if isinstance(value, FunctionType) and value.__globals__ is vars(module):
                self._index.setdefault(value.__code__, (path, value))
            value = vars(value).get("__wrapped__") if isinstance(value, FunctionType) else None
            if value is None:
                return


@functools.lru_cache(maxsize=4096)
def _mentions_triton(file: str) -> bool:
    try:
        with open(file, "rb") as text:  # noqa: PTH123 - many files, once each
            return b"triton" in text.read()
    except OSError:
        return False


class _Profiling:
    """`sys.setprofile`, in every thread that launches, until its budget is spent."""

    def __init__(self, hosts: Hosts, share: float) -> None:
        self._hosts = hosts
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
                if not self._hosts.left_alone(frame.f_code):
                    self._hosts.entered(frame)
            elif event == "return" and id(frame) in self._hosts.watched:
                self._hosts.left(frame, raised=arg is None and _raising(frame))
        except Exception as error:
            self._hosts._spool.fail("", f"host calls are no longer recorded: {type(error).__name__}: {error}"[:300])
            self._hosts.stop()


def _raising(frame: FrameType) -> bool:
    """Tell whether a frame that returns None does so because of an exception."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return not (0 <= at < len(code) and code[at] in _RETURNS)


def _return_codes() -> frozenset[int]:
    import dis

    return frozenset(n for name, n in dis.opmap.items() if name.startswith("RETURN"))


_RETURNS = _return_codes()


def _monitoring(hosts: Hosts) -> Any:
    """Return what watches with `sys.monitoring`, None before Python 3.12 or when every tool's place is taken."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None
    for tool in (4, 3, 5):
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, "tritonforge")
            return _Monitoring(hosts, monitoring, tool)
    return None


class _Monitoring:
    """`sys.monitoring`, in all threads."""

    def __init__(self, hosts: Hosts, monitoring: Any, tool: int) -> None:
        self._hosts = hosts
        self._monitoring = monitoring
        self._tool = tool
        self._disable = monitoring.DISABLE
        self._started = False
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
        if not self._started:
            self._monitoring.set_events(self._tool, self._events)
            self._started = True
        else:
            self._monitoring.restart_events()

    def stop(self) -> None:
        """Watch no more."""
        self._monitoring.set_events(self._tool, 0)

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Our own functions are left alone after their first call anyway."""
        return contextlib.nullcontext()

    def _on_start(self, code: CodeType, _offset: int) -> Any:
        try:
            if self._hosts.left_alone(code):
                return self._disable
            self._hosts.entered(sys._getframe(1))
        except Exception as error:
            self._failed(error)
        return None

    def _on_return(self, code: CodeType, _offset: int, _value: Any) -> Any:
        try:
            frame = sys._getframe(1)
            if id(frame) in self._hosts.watched:
                self._hosts.left(frame, raised=False)
            elif self._hosts.left_alone(code):
                return self._disable
        except Exception as error:
            self._failed(error)
        return None

    def _on_unwind(self, _code: CodeType, _offset: int, _error: BaseException) -> None:
        if self._hosts.watched:
            self._hosts.left(sys._getframe(1), raised=True)

    def _failed(self, error: Exception) -> None:
        self._hosts._spool.fail("", f"host calls are no longer recorded: {type(error).__name__}: {error}"[:300])
        self._hosts.stop()
