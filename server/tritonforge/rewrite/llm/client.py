"""A model behind the `openai` client: the only file that knows that package, which is imported when it is first needed.

Retries are made here and not by the package, so that they can be seen, cut short by the user's limits, and also cover
an answer that broke off half-way.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from tritonforge.config import LlmSettings
from tritonforge.domain.errors import UsageError
from tritonforge.domain.exchange import Answer, Exchange, Question
from tritonforge.rewrite.llm.bounded import MOST_BYTES, bounded_client
from tritonforge.rewrite.llm.secrets import KEY_VARIABLE, KEYRING_SERVICE, Redactor, find_key, header_values
from tritonforge.rewrite.llm.speaking import OPTIONAL, BrokenAnswer, Reading, parameters, plain, wants_structure
from tritonforge.rewrite.llm.transport import ModelUnavailable
from tritonforge.rewrite.llm.waiting import backoff, retry_after

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_ENDPOINT = "https://api.openai.com/v1"
INSTALL = "Install it with: pip install 'tritonforge[llm]'."
_CONNECT_S = 15.0
_UNREACHABLE = "the endpoint cannot be reached"
_PATIENT = frozenset({408, 409, 425, 429})


class OpenAiTransport:
    """Any endpoint that speaks the API: hosted, vLLM, Ollama, llama.cpp, a company's gateway."""

    def __init__(
        self,
        settings: LlmSettings,
        *,
        environment: Mapping[str, str] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take over settings, and secrets from the environment; nothing is connected or imported yet.

        Raises:
            UsageError: when a header cannot be built, and for an address that is none.
        """
        environment = os.environ if environment is None else environment
        if not _is_address(settings.base_url or DEFAULT_ENDPOINT):
            raise UsageError(
                "The model's address is none.",
                "Set base-url in [llm], or OPENAI_BASE_URL, to an http:// or https:// address.",
            )
        self._settings = settings
        self._environment = environment
        self._base = settings.base_url or DEFAULT_ENDPOINT
        self._headers = header_values(settings.headers, environment)
        secrets = [*self._headers.values(), *_credentials(self._base), *_credentials(settings.proxy or "")]
        self._redact = Redactor([*secrets, environment.get(KEY_VARIABLE, "").strip()])
        self._secrets = secrets
        self._pause = pause
        self._client: AsyncOpenAI | None = None
        hosted = (urlsplit(self._base).hostname or "").endswith(".openai.com")
        self._apis = (
            [settings.api] if settings.api != "auto" else ["responses", "chat"] if hosted else ["chat", "responses"]
        )
        self._hosted = hosted
        self._without: frozenset[str] = frozenset()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._settings.model or ""

    @property
    def endpoint(self) -> str:
        """Its address, without user and password."""
        return plain_endpoint(self._settings)

    async def ask(self, question: Question, *, say: Callable[[str], None] = lambda _: None) -> Exchange:
        """Put one question, again after failures that pass; see `Transport`."""
        started, at = time.monotonic(), time.time()
        error, attempt = "", 0
        answer: Answer | None = None
        while answer is None:
            attempt += 1
            wait, error = await self._try(question, say)
            if isinstance(wait, Answer):
                answer, error = wait, ""
                break
            if wait is None:
                if error:
                    break
                attempt -= 1  # the endpoint takes something else; that was no failure
                continue
            if attempt > self._settings.retries:
                if error.startswith(_UNREACHABLE):
                    raise ModelUnavailable(f"{self.endpoint}: {error}.", "Check base-url and proxy in [llm].")
                error = f"{error} ({attempt} times)" if attempt > 1 else error
                break
            wait = max(wait, 0.0) or backoff(attempt)
            say(f"{error}; asking again in {wait:.1f} s")
            await self._pause(wait)
        sent = {"temperature": self._settings.temperature, "seed": self._settings.seed}
        api = self._apis[0]
        recorded: dict[str, int | float | bool | str | None] = {
            name: None if name in self._without or (name == "seed" and api == "responses") else value
            for name, value in sent.items()
        }
        recorded["stream"] = self._settings.stream
        shape = "text" if api == "responses" else "response_format"
        recorded["structured"] = wants_structure(question, self._settings) and shape not in self._without
        return Exchange(
            question, answer, self.model, self.endpoint, api, recorded, self._redact(error), max(1, attempt),
            time.monotonic() - started, at,
        )  # fmt: skip

    async def close(self) -> None:
        """Close connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _try(self, question: Question, say: Callable[[str], None]) -> tuple[Answer | float | None, str]:
        """Put a question once.

        Returns the answer; or seconds to wait before asking again (0: as long as usual) with the reason; or None with
        the reason when this question fails for good, and with none when it is to be put again at once in another way.
        """
        client = await self._connected()
        import openai

        failed: Exception
        try:
            async with asyncio.timeout(self._settings.timeout):
                return await self._once(client, question, say), ""
        except Exception as error:  # noqa: BLE001 - the HTTP library under the client has errors of its own
            # Judged below, outside of this block: what is raised there must not carry along an exception that holds
            # the request with its key, or words of the endpoint that repeat it.
            failed = error
        if isinstance(failed, openai.APIStatusError):
            return self._status(failed.status_code, failed.response.headers, failed.body, failed.message)
        if isinstance(failed, (TimeoutError, openai.APITimeoutError)):
            return 0.0, f"the endpoint did not answer within {self._settings.timeout:g} s"
        if isinstance(failed, openai.APIConnectionError):
            return 0.0, f"{_UNREACHABLE}: {self._redact(_reason(failed))}"
        if isinstance(failed, BrokenAnswer):
            return 0.0, self._redact(plain(str(failed)))
        if _is_of_http(failed):
            return 0.0, f"the connection broke off ({type(failed).__name__})"
        return None, f"the client refused: {type(failed).__name__}: {self._redact(_short(str(failed)))}"

    async def _once(self, client: AsyncOpenAI, question: Question, say: Callable[[str], None]) -> Answer:
        api, stream = self._apis[0], self._settings.stream
        reading = Reading(question)
        resource: Any = client.responses if api == "responses" else client.chat.completions
        given = parameters(question, self._settings, api, self._without)
        async with resource.with_streaming_response.create(**given, stream=stream) as response:
            kind = response.headers.get("content-type", "")
            pieces = _bytes(response)
            if stream and "json" not in kind:
                async for event in _events(pieces):
                    (reading.response_event if api == "responses" else reading.chat_event)(event)
                    if reading.full:
                        break
                    say(f"{reading.length:,} characters so far")
            else:
                body = _object(b"".join([piece async for piece in pieces]))
                (reading.response if api == "responses" else reading.chat_event)(body)
        return reading.answer()

    def _status(self, status: int, headers: Mapping[str, str], body: object, message: str) -> tuple[float | None, str]:
        """Say what an error status means: see `_try`.

        Raises:
            ModelUnavailable: when it will stay so.
        """
        told = body.get("error", body) if isinstance(body, Mapping) else None
        detail = told if isinstance(told, Mapping) else {}
        said = self._redact(_short(str(detail.get("message") or message)))
        code = str(detail.get("code") or "")
        where = f"{self.endpoint} answered {status}"
        if status in {400, 422, 501}:
            refused = self._refused_parameter(detail, said)
            if refused:
                self._without |= {refused}
                return None, ""
            if "context" in code or re.search(r"context (?:length|window)|too (?:long|many tokens)", said):
                raise ModelUnavailable(f"{where}: {said}.", "Set context-tokens in [llm] to the model's window.")
            return None, f"the endpoint answered {status}: {said}"
        if status in {401, 403}:
            raise ModelUnavailable(f"{where}: the key was refused ({said}).", self._key_mend())
        if status in {404, 405} and len(self._apis) > 1 and "model" not in code:
            self._apis = self._apis[1:]
            return None, ""
        if status in {404, 405}:
            raise ModelUnavailable(f"{where}: {said}.", f"Check model ('{self.model}'), base-url and api in [llm].")
        if status == 402 or code == "insufficient_quota":
            raise ModelUnavailable(f"{where}: {said}.", "The account has no credit left.")
        if 300 <= status < 400:
            what = f"{where}: it redirects to another address, which nobody has agreed to."
            raise ModelUnavailable(what, "Set base-url in [llm] to the address that is meant.")
        if status in _PATIENT or status >= 500:
            wait = retry_after(headers)
            if wait is not None and wait > self._settings.timeout:
                return None, f"the endpoint answered {status} and asks to wait {wait:.0f} s"
            return wait or 0.0, f"the endpoint answered {status}"
        raise ModelUnavailable(f"{where}: {said}.", "Check base-url in [llm].")

    def _refused_parameter(self, detail: Mapping[str, Any], said: str) -> str:
        """Return which optional parameter an endpoint will not take, empty when it says no such thing."""
        named = str(detail.get("param") or "").partition(".")[0]
        if named not in OPTIONAL:
            found = re.search(rf"\b({'|'.join(OPTIONAL[:-1])})\b", said)
            named = found[1] if found else ""
        if named == "max_tokens" and "max_completion_tokens" in self._without:
            return ""
        return named if named and named not in self._without else ""

    async def _connected(self) -> AsyncOpenAI:
        """Return the client, made when first asked for.

        Raises:
            ModelUnavailable: without the package, or without a key where one is needed.
        """
        if self._client is not None:
            return self._client
        openai = await asyncio.to_thread(_package)
        if openai is None:
            raise ModelUnavailable("The engine needs the openai package, which is not installed.", INSTALL)
        key = await asyncio.to_thread(find_key, self._environment, self.endpoint)
        self._redact = Redactor([*self._secrets, key])
        if not key and self._hosted:
            raise ModelUnavailable(f"There is no key for {self.endpoint}.", self._key_mend())
        settings = self._settings
        problem = ""
        try:
            self._client = openai.AsyncOpenAI(
                api_key=key or "none",
                base_url=self._base,
                organization=settings.organization,
                project=settings.project,
                default_headers={"Accept-Encoding": "identity", **self._headers},
                timeout=max(_CONNECT_S, settings.timeout),
                max_retries=0,
                http_client=bounded_client(openai, settings.proxy),
            )
        except (openai.OpenAIError, ValueError, ImportError, TypeError) as error:
            problem = self._redact(_short(str(error)))
        if self._client is None:
            raise ModelUnavailable(f"The client cannot be made: {problem}.", "Check base-url and proxy in [llm].")
        return self._client

    def _key_mend(self) -> str:
        return f"Set {KEY_VARIABLE}, or keep the key with: keyring set {KEYRING_SERVICE} {self.endpoint}."


def plain_endpoint(settings: LlmSettings) -> str:
    """Return the address that code is sent to, without user, password and query: what a person is asked about."""
    base = settings.base_url or DEFAULT_ENDPOINT
    parts = urlsplit(base if _is_address(base) else "")
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, f"{host}{port}", parts.path.rstrip("/"), "", ""))


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and text.isprintable()
    except ValueError:  # a port above 65535, half a bracket
        return False


