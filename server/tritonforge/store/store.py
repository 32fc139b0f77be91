"""What is kept between runs, as nouns: recorded calls, compilations, profiles, trials, results, ceilings."""

from __future__ import annotations

import json
import logging
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tritonforge.domain.candidate import Trial
from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.counters import CounterAccess
from tritonforge.domain.exchange import Exchange
from tritonforge.domain.faults import Fault
from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.profile import Ceilings, Profile
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.target import WorkerInfo
from tritonforge.store.database import Database, storable
from tritonforge.store.keys import ceilings_key, content_key
from tritonforge.store.place import FILE, cache_folder, workspace_folder
from tritonforge.store.seen import Seen, preferred
from tritonforge.store.tried import TriedVersion

T = TypeVar("T")

MAX_BYTES = 256 << 20
"""How much the values may take together before the least recently used go."""

_CALLS = "calls"
_PIN = "pin"
_TRIED = "tried"
_log = logging.getLogger("tritonforge.store")


@dataclass(frozen=True)
class RecordedCalls:
    """Calls that were seen to launch a kernel, and the state of the source they were seen with.

    `origin` says how they were recorded (`main`, `function:test_x`, `trace`, …); `recorded_at` in seconds since 1970.
    """

    calls: tuple[Call, ...]
    code_hash: str
    site_hashes: tuple[str, ...]
    origin: str = ""
    recorded_at: float = 0.0

    def fresh_for(self, code_hash: str, site_hashes: tuple[str, ...]) -> bool:
        """Tell whether neither the kernel nor a host function that launches it has changed since."""
        return self.code_hash == code_hash and sorted(self.site_hashes) == sorted(site_hashes)


@dataclass(frozen=True)
class CompiledCall:
    """What compiling one call for one architecture gave, for one kernel: each launch as it was made, and what was read.

    `line` is the kernel's first line at that time: facts are charged to lines. `sources` are (absolute path,
    `file_state`) of files that must still be as they were.
    """

    line: int
    sources: tuple[tuple[str, str], ...]
    launches: tuple[tuple[RecordedLaunch, Compilation], ...]


