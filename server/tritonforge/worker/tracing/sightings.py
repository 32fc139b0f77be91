"""Which launches were seen: a key and a dictionary for those that were, a full description for those that were not."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections import Counter
from types import FrameType
from typing import Any, NamedTuple, Protocol

import torch

from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.trace import TracedLaunch
from tritonforge.worker.launching import (
    LaunchEvent,
    bind,
    constexpr_names,
    describe_launch,
    qualified_name,
    resolve_grid,
    user_frame,
)
from tritonforge.worker.tracing.hosts import Hosts
from tritonforge.worker.tracing.keys import Key, Kinds, generic, grid_key, keeps_nothing, other
from tritonforge.worker.tracing.quietly import is_capturing, quietly
from tritonforge.worker.tracing.spool import NOWHERE, Spooled, index_of
from tritonforge.worker.values import Describing, storage_address

MAX_OF_A_KERNEL = 256
"""Distinct launches kept of one kernel."""

_ENOUGH = 8
"""Values of one integer that are told apart while everything else is the same."""


class _Made(NamedTuple):
    kernel: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grid: Any


class Known:
    """What is remembered of a kernel's text; several objects may be made from it (factories, reloads)."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.distinct = 0
        self.full = False
        self.varied: Counter[Any] = Counter()
        """How many values an integer took while everything else was the same."""
        self.free: frozenset[str] = frozenset()
        self.kinds: dict[tuple[Any, ...], Kinds] = {}
        self.keys: dict[tuple[Any, ...], Key] = {}

    def unlearn(self) -> None:
        """Forget how launches are told apart."""
        self.keys.clear()
        self.kinds.clear()


class Derived(Protocol):
    """What holds places in `spool.counts` that it was told by `Sightings`."""

    def forget(self) -> None:
        """Ask again for each of them."""


