"""The state of a file in few characters: what was computed from the file holds while its state stays."""

from __future__ import annotations

import hashlib
from pathlib import Path

_LARGE = 4 << 20
GONE = "gone"


def file_state(path: str) -> str:
    """Return the sha256 of the file's content; of one above 4 MiB, its size and when it was written (ns).

    `GONE` when it cannot be read. A checkout that writes the same text anew leaves the state as it is.
    """
    file = Path(path)
    try:
        found = file.stat()
        if found.st_size > _LARGE:
            return f"{found.st_size}-{found.st_mtime_ns}"
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return GONE
