"""Errors as types, each with one sentence for the user and, where there is one, the mend."""

from __future__ import annotations


class TritonForgeError(Exception):
    """Base of everything this project raises on purpose.

    `exit_code` is what the command line returns for it; the message is one sentence that says what is wrong and
    `mend` is what the user can do about it.
    """

    exit_code = 2

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    def __str__(self) -> str:
        """Return the sentence with its mend."""
        return f"{self.message} {self.mend}".strip()


class UsageError(TritonForgeError):
    """The command, a setting or an input file is wrong or unreadable."""

    exit_code = 2


class TargetUnreachable(TritonForgeError):
    """The target's worker could not be started or stopped answering."""

    exit_code = 3


class NoLaunchKnown(TritonForgeError):
    """A kernel was named for which no launch is known."""

    exit_code = 4
