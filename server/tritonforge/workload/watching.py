"""What changes in a workspace, as sets of files: told by the system where it can, looked for where it cannot.

Editors save in many ways: in place, through a file of another name, by deleting first. Whatever they do, what comes out
is one set of paths for one save. A path may be of a file that is gone; who asks reads it anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.polling import PollingObserver

from tritonforge.workload.index_files import python_files
from tritonforge.workload.watching_places import MOST_FOLDERS, Place, network_type, observed

QUIET_S = 0.15
"""Seconds without an event after which a save is taken to be over."""
LONGEST_S = 2.0
"""Seconds after which events are passed on although they go on (a checkout, a formatter over everything)."""
POLL_S = 1.0
"""Seconds between two looks where nobody tells; more where a look takes long."""
SETTINGS = ("tritonforge.toml", "pyproject.toml")

_TELLING = frozenset({"modified", "created", "deleted", "moved", "closed"})
_Stamp = tuple[int, int, int]


class _Observer(Protocol):
    def schedule(self, event_handler: FileSystemEventHandler, path: str, *, recursive: bool) -> object: ...
    def unschedule(self, watch: object) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self) -> None: ...
    def is_alive(self) -> bool: ...


@dataclass
class Watch:
    """A place that is being watched. `polls` tells how; `note` is a sentence for the user where it matters, else ""."""

    place: Place
    polls: bool = False
    note: str = ""
    quiet_s: float = QUIET_S
    _files: set[Path] = field(default_factory=set)
    _folders: set[Path] = field(default_factory=set)
    _events: int = 0
    _waiting: asyncio.Event = field(default_factory=asyncio.Event)
    _known: dict[Path, _Stamp] = field(default_factory=dict)
    _observation: _Observation | None = None

    async def changed(self) -> frozenset[Path]:
        """Wait until files have changed, appeared or gone and until it is quiet again, and return which."""
        loop = asyncio.get_running_loop()
        while True:
            await self._waiting.wait()
            until = loop.time() + LONGEST_S
            seen = -1
            while seen != self._events and loop.time() < until:
                seen = self._events
                await asyncio.sleep(self.quiet_s)
            files, folders = self._files, self._folders
            self._files, self._folders = set(), set()
            self._waiting.clear()
            found = await asyncio.to_thread(self._resolved, files, folders)
            if found:
                return found

    def note_file(self, path: Path) -> None:
        """Take note that `path` may have changed; for the loop's own thread."""
        if self._matters(path):
            self._files.add(path)
            self._told()

    def note_folder(self, path: Path) -> None:
        """Take note that a folder has come, gone or was moved, or that what happened in it is not known."""
        self._folders.add(path)
        self._told()

    def look(self) -> None:
        """Remember every file as it is now."""
        self._known = {**dict(self._walk(self.place.roots)), **dict(self._apart())}

    def differences(self) -> frozenset[Path]:
        """Look at everything again, and return what is not as it was."""
        before = self._known
        self.look()
        return frozenset(p for p in before.keys() | self._known.keys() if before.get(p) != self._known.get(p))

    def _told(self) -> None:
        self._events += 1
        self._waiting.set()

    def _matters(self, path: Path) -> bool:
        if path in self._aliases or path in self.place.files:
            return True
        if path.name in SETTINGS:
            return path.parent in self.place.roots
        return path.suffix == ".py" and not path.name.startswith(".")

    @cached_property
    def _aliases(self) -> Mapping[Path, list[Path]]:
        """Where named files really lie, with the names that lead there."""
        found: dict[Path, list[Path]] = {}
        for file in self.place.files:
            if (real := file.resolve()) != file:
                found.setdefault(real, []).append(file)
        return found

    def _resolved(self, files: set[Path], folders: set[Path]) -> frozenset[Path]:
        """Return the files that events about files and folders are about."""
        found = set(files)
        for real, names in self._aliases.items():
            if real in files:
                found.update(names)
        for path in files:
            with contextlib.suppress(OSError):
                self._known[path] = _stamp(path.stat())
        if folders:
            # First the new observers, then a look: what is written in between is seen by one or the other.
            if self._observation is not None:
                self._observation.renew(folders)
            found |= self.differences()
        return frozenset(found)

    def _walk(self, folders: Iterable[Path]) -> Iterator[tuple[Path, _Stamp]]:
        for folder in folders:
            for name, found in python_files(folder):
                path = Path(name)
                if found is not None and self._matters(path):
                    yield path, _stamp(found)

    def _apart(self) -> Iterator[tuple[Path, _Stamp]]:
        """Yield what a walk does not come by: settings, and files outside."""
        for path in (*(root / name for root in self.place.roots for name in SETTINGS), *self.place.files):
            with contextlib.suppress(OSError):
                yield path, _stamp(path.stat())


