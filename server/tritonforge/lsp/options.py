"""What the client configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Options:
    """What the client configured; see docs/editor.md. `problems` says what was wrong and therefore left out."""

    trusted: bool = True
    interpreter: str | None = None
    target: str | None = None
    inlay_hints: bool = True
    previews: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @classmethod
    def read(cls, said: object) -> Options:
        """Read `initializationOptions`; what is missing or wrong keeps its default."""
        given = said if isinstance(said, Mapping) else {}
        kinds: dict[str, tuple[type, str]] = {
            "trusted": (bool, "true or false"),
            "interpreter": (str, "a path"),
            "target": (str, "a name"),
            "inlayHints": (bool, "true or false"),
            "previews": (bool, "true or false"),
            "settings": (Mapping, "an object"),
        }
        known: dict[str, Any] = {}
        problems = []
        for name, (kind, what) in kinds.items():
            value = given.get(name)
            if value is None or value == "":
                continue
            if isinstance(value, kind):
                known[name] = value
            else:
                problems.append(f"editor settings: {name} must be {what}.")
        # Wrong is not the same as missing here: whoever tried to say something about trust gets the careful answer.
        if given.get("trusted") is not None and "trusted" not in known:
            known["trusted"] = False
        if "inlayHints" in known:
            known["inlay_hints"] = known.pop("inlayHints")
        return cls(**known, problems=tuple(problems))