@dataclass(frozen=True)
class WatchedCall:
    """What the interpreter saw of one kernel in one call; `line` and `sources` as in `CompiledCall`."""

    line: int
    sources: tuple[tuple[str, str], ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class TriedExchange:
    """An exchange with a language model and what became of what it proposed; None where it proposed nothing."""

    exchange: Exchange
    trial: Trial | None


class Store:
    """The memory of one workspace. Reading never fails: what is missing, damaged or outdated is None or empty."""

    def __init__(self, database: Database) -> None:
        """Use `database`; `open_store` is how to get one."""
        self._database = database

    @property
    def path(self) -> Path | None:
        """The file behind it; None when nothing could be written and all is kept in memory."""
        return self._database.path

    def put_calls(
        self,
        file: str,
        kernel: str,
        *,
        code_hash: str,
        site_hashes: tuple[str, ...],
        calls: tuple[Call, ...],
        origin: str,
    ) -> None:
        """Remember the calls that launch `kernel` (qualified) of `file`; replaces those of the same origin."""
        value = RecordedCalls(calls, code_hash, tuple(site_hashes), origin)
        self._put(_CALLS, _subject(file, kernel), value, origin)

    def calls_for(self, file: str, kernel: str) -> tuple[RecordedCalls, ...]:
        """Return what was recorded for `kernel` of `file`, newest first, stale or not: `fresh_for` tells."""
        found = self._all(RecordedCalls, _CALLS, _subject(file, kernel))
        return tuple(replace(value, recorded_at=written) for value, written in found)

    def kernels_with_calls(self, file: str) -> tuple[str, ...]:
        """Return the qualified names of the kernels of `file` for which calls are recorded."""
        prefix = storable(_subject(file, ""))
        return tuple(key.removeprefix(prefix) for key in self._database.keys(_CALLS, prefix))

    def subjects_with_calls(self) -> frozenset[tuple[str, str]]:
        """Return every (file, qualified kernel) for which calls are recorded."""
        keys = (key.rpartition("::") for key in self._database.keys(_CALLS))
        return frozenset((file, kernel) for file, _, kernel in keys)

    def forget_calls(self, file: str, kernel: str, origin: str | None = None) -> None:
        """Forget what was recorded for `kernel` of `file`, from one origin or all."""
        self._database.delete(_CALLS, _subject(file, kernel), origin)

    def put_seen(self, file: str, kernel: str, seen: Seen) -> None:
        """Remember what was last found out about `kernel` of `file`, unless that was measured and this is predicted."""
        key = _subject(file, kernel)
        if preferred(seen, self._one(Seen, "seen", key)) is seen:
            self._put("seen", key, seen)

    def seen(self) -> Mapping[tuple[str, str], Seen]:
        """Return what was last found out about every kernel, by file and qualified name."""
        found = {}
        for key in self._database.keys("seen"):
            file, _, kernel = key.rpartition("::")
            for value, written in self._all(Seen, "seen", key)[:1]:
                found[file, kernel] = replace(value, at=written)
        return found

    def put_index(self, data: Any) -> None:
        """Remember what is known of the workspace's files: plain JSON, which only `workload` reads."""
        blob = zlib.compress(json.dumps(data, separators=(",", ":")).encode("utf-8", "surrogatepass"), 1)
        self._database.put("index", "files", "", blob)

    def index(self) -> Any:
        """Return what `put_index` was given last; None when there is none that can be read."""
        for _, _, blob in self._database.get("index", "files"):
            try:
                return json.loads(zlib.decompress(blob).decode("utf-8", "surrogatepass"))
            except (zlib.error, ValueError) as error:
                _log.info("dropping an unreadable index: %s", error)
                self._database.delete("index", "files")
        return None

    def pin(self, file: str, kernel: str, launch: tuple[str, ...]) -> None:
        """Remember which launch of `kernel` of `file` matters most: whatever identifies it; nothing unpins."""
        if launch:
            self._put(_PIN, _subject(file, kernel), launch)
        else:
            self._database.delete(_PIN, _subject(file, kernel))

    def pinned(self, file: str, kernel: str) -> tuple[str, ...]:
        """Return what `pin` was given last; empty when nothing is pinned."""
        return self._one(tuple[str, ...], _PIN, _subject(file, kernel)) or ()

    def turn_down(self, file: str, kernel: str, diff_hash: str) -> None:
        """Remember that a person does not want a suggestion for `kernel` of `file`, by the `text_hash` of its diff."""
        self._put("turned-down", _subject(file, kernel), (diff_hash,))

    def turned_down(self, file: str, kernel: str) -> tuple[str, ...]:
        """Return the `text_hash` of the diff that was turned down last, if one was."""
        return self._one(tuple[str, ...], "turned-down", _subject(file, kernel)) or ()

    def put_compiled(self, key: str, compiled: CompiledCall) -> None:
        """Keep `compiled` under a `keys.compiled_key`."""
        self._put("compiled", key, compiled)

    def compiled(self, key: str) -> CompiledCall | None:
        """Return what was compiled under `key`."""
        return self._one(CompiledCall, "compiled", key)

    def put_watched(self, key: str, watched: WatchedCall) -> None:
        """Keep `watched` under a `keys.compiled_key`, with no architecture in it."""
        self._put("watched", key, watched)

    def watched(self, key: str) -> WatchedCall | None:
        """Return what was seen under `key`."""
        return self._one(WatchedCall, "watched", key)

    def put_worker(self, key: str, described: WorkerInfo) -> None:
        """Keep what a worker said of itself, under whatever that depends on."""
        self._put("worker", key, described)

    def worker(self, key: str) -> WorkerInfo | None:
        """Return what `put_worker` was given last for `key`."""
        return self._one(WorkerInfo, "worker", key)

    def put_architectures(self, triton: tuple[str, ...], able: Mapping[str, str]) -> None:
        """Remember for which architectures a Triton compiles (empty text) or why not; `triton` tells installs apart."""
        self._put("architectures", content_key("architectures", triton), dict(able))

    def architectures(self, triton: tuple[str, ...]) -> Mapping[str, str]:
        """Return what `put_architectures` was given last for that Triton."""
        return self._one(dict[str, str], "architectures", content_key("architectures", triton)) or {}

    def put_profile(self, key: str, profile: Profile) -> None:
        """Keep `profile` under a `keys.profile_key`."""
        self._put("profile", key, profile)

    def profile(self, key: str) -> Profile | None:
        """Return the profile kept under `key`."""
        return self._one(Profile, "profile", key)

    def put_tried(self, key: str, version: TriedVersion) -> None:
        """Keep what became of a version under a `keys.search_key`; the same version replaces its earlier state."""
        self._put(_TRIED, key, version, version.text)

    def tried(self, key: str) -> tuple[TriedVersion, ...]:
        """Return the versions kept under `key`, in the order in which they were last written."""
        return tuple(version for version, _ in reversed(self._all(TriedVersion, _TRIED, key)))

    def put_exchange(self, file: str, kernel: str, key: str, exchange: Exchange, trial: Trial | None) -> None:
        """Keep an exchange about `kernel` of `file` under its id, with the trial that came of it."""
        self._put("exchange", _subject(file, kernel), TriedExchange(exchange, trial), key)

    def exchanges_for(self, file: str, kernel: str) -> tuple[TriedExchange, ...]:
        """Return the exchanges about `kernel` of `file`, in the order in which they were made."""
        found = [one for one, _ in self._all(TriedExchange, "exchange", _subject(file, kernel))]
        return tuple(sorted(found, key=lambda one: one.exchange.at))

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return all exchanges, about whatever kernel, in the order in which they were made."""
        keys = self._database.keys("exchange")
        found = [one.exchange for key in keys for one, _ in self._all(TriedExchange, "exchange", key)]
        return tuple(sorted(found, key=lambda one: one.at))

    def put_result(self, key: str, result: OptimizeResult) -> None:
        """Keep `result` under a `keys.answer_key`, to answer the same question at once."""
        self._put("result", key, result)

    def result_for(self, key: str) -> OptimizeResult | None:
        """Return the result kept under `key`."""
        return self._one(OptimizeResult, "result", key)

    def put_tuning(self, result: OptimizeResult) -> None:
        """Keep what `optimize` found, to be exported; replaces what it found of the same code, launches and GPU."""
        kernel, target = result.kernel, result.target
        launches = sorted(launch.id for launch in result.launches)
        archs = sorted({one.compilation.arch for one in result.assessments})
        part = content_key("tuning", kernel.code_hash, target.gpu, archs, result.provenance, launches)
        self._put("tuning", _subject(kernel.file, kernel.name), result, part)

    def tunings_for(self, file: str, kernel: str) -> tuple[OptimizeResult, ...]:
        """Return what `optimize` found of `kernel` of `file`, newest first; of code that has changed since, too."""
        return tuple(result for result, _ in self._all(OptimizeResult, "tuning", _subject(file, kernel)))

    def put_ceilings(self, driver: str, versions: Mapping[str, str], ceilings: Ceilings) -> None:
        """Keep what was measured of the GPU that `ceilings` names, under its driver and the versions used."""
        self._put("ceilings", ceilings_key(ceilings.gpu, driver, versions), ceilings)

    def ceilings_for(self, gpu: str, driver: str, versions: Mapping[str, str]) -> Ceilings | None:
        """Return the measured ceilings of `gpu` with that driver and those versions."""
        return self._one(Ceilings, "ceilings", ceilings_key(gpu, driver, versions))

    def put_counter_access(self, target: tuple[str | None, ...], access: CounterAccess) -> None:
        """Remember what was found out about counters on `target`: whatever tells targets apart."""
        self._put("counters", content_key("counters", target), access)

    def counter_access(self, target: tuple[str | None, ...]) -> CounterAccess | None:
        """Return what `put_counter_access` was given last for `target`."""
        return self._one(CounterAccess, "counters", content_key("counters", target))

    def size(self) -> int:
        """Return the bytes of all kept values, compressed."""
        return self._database.size()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, kind: str, key: str, value: Any, part: str = "") -> None:
        data = json.dumps(encode(value), separators=(",", ":"), ensure_ascii=False)
        self._database.put(kind, key, part, zlib.compress(data.encode("utf-8", "surrogatepass"), 6))

    def _one(self, cls: type[T], kind: str, key: str) -> T | None:
        return next((value for value, _ in self._all(cls, kind, key)), None)

    def _all(self, cls: type[T], kind: str, key: str) -> list[tuple[T, float]]:
        found: list[tuple[T, float]] = []
        for part, written, blob in self._database.get(kind, key):
            try:
                data = json.loads(zlib.decompress(blob).decode("utf-8", "surrogatepass"))
                found.append((decode(cls, data), written))
            except (zlib.error, ValueError, TypeError, CodecError) as error:
                # Damaged, or written when the noun had another shape: a miss either way, and it will be made again.
                _log.info("dropping an unreadable %s: %s", kind, error)
                self._database.delete(kind, key, part)
        return found


def open_store(
    root: Path,
    *,
    warn: Callable[[str], None] = _log.warning,
    max_bytes: int = MAX_BYTES,
    environment: Mapping[str, str] | None = None,
) -> Store:
    """Open the store of the workspace at `root`: there, else in the user's cache, else in memory.

    `warn` receives one sentence for each thing that went wrong without stopping anything.

    Raises:
        UsageError: when a newer TritonForge wrote the store.
    """

    def open_in(prepare_folder: Callable[[], Path | None]) -> Store | None:
        folder = prepare_folder()
        if folder is None:
            return None
        try:
            return Store(
                Database(
                    folder / FILE,
                    max_bytes=max_bytes,
                    durable_kinds=(_CALLS, _PIN),
                    warn=warn,
                    # Somebody may clear the folder while we run.
                    prepare_folder=prepare_folder,
                )
            )
        except (sqlite3.Error, OSError) as error:  # a file system without locks or shared memory, for one
            warn(f"the store cannot be kept in {folder} ({error}).")
            return None

    store = open_in(partial(workspace_folder, root)) or open_in(partial(cache_folder, root, environment))
    if store is not None:
        return store
    warn("nothing can be remembered between runs: neither the workspace nor the user's cache can be written.")
    return Store(Database(None, max_bytes=max_bytes, durable_kinds=(_CALLS, _PIN), warn=warn))


def _subject(file: str, kernel: str) -> str:
    return f"{file}::{kernel}"
