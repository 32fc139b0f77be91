"""`Exchange`: one question to a language model and its answer, as it is stored and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Union

Purpose = Literal["proposal", "spec", "words"]
"""What is asked for: a faster kernel, a launch spec, or an explanation in plain words."""


@dataclass(frozen=True)
class Question:
    """What a model is asked. `instructions` are the rules of the game, `prompt` what it works on.

    `answer_tokens` bounds the answer. `about` names the kernel, for whoever looks through a recording.
    """

    purpose: Purpose
    about: str
    instructions: str
    prompt: str
    answer_tokens: int


@dataclass(frozen=True)
class Usage:
    """Tokens of one exchange; `estimated` where the endpoint did not count them."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.prompt_tokens + self.answer_tokens


@dataclass(frozen=True)
class Answer:
    """What a model answered. `finish` is `stop`, `length` (cut off at its limit), `refusal`, or what it says else."""

    text: str
    usage: Usage = Usage()
    finish: str = "stop"


@dataclass(frozen=True)
class Exchange:
    """A question with its answer, or with the `error` that came in its place.

    `sent` is every parameter that went along (temperature, seed, …; None: the endpoint would not take it).
    `attempts` is how often it was sent, `seconds` what it took in all, `at` when it was asked (seconds since 1970).
    """

    question: Question
    answer: Union[Answer, None]
    model: str
    endpoint: str
    api: str
    sent: Mapping[str, Union[int, float, bool, str, None]] = field(default_factory=dict)
    error: str = ""
    attempts: int = 1
    seconds: float = 0.0
    at: float = 0.0
