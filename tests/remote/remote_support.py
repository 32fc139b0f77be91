"""A far side on this machine: an SSH server with keys of its own, a plain one over TCP, and a line that misbehaves."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tritonforge.domain.messages import Limits, Program, Record
from tritonforge.domain.target import Target
from tritonforge.jobs.client import Heartbeat, connect
from tritonforge.jobs.remote import Patience, remote
from tritonforge.targets import ProcessTransport

HERE = Path(__file__).parent
MARK = "TRITONFORGE_TEST_MARK"
QUICK = Patience(first=0.05, longest=0.2, whole=15.0)


def far(
    target, *, heartbeat=None, patience=QUICK, handlers="remote_handlers", limits=None, files=True, sending=None, **more
):
    """A worker behind `target`, which gets the files of the workspace; its handlers need no torch."""
    options = {"path": [str(HERE)], "lanes": 2, "warm": ["compile"], "files": files, **more}
    if handlers:
        options["handlers"] = handlers
    transport = ProcessTransport(target, options)
    return remote(
        target.name,
        lambda: connect(target, transport=transport, timeout=30.0, heartbeat=heartbeat or Heartbeat()),
        limits or Limits(60.0),
        patience,
        sending,
    )


def job(root, action, file="kernels.py", *overlays):
    return Record(Program(str(root), file, tuple(overlays)), "function", action)


def elsewhere(home, *prefix, **environment):
    """A target that is this machine with another home and nothing else of the environment, as a container is."""
    variables = {"HOME": str(home), "PATH": os.environ["PATH"], **environment}
    if MARK in os.environ:
        variables[MARK] = os.environ[MARK]
    command = ("env", "-i", *(f"{name}={value}" for name, value in variables.items()), *prefix)
    return Target("far", command=command, python=sys.executable)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def marked(mark):
    """The processes that have `mark` in the environment they started with."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                    found.append((int(folder.name), (folder / "cmdline").read_bytes()[:80]))
    return found


def assert_nothing_left(mark, seconds=8.0):
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


@dataclass
class Sshd:
    """A running server: `config` is what `ssh -F` takes, `authorized` its list of keys, `key` the public key."""

    folder: Path
    port: int
    config: Path
    authorized: Path
    key: str
    environment: dict = field(default_factory=dict)

    def target(self, host="lab", *options, **more):
        return Target(
            "lab",
            command=("ssh", "-F", str(self.config), *options, host),
            python=sys.executable,
            quoting="shell",
            **more,
        )


SSHD = shutil.which("sshd") or next((p for p in ("/usr/sbin/sshd", "/usr/local/sbin/sshd") if Path(p).exists()), None)


def why_no_sshd():
    if SSHD is None:
        return "sshd is not installed (apt-get install openssh-server)"
    if shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "ssh is not installed (apt-get install openssh-client)"
    return ""


@contextlib.contextmanager
def running_sshd(folder, environment):
    """Start an SSH server on a free port of this machine, with throw-away keys, that lets this user in."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host", "user", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port, user = free_port(), getpass.getuser()
    authorized = folder / "authorized_keys"
    key = (folder / "user.pub").read_text()
    authorized.write_text(key)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    variables = " ".join(f'"{name}={value}"' for name, value in environment.items())
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nAuthorizedKeysFile {authorized}\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n"
        f"PermitRootLogin yes\nAllowTcpForwarding yes\nMaxStartups 100\nSetEnv {variables}\n"
    )
    common = (
        f"  HostName 127.0.0.1\n  Port {port}\n  User {user}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder / 'known_hosts'}\n  GlobalKnownHostsFile /dev/null\n"
    )
    config = folder / "config"
    config.write_text(
        f"Host lab\n{common}  IdentityFile {folder / 'user'}\n"
        f"Host inner\n{common}  IdentityFile {folder / 'user'}\n  ProxyJump lab\n"
        f"Host refused\n{common}  IdentityFile {folder / 'stranger'}\n"
        f"Host unknown\n  UserKnownHostsFile /dev/null\n{common}  IdentityFile {folder / 'user'}\n"
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
        try:
            deadline = time.monotonic() + 20
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield Sshd(folder, port, config, authorized, key)
        finally:
            server.kill()
            server.wait()


class Door:
    """Gives whoever connects to `port` the program it asks for, as a server over TCP does without any protocol.

    The far side of a target whose command is `python far_door.py PORT`; `home` is its home folder.
    """

    def __init__(self, home, **environment):
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"], **environment}
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._processes = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._server.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                program = b""
                while not program.endswith(b"\n"):
                    program += sock.recv(1)
                arguments = program.decode().rstrip("\n").split("\0")
                with sock:
                    self._processes.append(
                        subprocess.Popen(
                            arguments, stdin=sock, stdout=sock, env=self._environment, stderr=subprocess.DEVNULL
                        )
                    )

    def close(self):
        self._server.close()
        for process in self._processes:
            process.wait(20)


class Line:
    """A TCP line to `port` that delays (seconds one way), throttles (bytes/s), stalls and is cut.

    `count` is how many connections it has carried, `carried` how many bytes up and down.
    """

    def __init__(self, port, delay=0.0, rate=0.0):
        self._to = port
        self.delay, self.rate = delay, rate
        self.stalled = threading.Event()
        self.closed = False
        self.count = 0
        self.carried = [0, 0]
        self._open = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                if self.closed:
                    near.close()
                    continue
                self.count += 1
                away = socket.create_connection(("127.0.0.1", self._to))
                for sock in (near, away):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += [near, away]
                for way, (source, sink) in enumerate(((near, away), (away, near))):
                    self._carry(source, sink, way)

    def _carry(self, source, sink, way):
        waiting, more = [], threading.Condition()

        def read():
            data = b"?"
            while data:
                try:
                    # Little is taken at once: what a line holds is what cannot be overtaken.
                    data = source.recv(1 << 14)
                except OSError:
                    data = b""
                with more:
                    while self.rate and sum(len(d) for _, d in waiting) > 1 << 16:
                        more.wait(1)
                    waiting.append((time.monotonic() + self.delay, data))
                    more.notify_all()

        def write():
            while True:
                with more:
                    while not waiting:
                        more.wait()
                    due, data = waiting[0]
                time.sleep(max(0.0, due - time.monotonic()))
                if self.rate:
                    time.sleep(len(data) / self.rate)
                while self.stalled.is_set():
                    time.sleep(0.01)
                with more:
                    waiting.pop(0)
                    more.notify_all()
                try:
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    sink.sendall(data)
                    self.carried[way] += len(data)
                except OSError:
                    with contextlib.suppress(OSError):
                        source.shutdown(socket.SHUT_RDWR)
                    return

        for work in (read, write):
            threading.Thread(target=work, daemon=True).start()

    def cut(self):
        """End every connection at once."""
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self):
        self.cut()
        self._server.close()


def over(port):
    """A target that is reached over TCP at `port`, where a `Door` or a `Line` to it is."""
    return Target("far", command=(sys.executable, str(HERE / "far_door.py"), str(port)), python=sys.executable)
