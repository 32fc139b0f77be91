# What a target's Python runs first: it fetches the worker unless it has it already, and starts it. The text is sent
# over the pipe with `SETTINGS = {...}` in front of it, and never imported here. Python 2.7 must be able to read it, so
# that a Python that is too old can say so.
# The Pythons it must survive know neither annotations nor f-strings nor pathlib:
# ruff: noqa: ANN001, ANN201, D100, D103, E402, F821, PTH101, PTH103, PTH104, PTH111, PTH113, PTH114, PTH116, PTH118
# ruff: noqa: PTH208, TRY300, TRY301, UP031, UP036
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
    return os.path.isfile(os.path.join(folder, "tritonforge", "worker", "__main__.py"))


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
    if is_whole(home) and is_ours(parent):
        os.utime(home)
        return home, ""
    say("need")
    data = receive(SETTINGS["size"])
    try:
        os.makedirs(parent, 0o700, exist_ok=True)
        if not is_ours(parent):
            raise OSError(parent)
        folder = unpack(data, parent)
    except OSError:
        folder = unpack(data, None)
        return folder, folder
    try:
        os.rename(folder, home)
    except OSError:  # another one was first, or what lies there is not whole
        if not is_whole(home):
            return folder, folder
        shutil.rmtree(folder, ignore_errors=True)
    forget_old(parent)
    return home, ""


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
