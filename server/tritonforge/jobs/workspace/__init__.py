"""The files of a workspace that a job on another machine needs: which they are, and which are kept back and why."""

from tritonforge.jobs.workspace.files import Entry, WorkspaceFiles

__all__ = ["Entry", "WorkspaceFiles"]
