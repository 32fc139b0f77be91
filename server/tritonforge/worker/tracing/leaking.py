"""Objects of a parent that a fork's child must never destroy."""

from __future__ import annotations

import ctypes


def keep_for_good(thing: object) -> None:
    """Add a reference that nothing drops, not even the end of the interpreter.

    CUDA cannot be used in a child of a process that initialised it: the destructor of an event or of a tensor on the
    device throws there, and the child dies.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
