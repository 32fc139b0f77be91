"""Launches that are captured in a CUDA graph are made once by the program, and again at every replay."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import torch

from tritonforge.domain.trace import TracedGraph
from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.tracing.spool import NOWHERE, Spooled, index_of, slot_at


class Graphs:
    """Follows captures and counts replays, one slot a graph."""

    def __init__(self, spool: Spooled) -> None:
        self.capturing = False
        self._spool = spool
        self._launches: list[int] = []
        self._slots: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def captured(self, index: int) -> None:
        """A launch was made during a capture."""
        if index != NOWHERE:
            self._launches.append(slot_at(index))

    def install(self, patches: Patches) -> None:
        """Watch `torch.cuda.CUDAGraph`."""
        graph = torch.cuda.CUDAGraph
        begin, end, replay = graph.capture_begin, graph.capture_end, graph.replay

        def capture_begin(this: Any, *args: Any, **kwargs: Any) -> Any:
            result = begin(this, *args, **kwargs)
            self._launches = []
            self.capturing = True
            return result

        def capture_end(this: Any, *args: Any, **kwargs: Any) -> Any:
            self.capturing = False
            try:
                self._ended(this)
            except Exception as error:
                self._spool.fail("", f"replays of a CUDA graph are not counted: {error}"[:300])
            return end(this, *args, **kwargs)

        def replay_counted(this: Any) -> Any:
            slot = self._slots.get(this)
            if slot is not None:
                self._spool.counts[index_of(slot)] += 1
            return replay(this)

        for name, wrapped, original in (
            ("capture_begin", capture_begin, begin),
            ("capture_end", capture_end, end),
            ("replay", replay_counted, replay),
        ):
            wrapped.__name__, wrapped.__doc__ = name, original.__doc__
            patches.set(graph, name, wrapped)

    def _ended(self, graph: Any) -> None:
        if not self._launches:
            return
        slot = self._spool.take_slot()
        if slot is None:
            return
        self._spool.write(TracedGraph(slot, tuple(Counter(self._launches).items())))
        self._slots[graph] = slot
        self._launches = []
