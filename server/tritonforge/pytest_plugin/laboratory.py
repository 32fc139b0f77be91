"""One worker for a whole pytest session, and the baseline that its benchmarks are compared with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tritonforge.config import Settings, load, workspace_root
from tritonforge.domain.baseline import Baseline, CheckResult, Comparison
from tritonforge.jobs.known import KnownTargets
from tritonforge.jobs.session import Session, open_session
from tritonforge.regression import BASELINE
from tritonforge.regression.baseline_file import read_baseline, write_baseline
from tritonforge.regression.checking import Check
from tritonforge.report.text import plain
from tritonforge.report.text_check import check_text
from tritonforge.store import Store, open_store

T = TypeVar("T")


class Laboratory:
    """Runs coroutines with a session that is opened for the first of them, on a thread with its own event loop."""

    def __init__(self, root: Path, target: str | None, baseline: Path | None, *, update: bool) -> None:
        """Start nothing yet."""
        self.root = workspace_root(root)
        self.update = update
        self.file = baseline or self.root / BASELINE
        self.comparisons: list[Comparison] = []
        self.said: list[str] = []
        self._target = target
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._session: Future[Session] = Future()
        self._stop: asyncio.Event | None = None
        self._settings: Settings | None = None
        self._store: Store | None = None
        self._baseline: Baseline | None = None

    @property
    def settings(self) -> Settings:
        """The workspace's settings.

        Raises:
            UsageError: for settings that are wrong.
        """
        if self._settings is None:
            self._settings = load(self.root)
        return self._settings

    @property
    def store(self) -> Store:
        """The workspace's store."""
        if self._store is None:
            self._store = open_store(self.root, warn=self.said.append)
        return self._store

    @property
    def baseline(self) -> Baseline:
        """The baseline, with what this session has added; empty where there is none.

        Raises:
            UsageError: for a file that is no baseline.
        """
        if self._baseline is None:
            self._baseline = read_baseline(self.file) or Baseline()
        return self._baseline

    def keep(self, check: Check) -> None:
        """Write what a check found into the baseline as it is now, and compare with that from now on.

        Raises:
            UsageError: when it cannot be read any more, or written.
        """
        check.baseline = read_baseline(self.file) or Baseline()  # another process may have added to it
        after = check.updated(whole=False)
        if after != check.baseline:
            write_baseline(self.file, after)
        self._baseline = after

    def run(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        """Do `work` with the session, and wait for its result.

        Raises:
            TargetUnreachable: when no worker can be started.
        """
        if self._thread is None:
            self._begin()
        session = self._session.result()
        assert self._loop is not None
        task = asyncio.run_coroutine_threadsafe(work(session), self._loop)
        try:
            return task.result()
        except BaseException:  # Ctrl-C: the job must not go on behind the test's back
            task.cancel()
            raise

    def close(self) -> None:
        """End the worker and the thread."""
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()
        if self._store is not None:
            self._store.close()

    def summary(self) -> list[str]:
        """Return what the run's end should show."""
        session = self._session.result() if self._session.done() and not self._session.exception() else None
        lines = list(self.said)
        if session is not None and self.comparisons:
            result = CheckResult(
                "measured" if session.measures else "compiled",
                tuple(self.comparisons),
                session.info,
                str(self.file),
                tuple(sorted({one.arch for one in self.comparisons})),
            )
            lines += plain(check_text(result)).splitlines()
        return lines

    def _begin(self) -> None:
        settings = self.settings  # wrong ones are told to the test, not to a thread
        known = KnownTargets(self.store)

        async def serve() -> None:
            self._stop = asyncio.Event()
            try:
                async with open_session(settings, self._target, warm=("compile",), known=known) as session:
                    self._session.set_result(session)
                    await self._stop.wait()
            except Exception as error:  # noqa: BLE001 - it goes to the test that waits
                if not self._session.done():
                    self._session.set_exception(error)

        def main() -> None:
            assert self._loop is not None
            self._loop.run_until_complete(serve())
            self._loop.close()

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=main, name="tritonforge", daemon=True)
        self._thread.start()
