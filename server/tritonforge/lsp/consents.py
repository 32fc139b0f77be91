"""Where the editor's user agreed that code is sent to: by workspace and endpoint, kept in the user's own folder.

Not in the workspace: whoever hands out a workspace could hand out the consent with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

FILE = "llm-consent.json"


class Consents:
    """What was agreed to. What cannot be read was not; what cannot be written holds for this process alone."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Keep it under `$XDG_STATE_HOME/tritonforge`, else `~/.local/state/tritonforge`."""
        environment = os.environ if environment is None else environment
        home = environment.get("XDG_STATE_HOME") or str(
            Path(environment.get("HOME", "~")).expanduser() / ".local/state"
        )
        self._path = Path(home) / "tritonforge" / FILE
        self._given: dict[str, bool] = {}
        self.turn = asyncio.Lock()
        """Held by whoever asks."""

    def asked(self, root: Path, endpoint: str) -> bool | None:
        """Return what the user said of sending code of a workspace to an endpoint; None when never asked."""
        key = _key(root, endpoint)
        if key in self._given:
            return self._given[key]
        answer = self._read().get(key)
        return answer if isinstance(answer, bool) else None

    def remember(self, root: Path, endpoint: str, *, agreed: bool) -> None:
        """Keep an answer."""
        self.for_now(root, endpoint, agreed=agreed)
        key = _key(root, endpoint)
        table = {**self._read(), key: agreed}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self._path.with_name(f"{FILE}.{os.getpid()}")
            new.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", "utf-8")
            new.replace(self._path)

    def for_now(self, root: Path, endpoint: str, *, agreed: bool) -> None:
        """Let an answer hold as long as this process runs."""
        self._given[_key(root, endpoint)] = agreed

    def _read(self) -> dict[str, object]:
        try:
            found = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _key(root: Path, endpoint: str) -> str:
    return f"{root} -> {endpoint}"
