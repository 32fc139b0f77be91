"""A job's failure as an exception."""

from __future__ import annotations

from tritonforge.domain.errors import TritonForgeError
from tritonforge.domain.messages import Failure, FailureKind

_EXIT_CODES: dict[FailureKind, int] = {"unsupported": 3, "environment": 3, "protocol": 3, "internal": 70}


class JobError(TritonForgeError):
    """A job gave no result; `failure` says why, `failure.detail` has what helps to find out more."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.exit_code = _EXIT_CODES.get(failure.kind, 2)

    def __reduce__(self) -> tuple[type[JobError], tuple[Failure]]:
        """Let it be pickled by what made it, not by its sentence."""
        return type(self), (self.failure,)

    @property
    def kind(self) -> FailureKind:
        """What sort of failure it was."""
        return self.failure.kind
