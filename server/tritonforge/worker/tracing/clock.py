"""How long launches take on the GPU: events around the first few of each and then around a sparse sample.

Events are recorded from Triton's own launch hooks, right before and after the kernel is queued: Triton's host work is
between two events only where its version has no such hooks. They are read when a later sample is taken, without
waiting.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from tritonforge.worker.tracing.leaking import keep_for_good
from tritonforge.worker.tracing.spool import NOWHERE, Spooled, slot_at

_FIRST = 8
_PENDING = 256
_LAST_WAIT_S = 1.0


class Clock:
    """Measures launches. `due` maps an index of `spool.counts` to the count from which it is measured next."""

    def __init__(self, spool: Spooled) -> None:
        self.due: dict[int, int] = {NOWHERE: sys.maxsize}
        self._spool = spool
        self._pending: deque[tuple[int, Any, Any, Any]] = deque()
        self._free: dict[int, list[tuple[Any, Any]]] = {}
        self._hooks: _Hooks | None = None

    def timed(self, index: int, n: int, launch: Callable[[], Any]) -> Any:
        """Run a launch between two events, and say when the next is due."""
        __tracebackhide__ = True
        # Densely at first, when little is known, then at intervals that grow with what was seen.
        self.due[index] = n + 1 if n < _FIRST else n + n // 4
        try:
            events = self._begin()
        except Exception:
            events = None
        if events is None:
            return launch()
        device, start, end = events
        hooks = self._hooks = self._hooks or _Hooks()
        with hooks.around(start, end) as recorded:
            result = launch()
        try:
            if recorded():
                self._pending.append((index, device, start, end))
                if len(self._pending) > _PENDING:
                    self._pending.popleft()
            self.collect()
        except Exception:
            self._pending.clear()
        return result

    def _begin(self) -> tuple[int, Any, Any] | None:
        if torch.cuda.is_current_stream_capturing():
            return None
        device = torch.cuda.current_device()
        free = self._free.setdefault(device, [])
        start, end = (
            free.pop() if free else (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        )
        return device, start, end

    def collect(self) -> None:
        """Read what has been measured completely."""
        while self._pending and self._pending[0][3].query():
            index, device, start, end = self._pending.popleft()
            self._spool.sample(slot_at(index), start.elapsed_time(end) * 1e3)
            self._free.setdefault(device, []).append((start, end))

    def finish(self) -> None:
        """Read what is left, waiting a moment for it."""
        deadline = time.monotonic() + _LAST_WAIT_S
        with contextlib.suppress(Exception):
            self.collect()
            while self._pending and time.monotonic() < deadline:
                time.sleep(0.001)
                self.collect()

    def forked(self) -> None:
        """Forget what belongs to the parent of this process, without destroying its CUDA events."""
        keep_for_good((self._pending, self._free))
        self._pending = deque()
        self._free = {}


class _Hooks:
    """Records two events when Triton queues the next kernel of this thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chains = _chains()

    @contextlib.contextmanager
    def around(self, start: Any, end: Any) -> Any:
        """Yield a function that tells whether both events were recorded."""
        state = [0]
        thread = threading.get_ident()

        def enter(*_args: Any, **_kwargs: Any) -> None:
            if threading.get_ident() == thread and state[0] == 0:
                start.record()
                state[0] = 1

        def leave(*_args: Any, **_kwargs: Any) -> None:
            if threading.get_ident() == thread and state[0] == 1:
                end.record()
                state[0] = 2

        if self._chains is None:
            enter()
            yield lambda: state[0] == 2
            leave()
            return
        enters, leaves = self._chains
        enters.append(enter)
        leaves.append(leave)
        try:
            yield lambda: state[0] == 2
        finally:
            enters.remove(enter)
            leaves.remove(leave)


def _chains() -> tuple[list[Any], list[Any]] | None:
    try:
        from triton import knobs

        enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    except (ImportError, AttributeError):
        return None
    calls: tuple[Any, Any] = getattr(enter, "calls", None), getattr(leave, "calls", None)
    return calls if isinstance(calls[0], list) and isinstance(calls[1], list) else None
