"""What the supervisor answers itself: whether it lives, and what becomes of the files that a client sends."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tritonforge.domain.frames import Frame, message
from tritonforge.worker.filecache import VARIABLE, FileCache, FileRefused, home


class Filing:
    """Answers messages about files. `folder` is where they lie; None where the client sends none."""

    def __init__(self, *, wanted: bool) -> None:
        self.folder: Path | None = None
        self._scratch = False
        if wanted:
            self.folder, self._scratch = home()
            os.environ[VARIABLE] = str(self.folder)  # for the lanes
            self._cache = FileCache(self.folder)

    def answer(self, frame: Frame) -> Frame | None:
        """Return the answer to a message about files or life; None when it is about something else."""
        number = frame.header.get("id")
        if frame.kind == "ping":
            return message("pong", id=number)
        if self.folder is None or frame.kind not in {"lacks", "file", "tree", "space"}:
            return None
        try:
            return message("files", id=number, **self._handle(frame))
        except FileRefused as error:
            return message("files", id=number, refused=str(error))
        except OSError as error:
            return message("files", id=number, refused=f"The cache there fails ({error.strerror or error}).")
        except (ValueError, TypeError, RecursionError, OverflowError):
            return message("files", id=number, refused="The description of the workspace cannot be read.")

    def _handle(self, frame: Frame) -> dict[str, Any]:
        if frame.kind == "space":
            free = shutil.disk_usage(self._cache.folder).free
            return {"folder": str(self._cache.folder), "free": free, "scratch": self._scratch}
        if frame.kind == "lacks":
            return {"lacks": self._cache.lacks(json.loads(frame.payload))}
        if frame.kind == "file":
            self._cache.put(str(frame.header.get("name")), frame.payload)
            return {}
        return {"root": str(self._cache.tree(str(frame.header.get("key")), json.loads(frame.payload)))}

    def end(self) -> None:
        """Remove what no later worker could use."""
        if self._scratch and self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
