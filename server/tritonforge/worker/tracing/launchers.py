"""Launches on a GPU, counted where Triton hands a compiled kernel to its driver.

`JITFunction.run` stays as it is: it has found a compiled kernel by then, which tells dtypes, alignment, constexprs and
options, so that of a launch seen before only the grid and integers are left to look at. A launch that was not seen
before is described from the arguments that `JITFunction.run` was called with: its frame still has them.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.launching import constexpr_names
from tritonforge.worker.tracing.clock import Clock
from tritonforge.worker.tracing.entrances import OPTIONS, Entrances, Made
from tritonforge.worker.tracing.graphs import Graphs
from tritonforge.worker.tracing.keys import LauncherKeys, keeps_nothing, launcher_keys
from tritonforge.worker.tracing.spool import NOWHERE
from tritonforge.worker.tracing.trust import Trust

if TYPE_CHECKING:
    from tritonforge.worker.tracing.running import Recorder

_BEFORE = 9
"""What Triton hands to a launcher before the kernel's arguments: the grid, stream, function, metadata and hooks."""

_BETWEEN_CHECKS = 15
"""A mask: of launches that a brief key is believed to stand for, one in sixteen is told by its whole key."""

_MOST_KEYS = 512
_FILE = os.path.join(os.path.dirname(__file__), "<launch>")  # noqa: PTH118, PTH120 - a file of ours to `is_machinery`

_modes: Callable[[], int] = getattr(torch._C, "_len_torch_function_stack", lambda: 1)

_LAUNCH = """
def launch(*given):
    __tracebackhide__ = True
    try:
        index = trusted[{brief}]
        counts = spool.counts
        n = counts[index] + 1
        if n & {mask} == 0 and (modes() or n >= due[index] or slots[{whole}] != index):
            index = -1
    except Exception:
        index = -1
    if index < 0 or watched or tuning or graphs.capturing:
        return told(given)
    counts[index] = n
    try:
        return launcher(*given)
    except BaseException:
        counts[index] -= 1
        raise
"""


def install(recorder: Recorder, clock: Clock, graphs: Graphs, patches: Patches) -> None:
    """Count what every compiled kernel launches from now on; to be called when this Triton `suits`."""
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    initialise = CompiledKernel._init_handles
    place = _Place(recorder, clock, graphs, Entrances(JITFunction.run, CompiledKernel.__getitem__))

    @functools.wraps(initialise)
    def _init_handles(self: Any) -> None:
        __tracebackhide__ = True
        # Triton's own first line, repeated because some versions come here at every launch.
        if self.module is not None:
            return
        initialise(self)
        try:
            name = "_run" if "_run" in vars(self) else "run"
            if vars(self).get(name) is not None and not _for_inductor():
                setattr(self, name, _Counted(self, name, place).launch)
        except Exception as error:
            recorder.fail(error)

    patches.set(CompiledKernel, "_init_handles", _init_handles)


