"""The key: from the environment or the operating system's keyring, never from a file, and never shown."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping

from tritonforge.domain.errors import UsageError

KEY_VARIABLE = "OPENAI_API_KEY"
KEYRING_SERVICE = "tritonforge"
FROM_ENVIRONMENT = "env:"
HIDDEN = "<hidden>"

_LOOKS_SECRET = re.compile(
    r"""(?x)
    \b(?:sk|pk|rk)-[A-Za-z0-9_-]{12,}            # OpenAI and those who follow it
  | \b(?:ghp|gho|ghs|ghu|github_pat)_\w{16,}
  | \b(?:sk|pk|rk)_(?:live|test)_\w{12,}
  | \bhf_[A-Za-z0-9]{16,}
  | \bglpat-[\w-]{16,}
  | \b(?:npm|pypi|dop_v1|nvapi|gsk|xai|r8|wandb_v1|ya29)[-_.][\w-]{20,}
  | \bAIza[\w-]{30,}
  | \bAKIA[0-9A-Z]{12,}
  | \bxox[abprs]-[\w-]{10,}
  | \beyJ[\w-]{10,}\.[\w-]{5,}\.[\w-]{5,}        # a JSON web token
  | (?<=[Bb]earer\s)[^\s"']{6,}
  | (?<=[?&](?:key|sig)=)[^\s"'&]{6,}             # in an address
  | (?<=[?&](?:token)=)[^\s"'&]{6,}
  | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----(?:[^-]+(?:-----END\ [A-Z ]*PRIVATE\ KEY-----)?)?
  | (?<=://)[^/\s:@"']+:[^/\s@"']+(?=@)          # user:password in an address
    """
)


def find_key(environment: Mapping[str, str], endpoint: str) -> str:
    """Return the key for an endpoint, empty when there is none: local servers want none.

    The environment wins. In the keyring it is kept under the service `tritonforge`, by the endpoint's address.
    """
    key = environment.get(KEY_VARIABLE, "").strip()
    return key or _of_keyring(endpoint)


def _of_keyring(endpoint: str) -> str:
    # Any backend may fail in its own way (no session bus, a locked ring): then there is no key.
    with contextlib.suppress(Exception):
        import keyring

        return (keyring.get_password(KEYRING_SERVICE, endpoint) or "").strip()
    return ""


def header_values(headers: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return headers with `env:NAME` replaced by what that variable holds.

    Raises:
        UsageError: for a variable that is not set, and a value that no header can have.
    """
    out: dict[str, str] = {}
    for name, value in headers.items():
        shown = value
        if value.startswith(FROM_ENVIRONMENT):
            variable = value.removeprefix(FROM_ENVIRONMENT)
            if not environment.get(variable):
                raise UsageError(f"[llm] headers wants the variable {variable}, which is not set.", "Set it.")
            shown = environment[variable].strip()
        if not shown.isprintable() or not shown.isascii():
            raise UsageError(f"The value of the header {name} in [llm] holds characters that no header can hold.")
        out[name] = shown
    return out


class Redactor:
    """Takes secrets out of texts that people or logs see: those that are known, and what looks like one."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first, so that one inside another leaves nothing behind.
        self._known = sorted({one for one in secrets if len(one) >= 4}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return `text` without secrets."""
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        return looks_secret_hidden(text)

    def __repr__(self) -> str:
        """Show nothing of what is hidden."""
        return f"Redactor({len(self._known)} secrets)"


_SECRET_NAME = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|PAT)(?:_|$)", re.IGNORECASE)


def environments_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Return what the environment keeps under names of secrets: somebody may have pasted one of them into a comment."""
    return frozenset(
        value.strip()
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and len(value.strip()) >= 8 and not value.strip().isalpha()
    )


def looks_secret_hidden(text: str) -> str:
    """Return `text` without what has the form of a well-known kind of key."""
    return _LOOKS_SECRET.sub(HIDDEN, text)


def secrets_in(text: str) -> frozenset[str]:
    """Return what in `text` has the form of a well-known kind of key."""
    return frozenset(found[0] for found in _LOOKS_SECRET.finditer(text))
