"""Files of the user's that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from tritonforge.domain.errors import UsageError


def write_whole(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write `text`: first beside `path`, then in its place, so that whoever reads finds the old file or the new one.

    Folders are made as needed, line ends are left alone, and the file has the permissions `mode`.

    Raises:
        UsageError: when it cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
