"""What travels with a job to a machine that does not have the workspace: its files and large values, each once."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tritonforge.config.settings import SendingSettings
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.frames import Frame, message
from tritonforge.domain.launch import Scalar
from tritonforge.domain.messages import Program
from tritonforge.domain.parts import LARGE_VALUE, WHOLE
from tritonforge.jobs.client import Worker
from tritonforge.jobs.workspace import Entry, WorkspaceFiles

T = TypeVar("T")
_ASKED_FIRST = 1 << 16
"""Bytes above which the other side is asked what it lacks; less is sent at once, which saves a round trip."""
_FRESH_S = 1200.0
"""How long what lies there is taken to lie there still: the other side keeps what was used within an hour."""
_AT_ONCE = 1 << 20
"""Bytes of small files that are sent before the first of them is known to have arrived."""
_TRIES = 5
"""How often a workspace is looked at anew when its files change while they are sent."""
_REMEMBERED = 64
_NOT_KEPT = "is not kept here"
_FILES_S = 600.0
_LONGEST_NAME = 400


class _Changed(Exception):
    """A file is no longer what it was when it was described."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class _Delivery:
    """A large content on its way, and how many jobs wait for it."""

    task: asyncio.Task[Frame]
    wanted: int = 0


@dataclass(frozen=True)
class Shipment:
    """A request as the other side can do it. `roots`: (its name for a workspace's root, ours)."""

    request: Any
    roots: tuple[tuple[str, str], ...] = ()
    kept: Mapping[int, str] = field(default_factory=dict)
    """Large values that lie there, by `id`, with their hash; they are held by `request`."""
    under_way: tuple[asyncio.Task[Frame], ...] = ()

    def keep(self, value: bytes) -> str | None:
        """Return the name by which the other side knows `value`."""
        return self.kept.get(id(value))

    def here(self, frame: Frame) -> Frame:
        """Return an answer with our names for the files in it, wherever they stand: messages, tracebacks, locations."""
        size = frame.header.get("body")
        if not self.roots or not isinstance(size, int):
            return frame
        text, rest = frame.payload[:size], frame.payload[size:]
        changed = text
        for theirs, ours in self.roots:
            changed = changed.replace(_spelled(theirs), _spelled(ours))
        return frame if changed == text else Frame({**frame.header, "body": len(changed)}, changed + rest)

    def message_here(self, text: str) -> str:
        """Return a progress message with our names for files."""
        for theirs, ours in self.roots:
            text = text.replace(theirs, ours)
        return text

    async def arrived(self) -> None:
        """Wait until all that travelled with the request was taken.

        Raises:
            TargetUnreachable: when the other side had no room for it.
        """
        for task in self.under_way:
            _taken(await task)


