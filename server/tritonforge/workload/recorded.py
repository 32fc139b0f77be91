"""Recorded calls in the store, and whether an edit since may have changed what they are made with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tritonforge.analysis.states import MAIN, MODULE, states
from tritonforge.domain.kernel import Kernel, RunnableEntry
from tritonforge.domain.launch import Call
from tritonforge.store import RecordedCalls, Store

_RUN = "run "
Read = Callable[[str], str | None]
"""Gives the text of a workspace file as it is now; None when there is none."""


@dataclass(frozen=True)
class Kept:
    """Calls as they were recorded; `stale` says what has changed since, and is empty when nothing has that matters."""

    calls: tuple[Call, ...]
    origin: str
    stale: str = ""


def origin_of(file: str, entry: RunnableEntry) -> str:
    """Return what calls are kept under that running `entry` of `file` made."""
    return f"{_RUN}{file}::{MODULE if entry.kind == 'module' else entry.name}"


def keep(store: Store, kernel: Kernel, calls: tuple[Call, ...], origin: str, read: Read) -> None:
    """Remember calls of `kernel`, with the state of everything that what they pass depends on.

    `origin` is `origin_of` what was run, or any other text (`trace`) where nothing in the workspace says what was.
    """
    state = _state(kernel, calls, origin, read)
    store.put_calls(
        kernel.file,
        kernel.name,
        code_hash=kernel.code_hash,
        site_hashes=tuple(f"{name}={value}" for name, value in state.items()),
        calls=calls,
        origin=origin,
    )


def kept(store: Store, kernel: Kernel, read: Read) -> tuple[Kept, ...]:
    """Return what was recorded for `kernel`, the newest first.

    An edit of the kernel itself makes no call stale: they are made by the functions around it, and repeated on the
    kernel as it now stands.
    """
    return tuple(
        Kept(recorded.calls, recorded.origin, _changed(kernel, recorded, read))
        for recorded in store.calls_for(kernel.file, kernel.name)
    )


def _changed(kernel: Kernel, recorded: RecordedCalls, read: Read) -> str:
    sites = tuple(site.site_hash for site in kernel.launch_sites)
    if sorted(recorded.site_hashes) == sorted(sites):  # a recorder that knows nothing but the launch sites
        return ""
    before = dict(entry.rpartition("=")[::2] for entry in recorded.site_hashes)
    now = _state(kernel, recorded.calls, recorded.origin, read)
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not names:
        return ""
    named = [_spoken(name) for name in names if "::" in name]
    return f"{_listed(named) if named else 'the code that launches it'} changed since"


def _state(kernel: Kernel, calls: Iterable[Call], origin: str, read: Read) -> Mapping[str, str]:
    """Return a hash for each launch site, host function, and for the entry that was run, by what it is of."""
    wanted: dict[str, set[str]] = {}
    for call in calls:
        if call.kernel_launch is None:
            wanted.setdefault(call.file, set()).add(call.function)
    if origin.startswith(_RUN):
        file, _, entry = origin.removeprefix(_RUN).rpartition("::")
        wanted.setdefault(file, set()).add(entry)
    found = {f"site {number}": value for number, value in enumerate(sorted(s.site_hash for s in kernel.launch_sites))}
    for file, functions in sorted(wanted.items()):
        text = read(file)
        known = dict.fromkeys(functions, "gone") if text is None else states(text, functions)
        found |= {f"{file}::{function}": value for function, value in sorted(known.items())}
    return found


def _spoken(name: str) -> str:
    file, _, function = name.rpartition("::")
    what = {MAIN: "the main block", MODULE: "the module level"}.get(function, function)
    return f"{what} of {file}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