def is_installed() -> bool:
    """Tell whether the package is there, without importing it."""
    try:
        return importlib.util.find_spec("openai") is not None
    except ValueError:  # somebody has put a stand-in, or nothing, in its place
        return False


def _package() -> Any:
    """Return the package, None where it is not installed."""
    try:
        import openai
    except ImportError:
        return None
    return openai


def _credentials(address: str) -> list[str]:
    parts = urlsplit(address)
    return [one for one in (parts.password, parts.query, parts.netloc.rpartition("@")[0]) if one]


def _reason(error: BaseException) -> str:
    """Return what the network said: the innermost cause, without whatever request it belongs to."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = _short(str(error))
    return text if text and len(text) < 120 else type(error).__name__


def _is_of_http(error: BaseException) -> bool:
    return any(kind.__name__ == "HTTPError" and kind.__module__.startswith("httpx") for kind in type(error).__mro__)


def _short(text: str) -> str:
    return plain(text)[:200].rstrip(".")


async def _bytes(response: Any) -> AsyncIterator[bytes]:
    total = 0
    pieces = response.iter_bytes()
    while total <= MOST_BYTES:
        try:
            piece = await anext(pieces, None)
        except Exception as error:  # noqa: BLE001 - what the HTTP library under the client raises; its name has changed
            if "Timeout" in type(error).__name__:
                raise TimeoutError from None
            raise BrokenAnswer(f"the connection broke off ({type(error).__name__})") from None
        if piece is None:
            return
        total += len(piece)
        yield piece
    raise BrokenAnswer(f"the answer has more than {MOST_BYTES:,} bytes")


async def _events(pieces: AsyncIterator[bytes]) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the objects of server-sent events (HTML standard, 9.2): `data:` lines, an empty line after each event."""
    begun: list[bytes] = []  # of a line that has not ended yet: put together once, however small the pieces
    data: list[bytes] = []
    async for piece in pieces:
        begun.append(piece)
        if b"\n" not in piece:
            continue
        *lines, rest = b"".join(begun).split(b"\n")
        begun = [rest]
        for line in lines:
            line = line.rstrip(b"\r")  # noqa: PLW2901 - a line without its end
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                event, data = b"\n".join(data), []
                if event == b"[DONE]":
                    return
                yield _object(event)
    if data and data != [b"[DONE]"]:
        yield _object(b"\n".join(data))


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BrokenAnswer("the endpoint's answer is no JSON") from None
    if not isinstance(found, Mapping):
        raise BrokenAnswer("the endpoint's answer is no JSON object")
    return found
