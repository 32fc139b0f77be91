"""Waiting for the GPU at the end of a process, but not for ever: what hangs there must still be able to end."""

from __future__ import annotations

import _thread
from collections.abc import Callable


def settled(synchronise: Callable[[], object], seconds: float) -> bool:
    """Call `synchronise` and tell whether it came back, with or without an error, within `seconds`."""
    done = _thread.allocate_lock()
    done.acquire()

    def wait() -> None:
        try:
            synchronise()
        except BaseException:  # noqa: S110 - a device that has failed has also settled
            pass
        finally:
            done.release()

    try:
        # Not a `threading.Thread`: the interpreter may be past starting those, and programs count them.
        _thread.start_new_thread(wait, ())
    except RuntimeError:
        wait()
    return done.acquire(timeout=seconds)
