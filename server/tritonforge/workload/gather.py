"""The calls of the kernels of one file, by the order of sources: spec, earlier recording, something that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tritonforge.config import Settings
from tritonforge.domain.errors import NoLaunchKnown
from tritonforge.domain.kernel import FileAnalysis, Kernel, RunnableEntry
from tritonforge.domain.launch import Call
from tritonforge.jobs.session import Session
from tritonforge.store import Store
from tritonforge.store.keys import text_hash
from tritonforge.workload.discovery import Found, Recording, explain_nothing, record, select, spec_calls
from tritonforge.workload.subject import Subject

_ORIGIN = "file"


@dataclass
class FileWorkload:
    """Finds calls for the kernels of one file; the file is run at most once for all of them.

    `allow_run` is the user's decision: with it off, specs and earlier recordings are all there is.
    """

    root: str
    analysis: FileAnalysis
    text: str
    settings: Settings
    store: Store
    allow_run: bool
    on_entry: Callable[[RunnableEntry], None] | None = None
    _recording: Recording | None = field(default=None)

    def known(self, kernel: Kernel) -> Found | None:
        """Return the calls that are known without running anything, None when there are none.

        Raises:
            UsageError: for a spec that cannot be read.
        """
        specified = spec_calls(self.analysis, self.settings.launches, kernel)
        if specified:
            return Found(specified, "spec")
        kept = self._kept(kernel)
        return Found(kept, "recorded") if kept else None

    async def calls_of(self, kernel: Kernel, session: Session) -> Found:
        """Return the calls that launch `kernel`, or why none is known.

        Raises:
            UsageError: for a spec that cannot be read.
        """
        found = self.known(kernel)
        if found is not None:
            return found
        if self.allow_run and self.analysis.entries:
            if self._recording is None:
                program = self.subject(kernel, ()).program()
                self._recording = await record(session.worker, program, self.analysis, on_entry=self.on_entry)
            calls = select(kernel, self._recording)
            if calls:
                self._keep(kernel, calls)
                return Found(calls, ", ".join(self._recording.ran))
        return Found((), note=explain_nothing(kernel, self.analysis, self._recording))

    async def subject_of(self, kernel: Kernel, session: Session) -> Subject:
        """Return `kernel` with the calls that launch it.

        Raises:
            NoLaunchKnown: with the reason and the mend.
            UsageError: for a spec that cannot be read.
        """
        found = await self.calls_of(kernel, session)
        if not found.calls:
            raise NoLaunchKnown(f"{found.note[:1].upper()}{found.note[1:].rstrip('.')}.")
        return self.subject(kernel, found.calls)

    def subject(self, kernel: Kernel, calls: tuple[Call, ...]) -> Subject:
        """Return `kernel` with its calls, ready to be compiled, profiled or optimised."""
        return Subject(self.root, self.analysis.file, self.text, kernel, calls)

    def _kept(self, kernel: Kernel) -> tuple[Call, ...]:
        # What a file's own main or test passes changes with its text, which the kernel's hashes do not cover.
        for recorded in self.store.calls_for(self.analysis.file, kernel.name):
            if recorded.origin != _ORIGIN or recorded.fresh_for(self._state(kernel), _sites(kernel)):
                return recorded.calls
        return ()

    def _keep(self, kernel: Kernel, calls: tuple[Call, ...]) -> None:
        self.store.put_calls(
            self.analysis.file,
            kernel.name,
            code_hash=self._state(kernel),
            site_hashes=_sites(kernel),
            calls=calls,
            origin=_ORIGIN,
        )

    def _state(self, kernel: Kernel) -> str:
        return f"{kernel.code_hash}:{text_hash(self.text)}"


def _sites(kernel: Kernel) -> tuple[str, ...]:
    return tuple(site.site_hash for site in kernel.launch_sites)
