# What a target's Python runs first: it fetches the worker unless it has it already, and starts it. The text is sent
# over the pipe with `SETTINGS = {...}` in front of it, and never imported here. Python 2.7 must be able to read it, so
# that a Python that is too old can say so.
# The Pythons it must survive know neither annotations nor f-strings nor pathlib:
# ruff: noqa: ANN001, ANN201, D100, D103, E402, F821, PTH101, PTH103, PTH104, PTH111, PTH114, PTH116, PTH118
# ruff: noqa: PTH120, PTH208, TRY300, TRY301, UP031, UP036
# mypy: ignore-errors
import sys

if "SETTINGS" not in globals():
    raise ImportError("this is sent to a target, and not to be imported")

# `-c` puts the current folder first, where a user's `json.py` would stand in for the real one.
sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]

import os

# From here on stdout belongs to the protocol; whatever prints goes to stderr.
channel = os.dup(1)
os.dup2(2, 1)


def say(words):
    # In two halves, so that a shell that echoes its commands does not answer for us.
    os.write(channel, ("\n" + "tritonforge-" + "worker/1 " + words + "\n").encode("utf-8", "replace"))


def receive(size):
    pieces = []
    while size > 0:
        piece = os.read(0, min(size, 1 << 20))
        if not piece:
            sys.exit("tritonforge: the connection ended before the worker had arrived")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def unpack(data, parent):
    import io
    import shutil
    import tempfile
    import zipfile

    folder = tempfile.mkdtemp(prefix="tritonforge-", dir=parent)
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def is_whole(folder):
    """Whether all of a worker lies there: those who tidy caches up, and disks that fill up, take single files."""
    count = size = 0
    try:
        for where, _, names in os.walk(folder):
            for name in names:
                if not name.startswith(".") and not name.endswith(".pyc"):
                    count += 1
                    size += os.lstat(os.path.join(where, name)).st_size
    except OSError:
        return False
    return (count, size) == SETTINGS["whole"]


def is_ours(folder):
    """Whether nobody else can have put a worker there; what is ours is shut off from others."""
    try:
        if os.lstat(folder).st_uid != os.geteuid() or os.path.islink(folder):
            return False
        os.chmod(folder, 0o700)
        return True
    except OSError:
        return False


def fetch():
    """Return where the worker lies, and the folder to remove when it ends ("" when it may stay)."""
    import shutil

    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    parent = os.path.join(cache, "tritonforge", "worker")
    home = os.path.join(parent, SETTINGS["digest"])
    try:
        os.makedirs(parent, 0o700, exist_ok=True)
        kept = is_ours(os.path.dirname(parent)) and is_ours(parent)
    except OSError:
        kept = False
    if kept and is_ours(home) and is_whole(home):
        os.utime(home)
        return home, ""
    say("need")
    data = receive(SETTINGS["size"])
    try:
        if not kept:
            raise OSError(parent)
        folder = unpack(data, parent)
    except OSError:
        folder = unpack(data, None)
        return folder, folder
    for _ in range(3):
        try:
            os.rename(folder, home)
            break
        except OSError:  # another one was first, or what lies there is not whole
            if is_ours(home) and is_whole(home):
                shutil.rmtree(folder, ignore_errors=True)
                break
            set_aside(home)
    else:
        return folder, folder
    forget_old(parent)
    return home, ""


def set_aside(home):
    import shutil
    import tempfile

    try:
        aside = tempfile.mkdtemp(prefix="tritonforge-", dir=os.path.dirname(home))
        os.rename(home, os.path.join(aside, "broken"))
        shutil.rmtree(aside, ignore_errors=True)
    except OSError:
        pass


def forget_old(parent):
    """Remove workers that nobody has used for 30 days."""
    import shutil
    import time

    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        try:
            if time.time() - os.stat(folder).st_mtime > 30 * 86400:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass


if sys.version_info < (3, 10):
    say("python %s %s" % (".".join(map(str, sys.version_info[:3])), sys.executable))
elif not sys.platform.startswith("linux"):
    say("platform " + sys.platform)
else:
    home, scratch = fetch()
    sys.path.insert(0, home)
    say("start")
    import importlib

    importlib.import_module("tritonforge.worker.__main__").main(0, channel, SETTINGS["options"], scratch)