class Shipping:
    """What was sent of workspaces and values. One for a target; it outlives connections."""

    def __init__(self, most: SendingSettings | None = None) -> None:
        self._most = most or SendingSettings()
        self._workspaces: dict[str, WorkspaceFiles] = {}
        self._digests: OrderedDict[int, tuple[bytes, str]] = OrderedDict()
        self._there: dict[str, float] = {}
        self._laid: dict[str, float] = {}
        self._laying: dict[str, asyncio.Lock] = {}
        self._sending: dict[str, _Delivery] = {}
        self._worker: Worker | None = None
        self._turn = asyncio.Lock()

    async def send(self, worker: Worker, request: Any) -> Shipment:
        """Send what `request` needs, as far as it is not there already.

        Raises:
            TargetUnreachable: when it cannot be kept over there.
        """
        if worker.files is None:
            return Shipment(request)
        for _ in range(_TRIES):
            async with self._turn:
                if worker is not self._worker:
                    self._worker = worker
                    self.forget()
                trees: dict[str, tuple[WorkspaceFiles, str, tuple[Entry, ...]]] = {}
                for root, workspace in self._wanted(request).items():
                    # Reading much for the first time must not hold up the event loop.
                    key, entries = (
                        _described(workspace) if workspace.is_read else await asyncio.to_thread(_described, workspace)
                    )
                    trees[root] = workspace, key, entries
            under_way: list[asyncio.Task[Frame]] = []
            try:
                for workspace, key, entries in trees.values():
                    async with self._laying.setdefault(key, asyncio.Lock()):
                        if time.monotonic() - self._laid.get(key, -_FRESH_S) >= _FRESH_S:
                            under_way += await self._lay(worker, workspace, key, entries)
            except _Changed as changed:
                workspace.outdated(changed.name)
                name = changed.name
                continue
            kept = await self._values(worker, request)
            roots = {root: f"{worker.files}/trees/{key}" for root, (_, key, _) in trees.items()}
            moved = _moved(request, {root: (roots[root], str(self._workspaces[root].root)) for root in roots})
            pairs = tuple((theirs, str(self._workspaces[root].root)) for root, theirs in roots.items())
            return Shipment(moved, pairs, kept, tuple(under_way))
        raise TargetUnreachable(
            f"The files of the workspace cannot be sent: {name} changes whenever it is read.",
            "Have no program write it meanwhile, or leave it out in .tritonforgeignore.",
        )

    def forget(self) -> None:
        """Take nothing for being there: another worker answers, or what was sent did not arrive, or has gone."""
        self._there, self._laid, self._sending, self._laying = {}, {}, {}, {}

    def _wanted(self, request: Any) -> dict[str, WorkspaceFiles]:
        found: dict[str, WorkspaceFiles] = {}
        programs = [noun for noun in _nouns(request) if isinstance(noun, Program)]
        named = list(_files_named(request))
        data = list(_data_named(request))
        for program in programs:
            workspace = self._workspaces.get(program.root)
            if workspace is None:
                workspace = self._workspaces[program.root] = WorkspaceFiles(Path(program.root), self._most)
            found[program.root] = workspace
            overlays = {_relative(workspace, name): text for name, text in program.overlays}
            names = dict.fromkeys(_relative(workspace, name) for name in (program.file, *named))
            workspace.want([name for name in names if not name.startswith("/")], overlays)
            if data:
                inside = (_relative(workspace, name) for name in data)
                workspace.want([name for name in inside if not name.startswith("/")], {}, by_user=False)
        return found

    async def missing(self, request: Any, said: str, *, again: bool) -> tuple[bool, str]:
        """Look whether an answer tells of files that are here and not there.

        Returns whether another try has more of them, and else why those were not sent (empty when that is not it).
        `again`: what was sent, and has gone from there, may be sent once more.
        """
        async with self._turn:
            return await asyncio.to_thread(self._missing, request, said, again=again)

    def _missing(self, request: Any, said: str, *, again: bool) -> tuple[bool, str]:
        notes = []
        for program in (noun for noun in _nouns(request) if isinstance(noun, Program)):
            workspace = self._workspaces.get(program.root)
            if workspace is None:
                continue
            roots = (program.root, str(workspace.root))
            names = workspace.missing(said, roots)
            if names and workspace.add(names):
                return True, ""
            if again and workspace.sent(said, roots):
                self.forget()
                return True, ""
            notes += [note] if (note := workspace.note(names)) else []
        if again and _NOT_KEPT in said:
            self.forget()
            return True, ""
        return False, "; ".join(dict.fromkeys(notes))

    async def _lay(
        self, worker: Worker, workspace: WorkspaceFiles, key: str, entries: tuple[Entry, ...]
    ) -> list[asyncio.Task[Frame]]:
        """Send the contents that are not there, and have them laid out; returns the answers that are on their way."""
        there, laid = self._there, self._laid  # of this worker; there may be another before all has been sent
        unknown = {entry.digest: entry for entry in entries if not self._is_there(entry.digest)}
        told = tuple(unknown)  # only what is asked for or sent counts as used over there
        if sum(entry.size for entry in unknown.values()) > _ASKED_FIRST:
            lacks = await self._lacks(worker, list(unknown))
            unknown = {digest: entry for digest, entry in unknown.items() if digest in lacks}
        tasks: deque[tuple[int, asyncio.Task[Frame]]] = deque()
        waiting = 0
        for digest, entry in unknown.items():
            data = await _content(workspace, entry)
            if data is None:
                raise _Changed(entry.name)
            if len(data) >= WHOLE - 1024:  # it travels in parts, and small frames would pass it
                await self._deliver(worker, digest, data)
                continue
            tasks.append((len(data), self._file(worker, digest, data)))
            waiting += len(data)
            while waiting > _AT_ONCE:  # or a cancel would wait behind thousands of them
                size, task = tasks.popleft()
                _taken(await asyncio.shield(task))
                waiting -= size
        text = json.dumps([(e.name, e.digest, e.size, e.mtime_ns, e.executable) for e in entries]).encode()
        tree = self._ask(worker, "tree", text, key=key)
        if len(text) >= WHOLE - 1024:
            _taken(await tree)
        await asyncio.sleep(0)  # tasks begin in order: what was asked is on its way before the job is
        now = time.monotonic()
        there.update((digest, now) for digest in told)
        laid[key] = now
        return [*(task for _, task in tasks), tree]

    async def _values(self, worker: Worker, request: Any) -> dict[int, str]:
        """Send the large values of a request that are not there; returns the names of all that are."""
        values = {id(value): value for value in _nouns(request) if isinstance(value, bytes)}
        large = {number: value for number, value in values.items() if len(value) >= LARGE_VALUE}
        if sum(map(len, large.values())) < _ASKED_FIRST:
            return {}
        digests = {number: await self._digest(value) for number, value in large.items()}
        there = self._there
        unknown = {digest: large[number] for number, digest in digests.items() if not self._is_there(digest)}
        lacks = await self._lacks(worker, list(unknown)) if unknown else set()
        for digest in lacks & unknown.keys():
            await self._deliver(worker, digest, unknown[digest])
        there.update((digest, time.monotonic()) for digest in unknown)
        return digests

    async def _digest(self, value: bytes) -> str:
        known = self._digests.pop(id(value), None)
        if known is None or known[0] is not value:
            known = value, await asyncio.to_thread(lambda: hashlib.sha256(value).hexdigest())
        self._digests[id(value)] = known
        while len(self._digests) > _REMEMBERED:
            self._digests.popitem(last=False)
        return known[1]

    def _is_there(self, digest: str) -> bool:
        return time.monotonic() - self._there.get(digest, -_FRESH_S) < _FRESH_S

    async def _lacks(self, worker: Worker, digests: list[str]) -> set[str]:
        answer = _taken(await self._ask(worker, "lacks", json.dumps(digests).encode()))
        lacks = answer.header.get("lacks")
        return {name for name in lacks if isinstance(name, str)} if isinstance(lacks, list) else set(digests)

    async def _deliver(self, worker: Worker, digest: str, data: bytes) -> None:
        """Send a large content, once for all who want it meanwhile; it is given up when nobody does any more."""
        delivery = self._sending.get(digest)
        if delivery is None:
            delivery = self._sending[digest] = _Delivery(self._file(worker, digest, data))
        delivery.wanted += 1
        try:
            _taken(await asyncio.shield(delivery.task))
        finally:
            delivery.wanted -= 1
            if not delivery.wanted:
                delivery.task.cancel()
                if self._sending.get(digest) is delivery:
                    del self._sending[digest]

    def _file(self, worker: Worker, digest: str, data: bytes) -> asyncio.Task[Frame]:
        return self._ask(worker, "file", data, name=digest)

    def _ask(self, worker: Worker, kind: str, payload: bytes, **fields: Any) -> asyncio.Task[Frame]:
        def make(number: int) -> Frame:
            return Frame(message(kind, id=number, **fields).header, payload)

        task = asyncio.create_task(worker.exchange(make, seconds=_FILES_S))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # the job's own error says it
        return task


