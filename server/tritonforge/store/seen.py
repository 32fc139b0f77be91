"""What was last found out about a kernel, in a few numbers: enough for a list of all kernels of a workspace."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """The launch that mattered most when a kernel was last looked at, and the source that was looked at.

    `time_us` in µs with its `interval`; `fraction` is the share (0–1) of the `bound` roof; `at` in seconds since 1970,
    filled in when it is read.
    """

    code_hash: str
    site_hashes: tuple[str, ...]
    target: str
    launch: str = ""
    time_us: float | None = None
    provenance: str = "predicted"
    interval: tuple[float, float] | None = None
    fraction: float | None = None
    bound: str = ""
    bottleneck: str = ""
    reason: str = ""
    error: str = ""
    at: float = 0.0

    def fresh_for(self, code_hash: str, site_hashes: tuple[str, ...]) -> bool:
        """Tell whether neither the kernel nor a host function that launches it has changed since."""
        return self.code_hash == code_hash and sorted(self.site_hashes) == sorted(site_hashes)


def preferred(now: Seen | None, before: Seen | None) -> Seen | None:
    """Return which of two is shown: the newer one, but no prediction in place of a measurement of the same code."""
    if now is None or before is None:
        return now or before
    measured = before.provenance == "measured" and now.provenance != "measured"
    return before if measured and before.fresh_for(now.code_hash, now.site_hashes) else now