@dataclass
class _Observation:
    """The system's own notifications, for one `Watch`."""

    watch: Watch
    listener: FileSystemEventHandler
    observer: _Observer
    scheduled: dict[Path, tuple[bool, object]] = field(default_factory=dict)

    def begin(self) -> None:
        """Start.

        Raises:
            OSError: when the system has no more watches to give, or none at all.
            OverflowError: when there is too much to observe.
        """
        wanted = self._wanted()
        self.observer.start()
        for folder, everything in wanted.items():
            self._schedule(folder, everything)
        self._probe()

    def end(self) -> None:
        """Stop, and wait until nothing more comes."""
        alive = self.observer.is_alive()
        self.observer.stop()
        if alive:
            self.observer.join()

    def renew(self, folders: Iterable[Path]) -> None:
        """Observe what there is now, after folders have come, gone or moved: who observed them is deaf by now."""
        with contextlib.suppress(OSError, OverflowError):
            wanted = self._wanted()
            for folder, (everything, watch) in tuple(self.scheduled.items()):
                moved = any(folder.is_relative_to(one) for one in folders)
                if moved or wanted.get(folder) != everything:
                    del self.scheduled[folder]
                    with contextlib.suppress(KeyError, OSError):
                        self.observer.unschedule(watch)
            for folder, everything in wanted.items():
                if folder not in self.scheduled:
                    self._schedule(folder, everything)

    def _schedule(self, folder: Path, everything: bool) -> None:
        try:
            watch = self.observer.schedule(self.listener, str(folder), recursive=everything)
        except (FileNotFoundError, NotADirectoryError):
            return  # gone since it was listed
        self.scheduled[folder] = everything, watch

    def _wanted(self) -> dict[Path, bool]:
        place = self.watch.place
        wanted: dict[Path, bool] = {}
        for root in place.roots:
            wanted |= observed(root)
        for folder in place.folders:
            covered = folder in wanted or any(all_ and folder.is_relative_to(at) for at, all_ in wanted.items())
            if not covered and folder.is_dir():
                wanted[folder] = False
        return wanted

    def _probe(self) -> None:
        """Take one watch more: below a folder that is observed as a whole, a watch that was refused goes unsaid."""
        anchor = Path(Path.cwd().anchor)
        if anchor not in self.scheduled:
            self.observer.unschedule(self.observer.schedule(self.listener, str(anchor), recursive=False))


