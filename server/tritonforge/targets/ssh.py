"""What is added to a user's `ssh` command, and what its refusals mean."""

from __future__ import annotations

import re
from pathlib import PurePath

from tritonforge.targets.text import shown

_WRAPPERS = frozenset(["env", "nice", "setsid", "nohup", "stdbuf", "ionice"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def never_asking(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command with `BatchMode=yes` where it is ssh and does not say anything about that itself.

    Nobody could answer a question: stdin belongs to the protocol, and there may be no terminal. Keys in an agent, or in
    hardware that wants a touch, need none. Everything else is the user's own: their configuration, jumps, host keys.
    """
    place = _place_of_ssh(command)
    if place is None or any("batchmode" in part.lower() for part in command):
        return command
    return (*command[: place + 1], "-o", "BatchMode=yes", *command[place + 1 :])


def _place_of_ssh(command: tuple[str, ...]) -> int | None:
    for place, part in enumerate(command):
        name = PurePath(part).name
        if name in {"ssh", "ssh.exe"}:
            return place
        if name not in _WRAPPERS and not _ASSIGNMENT.match(part) and not part.startswith("-"):
            return None
    return None


_REASONS: tuple[tuple[str, str], ...] = (
    (r"host key verification failed|host key is known|authenticity of host",
     "Connect once by hand ({by_hand}) and see whether its key is the right one; host keys are always checked."),
    (r"remote host identification has changed",
     "The host has another key than before: find out why, then correct ~/.ssh/known_hosts."),
    (r"permission denied \(", "Have a key for it in ssh-agent or in ~/.ssh/config, so that {by_hand} asks nothing."),
    (r"sign_and_send_pubkey|agent refused|device not found|incorrect passphrase",
     "Unlock the key or plug the security key in, and see that {by_hand} asks nothing."),
    (r"could not resolve hostname|name or service not known|temporary failure in name resolution|nodename nor servname",
     "Correct the host's name in `command`, or give it a Host entry in ~/.ssh/config."),
    (r"(password|passphrase|passcode|verification code|\botp|\bpin)[^\n]{0,80}[:?]\s*$|\((yes/no|y/n)[^\n]*$",
     "The command asks a question, and nobody can answer it: see that {by_hand} asks nothing."),
    (r"connection refused", "See that its SSH server runs, and that the port is the right one."),
    (r"timed out|no route to host|network is unreachable|operation timed out",
     "See whether the machine is up, and whether a VPN or a ProxyJump is needed to reach it."),
    (r"stdio forwarding failed|connection closed by unknown",
     "The jump host does not get through: try {by_hand} by hand."),
    (r"no such container|is not running|no such image|unable to find image|pull access denied",
     "Start the container, or correct its name or image in `command`."),
    (r"cannot connect to the docker daemon|docker daemon", "Start Docker, or let this user use it."),
    (r"pods? \".*\" not found|error from server", "Correct the pod's name and namespace in `command`."),
    (r"the input device is not a tty", "Give the command -i without -t."),
    (r"(python\S*|exec).*(not found|no such file)|command not found|not found: ",
     "Set the target's `python` to the interpreter there that has torch and triton."),
    (r"no space left|disk quota", "Make room on the target's disk."),
)  # fmt: skip
"""(what the command says, what to do about it)."""


def mend_for(said: str, command: tuple[str, ...]) -> str:
    """Return what to do about what a command said before it ended; empty when it is none of what is known."""
    by_hand = shown(command)
    for pattern, mend in _REASONS:
        if re.search(pattern, said, re.IGNORECASE):
            return mend.format(by_hand=by_hand)
    return ""
