"""Compilations of earlier runs, and what was seen of calls, found again where nothing that decides them has changed."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tritonforge.analysis.states import GONE, UNREADABLE, states
from tritonforge.compilation.moved import moved
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.faults import Fault
from tritonforge.domain.file_state import file_state
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.messages import Program, WatchResult
from tritonforge.jobs.session import Session
from tritonforge.store import CompiledCall, Store, WatchedCall
from tritonforge.store.keys import compiled_key, text_hash

_COMPILERS_OWN = re.compile(r"(TRITON|LLVM|MLIR|DISABLE|NVPTX|PTXAS|AMDGCN|CUDA|HIP|ROCM|TORCH)_")

_INTERPRETED = "interpreted"
"""Stands for an architecture in keys of what the interpreter saw."""


class CompiledCalls:
    """What a store holds of one target's compilations. Make one for each run: it looks at every file once only.

    A compilation is found again when the kernel, what it reads of its file, the functions that launch it and all other
    files behind the program are as they were, whatever else has changed in the file, also above the kernel. Files of a
    target elsewhere cannot be looked at from here: of such a target nothing is found or kept, and everything is
    compiled there in each run.
    """

    def __init__(self, store: Store, session: Session) -> None:
        """Remember in `store` what `session` compiles."""
        self._store = store
        self._here = not session.target.command
        described = session.described
        self._versions = {
            "python": described.python, "executable": described.executable,
            "torch": described.torch, "triton": described.triton,
        }  # fmt: skip
        self._states: dict[str, str] = {}
        self._sources: dict[str, tuple[tuple[str, str], ...]] = {}
        """The files behind each call that was compiled or found, by its key."""
        self._interpreted: dict[tuple[Program, str], asyncio.Future[WatchResult | None]] = {}

    @staticmethod
    def for_session(store: Store, session: Session) -> CompiledCalls | None:
        """Return a memory for `session`; None for a target elsewhere, of which it would keep nothing."""
        return None if session.target.command else CompiledCalls(store, session)

    def key(self, program: Program, kernel: Kernel, call: Call, arch: str) -> str:
        """Return what the launches of `kernel` that `call` makes are kept under."""
        texts = dict(program.overlays)
        context = {
            "layout": _layout(kernel, texts.get(kernel.file, "")),
            "host": _host(kernel, call, texts),
            "environment": _environment(texts),
        }
        return compiled_key(kernel, call, arch=arch, versions=self._versions, context=context)

    def find(self, key: str, kernel: Kernel) -> tuple[tuple[RecordedLaunch, Compilation], ...] | None:
        """Return the launches kept under `key`, their lines where the kernel stands now; None when there are none."""
        kept = self._store.compiled(key)
        if kept is None or not self._current(kept.sources):
            return None
        self._sources[key] = kept.sources
        by = kernel.range.start.line - kept.line
        return tuple((_moved_launch(launch, by, kernel.file), moved(found, by)) for launch, found in kept.launches)

    def keep(
        self,
        key: str,
        kernel: Kernel,
        sources: Sequence[tuple[str, str]],
        launches: Sequence[tuple[RecordedLaunch, Compilation]],
    ) -> None:
        """Remember what was compiled under `key`, as long as all `sources` stay as they are."""
        self._sources[key] = tuple(sources)
        if self._here:
            self._store.put_compiled(key, CompiledCall(kernel.range.start.line, tuple(sources), tuple(launches)))

    def states_of(self, program: Program, kernel: Kernel, call: Call, arch: str) -> tuple[tuple[str, str], ...]:
        """Return (absolute path, state) of each file, besides the program's own texts, behind a compiled call."""
        return self._sources.get(self.key(program, kernel, call, arch), ())

    def sources_of(self, program: Program, kernel: Kernel, call: Call, arch: str) -> tuple[str, ...]:
        """Return the absolute paths of the files, besides the program's own texts, behind a call that was compiled."""
        return tuple(path for path, _ in self.states_of(program, kernel, call, arch))

    def find_faults(self, program: Program, kernel: Kernel, call: Call) -> tuple[Fault, ...] | None:
        """Return what the interpreter saw of `kernel` in `call` earlier; None when it has to look."""
        kept = self._store.watched(self.key(program, kernel, call, _INTERPRETED))
        if kept is None or not self._current(kept.sources):
            return None
        return tuple(moved(fault, kernel.range.start.line - kept.line) for fault in kept.faults)

    def keep_faults(
        self, program: Program, kernel: Kernel, call: Call, archs: Iterable[str], faults: Sequence[Fault]
    ) -> None:
        """Remember what the interpreter saw in a call that was compiled for one of `archs`, too.

        The files behind the call are those that were behind its compilation.
        """
        known = (self._sources.get(self.key(program, kernel, call, arch)) for arch in archs)
        sources = next((one for one in known if one is not None), None)
        if sources is not None and self._here:
            key = self.key(program, kernel, call, _INTERPRETED)
            self._store.put_watched(key, WatchedCall(kernel.range.start.line, sources, tuple(faults)))

    async def interpreted_once(
        self, program: Program, call: Call, look: Callable[[], Awaitable[WatchResult | None]]
    ) -> WatchResult | None:
        """Return what `look` sees in a call; of several kernels that it launches the first looks for all.

        When that one is cancelled, the next one looks.
        """
        key = program, call.id
        while (under_way := self._interpreted.get(key)) is not None:
            try:
                return await asyncio.shield(under_way)
            except asyncio.CancelledError:
                if not under_way.cancelled():
                    raise
                self._interpreted.pop(key, None)
        mine = self._interpreted[key] = asyncio.get_running_loop().create_future()
        try:
            found = await look()
        except BaseException:
            mine.cancel()
            raise
        mine.set_result(found)
        return found

    def _current(self, sources: Sequence[tuple[str, str]]) -> bool:
        return self._here and all(self._state(path) == state for path, state in sources)

    def _state(self, path: str) -> str:
        if path not in self._states:
            self._states[path] = file_state(path)
        return self._states[path]


def _layout(kernel: Kernel, text: str) -> Any:
    """Return the text of the kernel and its helpers, and where they and the launches stand, seen from the kernel."""
    lines = text.splitlines()
    first = kernel.range.start.line
    ranges = [kernel.range, *(helper.range for helper in kernel.helpers if helper.range is not None)]
    return {
        "texts": [
            (one.start.line - first, text_hash("\n".join(lines[one.start.line - 1 : one.end.line]))) for one in ranges
        ],
        "sites": [(site.file, site.host, site.range.start.line - first) for site in kernel.launch_sites],
    }


def _host(kernel: Kernel, call: Call, texts: Mapping[str, str]) -> Any:
    """Return the state of what makes the call: of another file the whole text, of the kernel's own what matters."""
    text = texts.get(call.file)
    if text is None or call.file != kernel.file:
        return text_hash(text) if text is not None else GONE
    if call.kernel_launch is not None:
        return None
    state = states(text, [call.function])[call.function]
    return text_hash(text) if state in {GONE, UNREADABLE} else state


def _environment(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that compilers read, and those that the program's texts name."""
    return {
        name: value
        for name, value in os.environ.items()
        if _COMPILERS_OWN.match(name) or (len(name) > 3 and any(name in text for text in texts.values()))
    }


def _moved_launch(launch: RecordedLaunch, by: int, file: str) -> RecordedLaunch:
    site = launch.call_site
    if by and site.file == file and site.line:
        site = replace(site, line=site.line + by)
    return replace(launch, kernel_line=launch.kernel_line + by, call_site=site) if by else launch
