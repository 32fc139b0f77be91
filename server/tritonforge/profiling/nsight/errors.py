"""What can be wrong with a report."""

from __future__ import annotations

from tritonforge.domain.errors import TritonForgeError


class ReportError(TritonForgeError):
    """A report cannot be read: the file is wrong or cut off, or nothing here can read such files."""

    exit_code = 2
