"""The zygotes of a supervisor: which there are, which can fork, and when to give up on one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator

from tritonforge.domain.messages import Failure, Lane
from tritonforge.worker import processes
from tritonforge.worker.children import ZYGOTE_OF, LaneProcess, Zygote, fork_lane, start_zygote, why_it_died
from tritonforge.worker.zygote import ZygoteKind

_START_S = 180.0
_TRIES = 3


class Nursery:
    """Starts zygotes, again when they die, but not for ever."""

    def __init__(self, handlers_module: str, extra_path: Collection[str]) -> None:
        self._handlers_module = handlers_module
        self._extra_path = list(extra_path)
        self._zygotes: dict[ZygoteKind, Zygote] = {}
        self._deaths: Counter[ZygoteKind] = Counter()
        self._last_failure: dict[ZygoteKind, Failure] = {}
        self._named = 0

    def __iter__(self) -> Iterator[Zygote]:
        return iter(self._zygotes.values())

    def want(self, kind: ZygoteKind) -> Failure | None:
        """Have a zygote of `kind`, starting it where there is none; the failure when that was in vain too often."""
        if kind not in self._zygotes:
            if self._deaths[kind] >= _TRIES:
                return self._last_failure[kind]
            self._zygotes[kind] = start_zygote(kind, self._handlers_module, self._extra_path)
        return None

    def ready(self) -> list[Lane]:
        """The kinds of lanes that can be forked now."""
        return [lane for lane, kind in ZYGOTE_OF.items() if kind in self._zygotes and self._zygotes[kind].ready]

    def fork(self, kind: Lane, gpu: int | None = None) -> LaneProcess | None:
        """Fork a lane; None when its zygote has just died, which `collect` will be told next."""
        self._named += 1
        try:
            return fork_lane(self._zygotes[ZYGOTE_OF[kind]], kind, f"tf-lane-{self._named}", gpu)
        except OSError:
            return None

    def succeeded(self, kind: Lane) -> None:
        """A lane of `kind` has come up: whatever went wrong before is over."""
        self._deaths[ZYGOTE_OF[kind]] = 0

    def collect(self, pid: int, status: int) -> tuple[ZygoteKind, Failure | None] | None:
        """Take note that the process `pid` has ended.

        Returns None when it was no zygote, else its kind and, when it never became ready, the failure of whoever waits
        for it.
        """
        zygote = next((zygote for zygote in self if zygote.pid == pid), None)
        if zygote is None:
            return None
        while not zygote.hung_up:
            zygote.hear()
        del self._zygotes[zygote.kind]
        self._deaths[zygote.kind] += 1
        self._last_failure[zygote.kind] = failure = why_it_died(zygote, processes.how_it_ended(status))
        zygote.close(status)
        return zygote.kind, None if zygote.ready else failure

    def give_up_on_slow(self) -> None:
        """Kill zygotes whose imports do not come to an end."""
        processes.kill(z.pid for z in self if not z.ready and time.monotonic() - z.started > _START_S)

    def replace(self, kind: Lane) -> None:
        """Kill the zygote of a lane that never came up; the next job starts another."""
        zygote = self._zygotes.get(ZYGOTE_OF[kind])
        if zygote is not None:
            processes.kill([zygote.pid])