def _for_inductor() -> bool:
    """Whether torch's compiler loads a kernel that it wrote itself: none of the program's."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and f"{os.sep}triton{os.sep}" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and f"{os.sep}_inductor{os.sep}" in frame.f_code.co_filename


class _Place(NamedTuple):
    """Where launches are recorded."""

    recorder: Recorder
    clock: Clock
    graphs: Graphs
    entrances: Entrances


class _Counted:
    """A compiled kernel's launcher, and what is known of its launches."""

    def __init__(self, compiled: Any, name: str, place: _Place) -> None:
        # Weakly: Triton unloads a kernel when its last reference goes.
        self._compiled, self._name = weakref.ref(compiled), name
        self._src, self._metadata = compiled.src, compiled.metadata
        self._launcher = vars(compiled)[name]
        self._recorder, self._clock, self._graphs, self._entrances = place
        self._trust = Trust()
        self._slots: dict[Any, int] = {}
        self._keys: LauncherKeys | None = None
        self._free: frozenset[str] = frozenset()
        self._expected = -1
        place.recorder.sightings.derived.add(self)
        self.launch: Callable[..., Any] = self._like_launcher(self._at_first())

    def forget(self) -> None:
        """Believe nothing of what was seen: the places where it was counted have changed."""
        self._trust.forget()
        self._slots.clear()

    def _at_first(self) -> Callable[..., Any]:
        told = self._told

        def launch(*given: Any) -> Any:
            __tracebackhide__ = True
            return told(given)

        return launch

    def _like_launcher(self, launch: Any) -> Any:
        launch.__dict__.update(getattr(self._launcher, "__dict__", {}))
        launch.__wrapped__ = self._launcher
        return launch

    def _told(self, given: tuple[Any, ...]) -> Any:
        """Launch what was not seen before, or has to be looked at closely."""
        __tracebackhide__ = True
        recorder = self._recorder
        if not recorder.on or (recorder.tuning and threading.get_ident() in recorder.tuning):
            return self._launcher(*given)
        index, n = self._count(given, sys._getframe(2))
        if index == NOWHERE:
            return self._launcher(*given)
        if self._graphs.capturing:
            self._graphs.captured(index)
        try:
            if n >= self._clock.due.get(index, 2):
                recorder.hosts.rest()
                return self._clock.timed(index, n, functools.partial(self._launcher, *given))
            return self._launcher(*given)
        except BaseException:
            recorder.take_back(index)
            raise

    def _count(self, given: tuple[Any, ...], caller: FrameType) -> tuple[int, int]:
        recorder = self._recorder
        try:
            brief, whole = self._keys_of(given)
            index = None if whole is None else self._slots.get(whole)
            if index is not None and not recorder.hosts.watched:
                self._trust.confirm(brief, index)
                n = recorder.spool.counts[index] + 1
                recorder.spool.counts[index] = n
                return index, n
            made = self._entrances.made(caller) or self._made_itself(given, caller)
        except Exception as error:
            recorder.fail(error)
            return NOWHERE, 0
        if made is None:
            return NOWHERE, 0
        index, n = recorder.record(*made)
        if recorder.on:
            self._learn(made.kernel, given, index)
        return index, n

    def _made_itself(self, given: tuple[Any, ...], caller: FrameType) -> Made | None:
        """Return a launch of the compiled kernel itself (`kernel.warmup(…)[grid](…)`, caches of projects).

        Whoever calls the launcher of a kernel that no program's launch has been seen of keeps it for himself.
        """
        fn = getattr(self._src, "fn", None)
        names = getattr(fn, "arg_names", None)
        args = given[_BEFORE:]
        if names is None or len(args) != len(names) or not (self._keys or self._entrances.is_runner(caller)):
            return None
        meta = self._metadata
        own = {name: getattr(meta, name) for name in OPTIONS if hasattr(meta, name) and name not in names}
        return Made(fn, args, own, given[:3])

    def _keys_of(self, given: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the brief and the whole key of a launch, None where there are none."""
        if self._keys is None or len(given) != self._expected:
            return None, None
        try:
            if _modes():
                with torch._C.DisableTorchFunction():
                    return self._keys.brief(given), self._keys.whole(given)
            return self._keys.brief(given), self._keys.whole(given)
        except (AttributeError, TypeError):  # other kinds of values than before
            return None, None

    def _learn(self, kernel: Any, given: tuple[Any, ...], index: int) -> None:
        try:
            free = self._recorder.sightings.free_of(kernel)
            if self._keys is None or free != self._free:
                self._suit(kernel, given, free)
            brief, whole = self._keys_of(given)
            if whole is None or not keeps_nothing(whole) or not keeps_nothing(brief):
                return
            self._trust.confirm(brief, None if index == NOWHERE else index)
            if index != NOWHERE:
                if len(self._slots) >= _MOST_KEYS:
                    self._slots.clear()
                self._slots[whole] = index
        except Exception as error:
            self._recorder.fail(error)

    def _suit(self, kernel: Any, given: tuple[Any, ...], free: frozenset[str]) -> None:
        """Write a launcher and keys for arguments of these kinds."""
        values = given[_BEFORE:]
        names = list(kernel.arg_names)
        constexprs = constexpr_names(kernel)
        if len(values) == len(names) - len(constexprs):  # Triton 3.2
            names = [name for name in names if name not in constexprs]
        if len(values) != len(names):
            return
        self.forget()
        keys = self._keys = launcher_keys(_BEFORE, names, values, free | constexprs)
        self._free, self._expected = free, len(given)
        recorder = self._recorder
        scope = {
            **keys.scope,
            "trusted": self._trust.trusted,
            "slots": self._slots,
            "due": self._clock.due,
            "spool": recorder.spool,
            "modes": _modes,
            "watched": recorder.hosts.watched,
            "tuning": recorder.tuning,
            "graphs": self._graphs,
            "told": self._told,
            "launcher": self._launcher,
        }
        text = _LAUNCH.format(brief=keys.brief_text, whole=keys.whole_text, mask=_BETWEEN_CHECKS)
        exec(compile(text, _FILE, "exec"), scope)
        compiled = self._compiled()
        launch = self._like_launcher(scope["launch"])
        # Unless the program has put something in its place.
        if compiled is not None and vars(compiled).get(self._name) is self.launch:
            setattr(compiled, self._name, launch)
            self.launch = launch
