"""How long to wait before a question is put again."""

from __future__ import annotations

import datetime as dt
import email.utils
import random
from collections.abc import Mapping

FIRST_S = 0.5
LONGEST_S = 30.0


def retry_after(headers: Mapping[str, str], now: dt.datetime | None = None) -> float | None:
    """Return the seconds that a server asks to wait (RFC 9110, 10.2.3: a number or a date; or milliseconds)."""
    lower = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(lower.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        at = email.utils.parsedate_to_datetime(lower.get("retry-after", ""))
    except (ValueError, TypeError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    return max(0.0, (at - (now or dt.datetime.now(dt.UTC))).total_seconds())


def backoff(attempt: int) -> float:
    """Return the seconds to wait after failed attempt `attempt` (from 1): twice as long each time, a little apart."""
    longest = min(LONGEST_S, FIRST_S * 2.0 ** (attempt - 1))
    return longest * random.uniform(0.75, 1.0)  # noqa: S311 - clients that failed together must not return together
