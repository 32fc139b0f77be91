"""The two APIs: what is sent for a question, and how an answer is read off what comes back, whole or streamed.

Bodies are read as plain data, not as the client's classes: servers that speak the API leave fields out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tritonforge.config import LlmSettings
from tritonforge.domain.exchange import Answer, Question, Usage
from tritonforge.rewrite.llm.answer import STRUCTURE
from tritonforge.rewrite.llm.sizing import tokens_of

LONGEST_ANSWER = 1_000_000
"""Characters after which an answer is not read any further."""
_MOST_TOKENS = 1 << 40
OPTIONAL = (
    "temperature", "seed", "stream_options", "response_format", "text", "store", "max_tokens", "max_completion_tokens",
    "instructions",
)  # fmt: skip
"""Parameters that some endpoint refuses; a question is put again without the one that it names."""


class BrokenAnswer(Exception):
    """What came back is not an answer; asking again may help. The text says what it is."""


def wants_structure(question: Question, settings: LlmSettings) -> bool:
    """Tell whether an answer is asked for as a JSON object: a proposal may be, specs and words never are."""
    return settings.structured_output and question.purpose == "proposal"


def plain(text: str) -> str:
    """Return an endpoint's words on one line, without what would steer a terminal or a log."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def parameters(question: Question, settings: LlmSettings, api: str, without: frozenset[str]) -> dict[str, Any]:
    """Return what is sent for a question, less the parameters that this endpoint does not take."""
    structured = wants_structure(question, settings)
    schema = {"name": "proposal", "schema": STRUCTURE, "strict": True}
    if api == "responses":
        found: dict[str, Any] = {
            "model": settings.model,
            "instructions": question.instructions,
            "input": question.prompt,
            "max_output_tokens": question.answer_tokens,
            "store": False,
        }
        if structured:
            found["text"] = {"format": {"type": "json_schema", **schema}}
        if "instructions" in without:
            found["input"] = f"{question.instructions}\n\n{question.prompt}"
    else:
        limit = "max_completion_tokens" if "max_tokens" in without else "max_tokens"
        found = {
            "model": settings.model,
            "messages": [
                {"role": "system", "content": question.instructions},
                {"role": "user", "content": question.prompt},
            ],
            limit: question.answer_tokens,
            "seed": settings.seed,
        }
        if structured:
            found["response_format"] = {"type": "json_schema", "json_schema": schema}
        if settings.stream:
            found["stream_options"] = {"include_usage": True}
    found["temperature"] = settings.temperature
    return {name: value for name, value in found.items() if value is not None and name not in without}


@dataclass
class Reading:
    """An answer as it arrives."""

    question: Question
    parts: list[str] = field(default_factory=list)
    length: int = 0
    finish: str = ""
    used: Usage | None = None

    def add(self, text: Any) -> None:
        """Take a piece of text over."""
        if isinstance(text, str):
            self.parts.append(text)
            self.length += len(text)

    @property
    def full(self) -> bool:
        """Whether it is longer than anything of use."""
        return self.length > LONGEST_ANSWER

    def answer(self) -> Answer:
        """Return the whole.

        Raises:
            BrokenAnswer: when it broke off.
        """
        if not self.finish and not self.full:
            raise BrokenAnswer("the answer broke off")
        text = "".join(self.parts)[:LONGEST_ANSWER]
        asked = tokens_of(self.question.instructions) + tokens_of(self.question.prompt)
        usage = self.used or Usage(asked, tokens_of(text), estimated=True)
        return Answer(text, usage, "length" if self.full else plain(self.finish)[:40])

    def chat_event(self, event: Mapping[str, Any]) -> None:
        """Read one chunk of a streamed chat completion, or a whole one."""
        if event.get("error"):
            raise BrokenAnswer(f"the endpoint said: {_message(event['error'])}")
        self.used = _usage(event.get("usage"), "prompt_tokens", "completion_tokens") or self.used
        for choice in _list(event.get("choices"))[:1]:
            piece = _table(choice.get("delta") or choice.get("message"))
            self.add(piece.get("content"))
            if piece.get("refusal"):
                self.finish = "refusal"
            if choice.get("finish_reason"):
                self.finish = self.finish if self.finish == "refusal" else str(choice["finish_reason"])

    def response_event(self, event: Mapping[str, Any]) -> None:
        """Read one event of a streamed response."""
        kind = event.get("type")
        if kind == "response.output_text.delta":
            self.add(event.get("delta"))
        elif kind == "response.refusal.delta":
            self.finish = "refusal"
        elif kind in {"response.completed", "response.incomplete"}:
            self.response(_table(event.get("response")), text=not self.parts)
        elif kind in {"response.failed", "error"}:
            failed = _table(event.get("response")).get("error") or event
            raise BrokenAnswer(f"the endpoint said: {_message(failed)}")

    def response(self, body: Mapping[str, Any], *, text: bool = True) -> None:
        """Read a whole response; its `text` only where no piece of it came before."""
        if body.get("error"):
            raise BrokenAnswer(f"the endpoint said: {_message(body['error'])}")
        self.used = _usage(body.get("usage"), "input_tokens", "output_tokens") or self.used
        for item in _list(body.get("output")):
            for part in _list(item.get("content")):
                if part.get("type") == "output_text" and text:
                    self.add(part.get("text"))
                elif part.get("type") == "refusal":
                    self.finish = "refusal"
        status = body.get("status")
        if status == "incomplete":
            reason = _table(body.get("incomplete_details")).get("reason")
            self.finish = "length" if reason == "max_output_tokens" else str(reason or "incomplete")
        elif status == "completed" or (status is None and body.get("output") is not None):
            self.finish = self.finish or "stop"


def _usage(found: Any, prompt: str, answer: str) -> Usage | None:
    if not isinstance(found, Mapping):
        return None
    counts = [found.get(prompt), found.get(answer)]
    if not all(type(one) is int and 0 <= one <= _MOST_TOKENS for one in counts):
        return None
    return Usage(int(counts[0] or 0), int(counts[1] or 0))


def _list(found: Any) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _table(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _message(found: Any) -> str:
    text = found.get("message") if isinstance(found, Mapping) else found
    return plain(str(text or "an error without a message"))[:200]