class _Listener(FileSystemEventHandler):
    """Hands events from the observer's thread to the loop of a `Watch`."""

    def __init__(self, watch: Watch, loop: asyncio.AbstractEventLoop) -> None:
        self._watch = watch
        self._loop = loop

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Take an event of any kind, but for reading and for a folder's own time stamp."""
        if event.event_type not in _TELLING or (event.is_directory and event.event_type == "modified"):
            return
        note = self._watch.note_folder if event.is_directory else self._watch.note_file
        for path in (event.src_path, event.dest_path):
            if path:
                self.tell(note, Path(os.fsdecode(path)))

    def tell(self, note: object, path: Path) -> None:
        """Have `note` called with `path` by the loop; one that has ended needs to know nothing."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(note, path)  # type: ignore[arg-type]


class _Complaints(logging.Handler):
    """What the library logs (a queue that overflowed) means that events were lost: look at everything again."""

    def __init__(self, listener: _Listener, watch: Watch) -> None:
        super().__init__(logging.WARNING)
        self._listener, self._watch = listener, watch

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - what it says is not for a user
        for root in self._watch.place.roots:
            self._listener.tell(self._watch.note_folder, root)


@asynccontextmanager
async def watching(
    roots: Sequence[Path], files: Sequence[Path] = (), *, quiet_s: float = QUIET_S, poll: bool | None = None
) -> AsyncIterator[Watch]:
    """Watch the Python files and settings of `roots`, and `files` wherever they lie, while the block runs.

    `poll` decides how; by default the system is asked to tell, unless the files lie on a network or it cannot.
    """
    place = Place(tuple(dict.fromkeys(roots)), tuple(dict.fromkeys(files)))
    watch = Watch(place, quiet_s=quiet_s)
    await asyncio.to_thread(watch.look)
    listener = _Listener(watch, asyncio.get_running_loop())
    complaints = _Complaints(listener, watch)
    library = logging.getLogger("watchdog")
    propagated, library.propagate = library.propagate, False
    library.addHandler(complaints)
    poller: asyncio.Task[None] | None = None
    try:
        watch.note = await asyncio.to_thread(_begin, watch, listener, poll)
        watch.polls = watch._observation is None  # noqa: SLF001 - one thing in two classes
        if watch.polls:
            poller = asyncio.create_task(_poll(watch))
        yield watch
    finally:
        if poller is not None:
            poller.cancel()
            await asyncio.wait([poller])
        if watch._observation is not None:  # noqa: SLF001 - as above
            await asyncio.to_thread(watch._observation.end)  # noqa: SLF001 - as above
        library.removeHandler(complaints)
        library.propagate = propagated


def _begin(watch: Watch, listener: _Listener, poll: bool | None) -> str:
    """Start to observe, unless polling is better; return the sentence that says why it is."""
    every = (
        f"files are looked at every {POLL_S:g} s instead" if POLL_S != 1 else "files are looked at every second instead"
    )
    if poll:
        return ""
    for folder in (*watch.place.roots, *watch.place.folders):
        if poll is None and (kind := network_type(folder)):
            return f"{folder} is on a file system that does not tell about changes made elsewhere ({kind}): {every}."
    if Observer is PollingObserver:
        return f"This system does not tell about changed files: {every}."
    observation = _Observation(watch, listener, Observer())  # type: ignore[arg-type]
    try:
        observation.begin()
    except OverflowError:
        why = f"there are more than {MOST_FOLDERS:,} folders here"
    except OSError as error:
        why = _refused(error)
    else:
        watch._observation = observation  # noqa: SLF001 - as above
        return ""
    observation.end()
    return f"Changes cannot be watched, because {why}: {every}."


def _refused(error: OSError) -> str:
    if error.errno == errno.ENOSPC and sys.platform == "linux":
        return "the system's limit of watched folders is reached (raise it with sysctl fs.inotify.max_user_watches=…)"
    if error.errno == errno.EMFILE and sys.platform == "linux":
        return "the system's limit of watchers is reached (raise it with sysctl fs.inotify.max_user_instances=…)"
    return f"the system refuses ({error.strerror or error})"


async def _poll(watch: Watch) -> None:
    loop = asyncio.get_running_loop()
    took = 0.0
    while True:
        # A slow network is not asked all the time.
        await asyncio.sleep(max(POLL_S, 10 * took))
        began = loop.time()
        for path in await asyncio.to_thread(watch.differences):
            watch.note_file(path)
        took = loop.time() - began


def _stamp(found: os.stat_result) -> _Stamp:
    return found.st_mtime_ns, found.st_size, found.st_ino