async def _content(workspace: WorkspaceFiles, entry: Entry) -> bytes | None:
    """Return what an entry speaks of; None when the file has changed since."""

    def read() -> bytes | None:
        data = workspace.read(entry.name)
        return data if data is not None and hashlib.sha256(data).hexdigest() == entry.digest else None

    return read() if entry.size < WHOLE else await asyncio.to_thread(read)


def _taken(answer: Frame) -> Frame:
    refused = answer.header.get("refused")
    if refused is not None or answer.kind == "failure":
        raise TargetUnreachable(f"The files of the workspace cannot be sent: {refused or 'they were refused.'}")
    return answer


def _described(workspace: WorkspaceFiles) -> tuple[str, tuple[Entry, ...]]:
    entries = workspace.entries()
    said = json.dumps([(entry.name, entry.digest, entry.executable) for entry in entries])
    return hashlib.sha256(said.encode()).hexdigest(), entries


def _relative(workspace: WorkspaceFiles, name: str) -> str:
    """Return a file's name from the workspace's root; an absolute path where it lies outside."""
    if not Path(name).is_absolute():
        return Path(name).as_posix()
    return workspace.name_of(Path(name)) or name


def _nouns(value: Any) -> Iterator[Any]:
    """Yield every noun and every value of bytes in a request."""
    if isinstance(value, bytes):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value
        for one in dataclasses.fields(value):
            yield from _nouns(getattr(value, one.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _nouns(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _nouns(item)


def _files_named(request: Any) -> Iterator[str]:
    """Yield the files besides a program's own that a request speaks of: where calls and kernels are defined."""
    for noun in _nouns(request):
        if isinstance(noun, Program):
            continue
        for field_name in ("file", "kernel_file"):
            name = getattr(noun, field_name, None)
            if isinstance(name, str) and name and "\0" not in name and not name.startswith("<"):
                yield name


def _data_named(request: Any) -> Iterator[str]:
    """Yield the texts among the arguments of calls that may name a file."""
    for noun in _nouns(request):
        text = noun.value if isinstance(noun, Scalar) else None
        if isinstance(text, str) and 0 < len(text) < _LONGEST_NAME and text.isprintable():
            yield text


def _moved(value: T, roots: Mapping[str, tuple[str, str]]) -> T:
    """Return `value` with every program, and every path into a workspace, as the other side has it."""
    if isinstance(value, Program) and value.root in roots:
        theirs, ours = roots[value.root]

        def inside(name: str) -> str:
            for root in (ours, value.root):
                if name.startswith(root.rstrip("/") + "/"):
                    return name[len(root.rstrip("/")) + 1 :]
            return name

        overlays = tuple((inside(name), text) for name, text in value.overlays)
        return dataclasses.replace(value, root=theirs, file=inside(value.file), overlays=overlays)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for one in dataclasses.fields(value):
            before = getattr(value, one.name)
            after = _moved(before, roots)
            if after is not before:
                changed[one.name] = after
        return dataclasses.replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        items = tuple(_moved(item, roots) for item in value)
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value  # type: ignore[return-value]
    if isinstance(value, str) and value.startswith("/") and len(value) < 4096:
        for root, (theirs, ours) in roots.items():
            for known in (ours, root.rstrip("/")):
                if value.startswith(known + "/"):
                    return theirs + value[len(known) :]  # type: ignore[return-value]
    return value


def _spelled(path: str) -> bytes:
    return json.dumps(path)[1:-1].encode()
