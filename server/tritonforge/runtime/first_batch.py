"""Measuring a file's configurations on the first launch of sizes that it does not have, and remembering the best."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tritonforge.runtime.tuning_file import Config, KernelTuning

_SCHEMA = "tritonforge-remembered/1"
_REPETITIONS = 7

Timer = Callable[[Callable[[], Any]], float]
"""Runs something once and returns how long the device took, in µs."""


def measure_configs(
    launch: Callable[[Config], Any],
    configs: Sequence[Config],
    arguments: Iterable[Any],
    timer: Timer | None = None,
) -> Config | None:
    """Return the fastest of `configs`, by the median of a few launches each; None where nothing can be measured.

    Tensors among `arguments` are saved before, and put back before every launch and at the end. Configurations that do
    not launch (too much shared memory, say) are passed over. Nothing is measured while a graph is captured, without a
    GPU, or when there is no memory to save the tensors, or no way to put them back.
    """
    torch = sys.modules.get("torch")
    if timer is None:
        if torch is None or not torch.cuda.is_available() or torch.cuda.is_current_stream_capturing():
            return None
        timer = _events(torch)
    saved = _saved(arguments)
    if saved is None:
        return None
    best: tuple[float, Config] | None = None
    try:
        for config in configs:
            times = _times(launch, config, saved, timer)
            if times and (best is None or statistics.median(times) < best[0]):
                best = statistics.median(times), config
    finally:
        _restore(saved)
    return best[1] if best is not None else None


def _times(
    launch: Callable[[Config], Any], config: Config, saved: Sequence[tuple[Any, Any]], timer: Timer
) -> list[float]:
    times = []
    for number in range(_REPETITIONS + 1):
        _restore(saved)
        try:
            time = timer(lambda: launch(config))
        except Exception:  # noqa: BLE001 - compilers and drivers refuse in many ways; the next configuration may do
            return []
        if number:  # the first one compiled it
            times.append(time)
    return times


def _saved(arguments: Iterable[Any]) -> list[tuple[Any, Any]] | None:
    try:
        saved = [(one, one.clone()) for argument in arguments for one in _memory_of(argument)]
        _restore(saved)  # what cannot be put back must not be launched on
    except RuntimeError:  # torch's OutOfMemoryError is one
        return None
    return saved


def _memory_of(argument: Any) -> Iterator[Any]:
    """Yield what an argument's elements are kept in: of tensors, of tuples of them, of tensor descriptors."""
    if isinstance(argument, tuple | list):
        for one in argument:
            yield from _memory_of(one)
    elif hasattr(argument, "clone") and hasattr(argument, "copy_"):
        # Its `data` shares the memory and is unknown to autograd, which would refuse to have a weight written to.
        plain = getattr(argument, "data", argument)
        steps = plain.stride() if hasattr(plain, "stride") else ()
        # One element may stand for several (`expand`): they are put back by the memory that they share.
        yield plain.untyped_storage() if 0 in steps else plain
    elif hasattr(argument, "base") and hasattr(argument, "block_shape"):
        yield from _memory_of(argument.base)


def _restore(saved: Sequence[tuple[Any, Any]]) -> None:
    for tensor, copy in saved:
        tensor.copy_(copy)


def _events(torch: Any) -> Timer:
    def timed(work: Callable[[], Any]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3

    return timed


class Remembered:
    """What was measured at earlier starts, in a file of JSON. A file that cannot be read or written only costs time."""

    def __init__(self, path: str | Path | None, tuning: KernelTuning) -> None:
        self._path = Path(path) if path is not None else _default_path(tuning)
        self._known = self._read()

    def find(self, key: Sequence[Any]) -> Config | None:
        """Return what was measured to be best for `key`: GPU, sizes, types and flags."""
        found = self._known.get(_text(key))
        return found if isinstance(found, dict) else None

    def keep(self, key: Sequence[Any], config: Config) -> None:
        """Remember, beside what other processes may have written meanwhile."""
        self._known = {**self._read(), _text(key): dict(config)}
        if self._path is None:
            return
        temporary = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"schema": _SCHEMA, "configs": self._known}, file, indent=1, sort_keys=True)
            Path(temporary).replace(self._path)
            temporary = None
        except (OSError, TypeError) as error:
            warnings.warn(f"{self._path} cannot be written ({error}); it is measured again next time.", stacklevel=4)
        finally:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        known = data.get("configs") if isinstance(data, dict) and data.get("schema") == _SCHEMA else None
        return known if isinstance(known, dict) else {}


def _text(key: Sequence[Any]) -> str:
    return json.dumps(list(key), default=str)


def _default_path(tuning: KernelTuning) -> Path | None:
    """Return a file of the user's cache for exactly this tuning: another one knows other configurations."""
    digest = hashlib.sha256(repr(tuning).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME") or ""
    try:
        cache = Path(base) if os.path.isabs(base) else Path.home() / ".cache"  # noqa: PTH117 - "" is relative
    except RuntimeError:
        return None
    return cache / "tritonforge" / "tuned" / f"{digest}.json"
