"""Client of workers: lanes, queue, progress, cancel, typed errors. Everything that runs goes through it."""

from tritonforge.jobs.client import OnProgress, Worker, connect
from tritonforge.jobs.errors import JobError

__all__ = ["JobError", "OnProgress", "Worker", "connect"]
