"""`verifyCandidate`: whether another version of a kernel still computes the same, as a job with a verdict."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritonforge.analysis import analyze
from tritonforge.backend.tasks import Version
from tritonforge.domain.candidate import Verdict
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.lsp.closed import text_of
from tritonforge.lsp.documents import Snapshot, path_of
from tritonforge.lsp.jobs import Job
from tritonforge.report import wording

if TYPE_CHECKING:
    from tritonforge.lsp.state import State

_MOST = 64


class Verdicts:
    """The newest verdicts, by the job that found them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_job: OrderedDict[str, Verdict] = OrderedDict()

    def keep(self, job_id: str, verdict: Verdict) -> None:
        """Remember a verdict."""
        self._by_job[job_id] = verdict
        while len(self._by_job) > _MOST:
            self._by_job.popitem(last=False)

    def of(self, job_id: str) -> dict[str, Any]:
        """Return `{"verdict": V}` as the command line's JSON has it; null while there is none."""
        from tritonforge.report.json_parts import verdict_json

        found = self._by_job.get(job_id)
        return {"verdict": None if found is None else verdict_json(found)}


async def version(state: State, snapshot: Snapshot, kernel: Kernel, given: Mapping[str, Any]) -> Version:
    """Read the candidate that a command names: `text`, or `file` (a path or URI; as it stands in the editor).

    `candidate` names its kernel where that has another name.

    Raises:
        UsageError: it is not there, or defines no such kernel.
    """
    text, file = given.get("text"), given.get("file")
    if isinstance(text, str) and file is None:
        called = "the candidate"
    elif isinstance(file, str) and file and text is None:
        called = file.rpartition("/")[2]
        read = _read(state, snapshot, file)
        if read is None:
            raise UsageError(f"{file} cannot be read.", "Name a Python file of the workspace.")
        text = read
    else:
        raise UsageError("A candidate is needed.", 'Give either "text" or "file".')
    name = given.get("candidate") or kernel.name
    kernels = (await asyncio.to_thread(analyze, text, snapshot.file)).kernels
    found = next((one for one in kernels if one.name == name), None)
    if found is None:
        defined = ", ".join(one.name for one in kernels)
        raise UsageError(f"{called} defines no kernel {name!r}.", f"It defines {defined}." if defined else "")
    return Version(text, called, found)


def _read(state: State, snapshot: Snapshot, file: str) -> str | None:
    path = path_of(file) if file.startswith("file:") else snapshot.root / Path(file)
    if path is None:
        return None
    for uri in state.documents.uris:
        if uri == file or path_of(uri) == path:
            return state.documents.text(uri)
    return text_of(path)


def outcome(verdict: Verdict) -> str:
    """Return a verdict in one line."""
    if verdict.accepted:
        error = f", worst error {wording.error(verdict.worst_error)}" if verdict.worst_error is not None else ""
        return f"Accepted: the same on {wording.plural(len(verdict.tried), 'input')}{error}"
    return f"Refused: {verdict.reason}"


def tell(state: State, kernel: Kernel, job: Job, verdict: Verdict) -> str:
    """Keep a verdict, and say what it is."""
    state.verdicts.keep(job.id, verdict)
    said = outcome(verdict)
    if verdict.accepted:
        state.client.say(f"{kernel.name}: {said}")
    else:
        state.client.warn(f"{kernel.name}: {said}")
    return said
