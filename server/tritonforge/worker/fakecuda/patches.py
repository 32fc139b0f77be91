"""Attributes that are replaced for a while."""

from __future__ import annotations

from typing import Any

_MISSING = object()


class Patches:
    """Replaces attributes and puts them back in reverse order."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`, remembering what was in its own dictionary (an inherited attribute is uncovered again)."""
        self._undo.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def set_all(self, owner: Any, values: dict[str, Any]) -> None:
        """Set several attributes of one owner."""
        for name, value in values.items():
            self.set(owner, name, value)

    def restore(self) -> None:
        """Put everything back."""
        while self._undo:
            owner, name, value = self._undo.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
