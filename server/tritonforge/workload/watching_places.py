"""Where a workspace is watched: which folders count, and which of them lie where nobody tells about changes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tritonforge.workload.index_files import SKIPPED

MOST_FOLDERS = 20_000
MOST_OBSERVED = 64
"""Places that are observed by themselves, each at the price of a thread."""

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|smb2|9p|afs|ncpfs|ceph|glusterfs|lustre|beegfs|gpfs|orangefs|pvfs2|virtiofs|vboxsf|"
    r"vmhgfs|prl_fs|davfs|drvfs|fuse\.(sshfs|s3fs|rclone|gcsfuse|glusterfs|ceph|davfs2?|vmhgfs-fuse|osxfs|grpcfuse)|fakeowner"
)
"""Types of file systems whose other ends change files without this machine's kernel being told."""


@dataclass(frozen=True)
class Place:
    """What is watched: a workspace's folder, and files that the user named, wherever they lie."""

    roots: tuple[Path, ...]
    files: tuple[Path, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the named files, also of those that a link leads to."""
        return tuple(dict.fromkeys(path.parent for file in self.files for path in (file, file.resolve())))


def network_type(path: Path, mounts: str | None = None) -> str:
    """Return the type of the file system that holds `path` when it is a network's or another system's, else "".

    `mounts` is the text of `/proc/mounts`, which is read where it is not given; elsewhere than on Linux there is none.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    real = os.path.realpath(path)
    longest, kind = -1, ""
    for entry in mounts.splitlines():
        fields = entry.split(" ")
        if len(fields) < 3:
            continue
        where = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1]).rstrip("/")
        # Of two mounts at one place the later one is on top.
        if len(where) >= longest and (real == where or real.startswith(where + "/") or not where):
            longest, kind = len(where), fields[2]
    return kind if _NETWORK.fullmatch(kind) else ""


def observed(root: Path) -> dict[Path, bool]:
    """Return what to observe for `root`: folders, each with whether everything below it is meant.

    Folders that hold nothing of the user's own (hidden ones, environments, `node_modules`) are left out, because every
    folder takes one of the few watches that a system gives; what has none of them below is taken as a whole.

    Raises:
        OverflowError: when there are more than `MOST_FOLDERS`.
    """
    order: list[str] = []
    inside: dict[str, list[str]] = {}
    whole: dict[str, bool] = {}
    waiting = [str(root)]
    while waiting:
        here = waiting.pop()
        order.append(here)
        if len(order) > MOST_FOLDERS:
            raise OverflowError(here)
        below, whole[here] = _subfolders(here)
        inside[here] = below
        waiting += below
    for here in reversed(order):
        whole[here] = whole[here] and all(whole[below] for below in inside[here])
    chosen: dict[Path, bool] = {}
    waiting = [str(root)]
    while waiting:
        here = waiting.pop()
        chosen[Path(here)] = whole[here]
        if not whole[here]:
            waiting += inside[here]
    return chosen if len(chosen) <= MOST_OBSERVED else {root: True}


def _subfolders(folder: str) -> tuple[list[str], bool]:
    """Return the user's own folders in `folder`, and whether there are no others."""
    below, clean = [], True
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == "__pycache__" or not entry.is_dir(follow_symlinks=False):
                    continue
                if entry.name in SKIPPED or entry.name.startswith(".") or os.path.exists(f"{entry.path}/pyvenv.cfg"):  # noqa: PTH110 - thousands
                    clean = False
                else:
                    below.append(entry.path)
    except OSError:
        return [], True
    return below, clean