class Sightings:
    """Finds the place in `spool.counts` that a launch is counted at, describing it when it is new."""

    def __init__(self, spool: Spooled, root: str, hosts: Hosts, describing: Describing) -> None:
        self.spool = spool
        self.root = root
        self.hosts = hosts
        self.slots: dict[Any, int] = {}
        """Key → index into `spool.counts`."""
        self.kernels: dict[int, Known] = {}
        self.derived: weakref.WeakSet[Derived] = weakref.WeakSet()
        self._inherited: dict[Any, int] = {}
        self._texts: dict[tuple[Any, ...], Known] = {}
        self._alive: dict[int, Any] = {}
        self._describing = describing
        self._numbers = 0
        self._lock = threading.RLock()

    def forked(self) -> None:
        """Go on as the child of a fork: what was seen keeps its slots, in files of this process."""
        self._lock = threading.RLock()
        self._inherited = {**self._inherited, **self.slots}
        self.slots.clear()
        self.forget_derived()
        self.spool.forked()

    def forget_derived(self) -> None:
        """Have everybody ask again where a launch is counted."""
        for one in list(self.derived):
            one.forget()

    def free_of(self, kernel: Any) -> frozenset[str]:
        """Return the parameters of a kernel that do not make its launches distinct."""
        known = self.kernels.get(id(kernel))
        return known.free if known is not None else frozenset()

    def index(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> int:
        """Return where to count this launch; a new one gets described. Called before the kernel runs."""
        known = self.kernels.get(id(kernel)) or self._know(kernel)
        key_of = known.keys.get((len(args), *kwargs))
        key = None
        if key_of is not None:
            try:
                key = (key_of(*args, **kwargs), grid if grid.__class__ is tuple else grid_key(grid))
                found = self.slots.get(key)
            except (AttributeError, TypeError):  # other kinds of values than before
                key = found = None
            if found is not None:
                return found
            if known.full and key is not None and key not in self._inherited:
                # A kernel with very many shapes makes most of its launches beyond what is kept.
                self.spool.beyond()
                return NOWHERE
        return self._unseen(known, _Made(kernel, args, kwargs, grid), key)

    def _know(self, kernel: Any) -> Known:
        with self._lock:
            code = kernel.fn.__code__
            text = (code.co_filename, code.co_firstlineno, kernel.fn.__qualname__, code.co_code)
            known = self._texts.get(text)
            if known is None:
                known = self._texts[text] = Known(self._number())
            ident = id(kernel)
            # The object's number is used again when it is gone.
            self._alive[ident] = weakref.ref(kernel, lambda _r: self._gone(ident))
            self.kernels[ident] = known
            return known

    def _gone(self, ident: int) -> None:
        self.kernels.pop(ident, None)
        self._alive.pop(ident, None)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _unseen(self, known: Known, made: _Made, key: Any) -> int:
        with self._lock, self.hosts.paused():
            if key is None or not keeps_nothing(key):
                key = self._learned(known, made)
                if key in self.slots:
                    return self.slots[key]
            if key in self._inherited:
                self.spool.open()
                self.slots[key] = self._inherited[key]
                return self.slots[key]
            if known.full:
                self.spool.beyond()
                return NOWHERE
            return self._first(known, made, key)

    def _learned(self, known: Known, made: _Made) -> tuple[Any, ...]:
        """Make a key function that suits this launch, and return the launch's key."""
        kernel, args, kwargs, grid = made
        way = (len(args), *kwargs)
        if way not in known.kinds:
            names = (*tuple(getattr(kernel, "arg_names", ()))[: len(args)], *kwargs)
            known.kinds[way] = Kinds(names)
        key_of = known.kinds[way].learn((*args, *kwargs.values()), known.free, self._number())
        shape = grid if grid.__class__ is tuple else grid_key(grid)
        with contextlib.suppress(TypeError, AttributeError):
            key = (key_of(*args, **kwargs), shape)
            if keeps_nothing(key):
                known.keys[way] = key_of
                return key
        known.keys[way] = key_of = generic(self._number())
        return (key_of(*args, **kwargs), shape if keeps_nothing(shape) else other(shape))

    def _first(self, known: Known, made: _Made, key: Any) -> int:
        kernel, args, kwargs, grid = made
        frame = user_frame()
        bound, options = bind(kernel, args, kwargs)
        extents = resolve_grid(grid, bound)
        if 0 in extents:
            self.slots[key] = NOWHERE
            return NOWHERE
        event = LaunchEvent(kernel, args, kwargs, bound, options, extents, frame, is_tuned())
        slot = self.spool.take_slot()
        if slot is None:
            known.full = True
            self.spool.beyond()
            return NOWHERE
        launch = self.described(event, values=True)
        self.spool.write(TracedLaunch(slot, time.monotonic_ns(), launch))
        self.hosts.unseen()
        self.slots[key] = index_of(slot)
        known.distinct += 1
        known.full = known.distinct >= MAX_OF_A_KERNEL
        if known.full:
            self.spool.fail(
                qualified_name(kernel),
                f"only the first {MAX_OF_A_KERNEL} different launches of it are kept; later ones are only counted",
            )
        self._free_what_varies(known, kernel, bound)
        return self.slots[key]

    def _free_what_varies(self, known: Known, kernel: Any, bound: dict[str, Any]) -> None:
        """Leave integers out of the key that take ever new values while all else stays (seeds, step numbers)."""
        constexprs = constexpr_names(kernel)
        parts = {name: other(value) for name, value in bound.items()}
        for name, value in bound.items():
            if type(value) is int and name not in constexprs and name not in known.free:
                rest = (name, *(part for at, part in parts.items() if at != name))
                known.varied[rest] += 1
                if known.varied[rest] >= _ENOUGH:
                    known.free |= {name}
                    known.unlearn()

    def described(self, event: LaunchEvent, *, values: bool) -> RecordedLaunch:
        """Describe a launch; values of tensors only where reading them is possible and does no harm."""
        with quietly():
            if values and not self.spool.thrifty and not is_capturing():
                try:
                    return describe_launch(event, self.root, self.fresh())
                except Exception as error:
                    self.spool.fail(event.name, f"the values of its tensors could not be read: {error}"[:300])
            return describe_launch(event, self.root, Describing(values=False))

    def written(self, values: tuple[Any, ...]) -> None:
        """Note that these arguments of a kernel that did not run are not what they would be."""
        for value in values:
            if isinstance(value, torch.Tensor):
                self._describing.written.add(storage_address(value))

    def fresh(self) -> Describing:
        """Return what is known of storages. Values are read anew: in a long run memory is used again and again."""
        return Describing(self._describing.written, self._describing.unset)


def is_tuned() -> bool:
    """Tell whether an autotuner is among the callers."""
    from triton.runtime.autotuner import Autotuner

    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in {"run", "run_in_turn"} and isinstance(frame.f_locals.get("self"), Autotuner):
            return True
        frame = frame.f_back
    return False
