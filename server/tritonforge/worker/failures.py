"""How a job inside a lane ends without a result."""

from __future__ import annotations

from typing import Protocol

from tritonforge.domain.messages import Failure, FailureKind


class JobFailed(Exception):
    """Raised by a handler to end its job with a typed failure."""

    def __init__(
        self, kind: FailureKind, message: str, *, file: str | None = None, line: int | None = None, detail: str = ""
    ) -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, file, line, detail)


class JobContext(Protocol):
    """What a lane offers the handler of one job."""

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Report how far the job is (`fraction` 0–1 where known)."""

    def output(self) -> str:
        """Return what the job has printed so far on both standard streams, its last 20,000 characters."""
