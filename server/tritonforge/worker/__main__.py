"""Where the bootstrap enters the shipped worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from tritonforge.worker import guard
from tritonforge.worker.options import Options


def main(read_fd: int, write_fd: int, options: Mapping[str, Any], scratch: str = "") -> NoReturn:
    """Serve the client at the other end of the descriptors; `options` are the fields of `Options` as plain values."""
    chosen: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    guard.main(read_fd, write_fd, Options(**chosen), scratch)
