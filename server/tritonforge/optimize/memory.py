"""What earlier runs found out about the same question, so that an interrupted search goes on where it was."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from tritonforge.diagnosis.assessment import Yardstick
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.domain.messages import Program
from tritonforge.domain.results import OptimizeResult
from tritonforge.jobs.session import Session
from tritonforge.store import Store, TriedVersion
from tritonforge.store.keys import answer_key, content_key, search_key
from tritonforge.workload.subject import Subject


class Memory:
    """The part of a store that is about one question: this kernel, these calls, this target.

    The question is known once the original was compiled (`begin`), since only that shows which files are behind it.
    What is kept is written beside the event loop, in order: a disk may be slow, and an editor goes on asking. Use it as
    a context; what was kept is written when that is left.
    """

    def __init__(self, store: Store, session: Session, *, again: bool = False) -> None:
        """Remember in `store`; with `again`, what it has is not looked at, but written anew."""
        self._store = store
        self._session = session
        self._again = again
        self._key = ""
        self._known: dict[str, TriedVersion] = {}
        self._writer = ThreadPoolExecutor(1, "tritonforge-memory")
        self._writing: list[Future[None]] = []
        self.compiled = CompiledCalls(store, session)

    async def __aenter__(self) -> Self:
        """Begin with nothing to write."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until everything is written."""
        await asyncio.to_thread(self._writer.shutdown)
        await self.written()

    async def written(self) -> None:
        """Wait until what was kept so far is written: whatever happens to this process, a later one finds it."""
        writing, self._writing = self._writing, []
        if writing:
            await asyncio.wait([asyncio.wrap_future(one) for one in writing])  # a cancellation ends no write
        for one in writing:
            one.result()

    def begin(self, subject: Subject, judge: Yardstick | None) -> None:
        """Take note of the question; the original was compiled with `compiled`."""
        session, program = self._session, subject.program()
        made = [(program, subject.kernel, call, session.arch) for call in subject.calls]
        sources = dict(pair for one in made for pair in self.compiled.states_of(*one))
        described = session.described
        self._key = search_key(
            subject.kernel,
            subject.calls,
            session.info,
            texts=dict(program.overlays),
            sources=sources.items(),
            context={
                "compiled": [self.compiled.key(*one) for one in made],
                "arch": session.arch,
                "measures": session.measures,
                "versions": (described.python, described.torch, described.triton),
                "gpus": described.gpus,
                "judge": (judge.spec, judge.ceilings) if judge else None,
                "pinned": subject.pinned,
            },
        )
        if not self._again:
            self._known = {one.text: one for one in self._store.tried(self._key)}

    @property
    def known(self) -> int:
        """How many versions an earlier run left behind."""
        return len(self._known)

    def find(self, program: Program) -> TriedVersion | None:
        """Return what became of a version in an earlier run."""
        return self._known.get(_text_of(program))

    def keep(self, program: Program, version: TriedVersion) -> None:
        """Remember what became of a version; nothing before the question is known."""
        if self._key:
            self._writing.append(self._writer.submit(self._put, program, version))

    def _put(self, program: Program, version: TriedVersion) -> None:
        self._store.put_tried(self._key, dataclasses.replace(version, text=_text_of(program)))

    def answer(self, options: Mapping[str, Any]) -> OptimizeResult | None:
        """Return what an earlier run answered to the very same question, when it had come to an end."""
        if not self._key or self._again:
            return None
        began = time.monotonic()
        found = self._store.result_for(answer_key(self._key, options))
        if found is None:
            return None
        note = "Nothing that this depends on has changed: the answer is that of an earlier run."
        notes = tuple(dict.fromkeys((*found.notes, note)))
        return dataclasses.replace(found, elapsed_s=time.monotonic() - began, notes=notes)

    def keep_answer(self, options: Mapping[str, Any], result: OptimizeResult) -> None:
        """Remember the answer of a search that had come to an end."""
        if self._key:
            self._store.put_result(answer_key(self._key, options), result)


def _text_of(program: Program) -> str:
    """Return the hash of all the texts of a version: it may change several files."""
    return content_key("version", dict(program.overlays))
