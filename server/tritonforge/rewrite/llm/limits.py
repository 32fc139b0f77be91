"""What a search may spend on a model, what it has spent, and how large the next answer may be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tritonforge.config import LlmSettings
from tritonforge.domain.exchange import Usage

LEAST_ANSWER = 256
"""Tokens below which an answer cannot hold a kernel: asking would be wasted."""


@dataclass
class Spending:
    """What went to a model for one search. `seconds` counts only while it was being waited for."""

    settings: LlmSettings
    clock: Callable[[], float] = time.monotonic
    rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    _since: float | None = field(default=None, repr=False)

    def begin(self) -> None:
        """Note that a question is under way."""
        self._since = self.clock()

    def end(self, usage: Usage) -> None:
        """Note that it was answered, or not."""
        self.seconds = self.seconds_now
        self._since = None
        before = self.usage
        self.usage = Usage(
            before.prompt_tokens + usage.prompt_tokens,
            before.answer_tokens + usage.answer_tokens,
            before.estimated or usage.estimated,
        )

    @property
    def seconds_now(self) -> float:
        """Seconds waited, the question under way included."""
        return self.seconds + (self.clock() - self._since if self._since is not None else 0.0)

    @property
    def left_s(self) -> float:
        """Seconds that may still be waited."""
        return self.settings.max_seconds - self.seconds_now

    @property
    def cost(self) -> float | None:
        """What it cost so far, by the prices that the user has set; None without them."""
        if self.settings.input_price is None or self.settings.output_price is None:
            return None
        used = self.usage
        return (used.prompt_tokens * self.settings.input_price + used.answer_tokens * self.settings.output_price) / 1e6

    def answer_tokens(self, prompt_tokens: int) -> int:
        """Return how long an answer to such a prompt may be so that no limit is passed; 0: it must not be asked."""
        settings = self.settings
        room = min(
            settings.answer_tokens,
            settings.context_tokens - prompt_tokens,
            settings.max_tokens - self.usage.tokens - prompt_tokens,
        )
        cost = self.cost
        if settings.max_cost is not None and cost is not None:
            assert settings.input_price is not None
            assert settings.output_price is not None
            left = (settings.max_cost - cost) * 1e6 - prompt_tokens * settings.input_price
            room = min(room, int(left / settings.output_price) if settings.output_price else room if left >= 0 else 0)
        return room if room >= min(LEAST_ANSWER, settings.answer_tokens) else 0

    def over(self) -> str:
        """Say which limit is reached, as a clause; empty while none is."""
        settings = self.settings
        if self.rounds >= settings.max_rounds:
            return f"it was asked {self.rounds} times (max-rounds)"
        if self.left_s <= 0:
            return f"it took {self.seconds_now:.0f} s (max-seconds)"
        if self.usage.tokens >= settings.max_tokens:
            return f"{self.usage.tokens:,} tokens were spent (max-tokens)"
        cost = self.cost
        if settings.max_cost is not None and cost is not None and cost >= settings.max_cost:
            return f"it cost {cost:.4g} (max-cost)"
        return ""

    def why_none(self, prompt_tokens: int) -> str:
        """Say why an answer to such a prompt would pass a limit."""
        settings = self.settings
        if settings.context_tokens - prompt_tokens < LEAST_ANSWER:
            return "the question does not fit its window (context-tokens)"
        if settings.max_tokens - self.usage.tokens - prompt_tokens < LEAST_ANSWER:
            return f"the next question would pass {settings.max_tokens:,} tokens (max-tokens)"
        return f"the next question would cost more than {settings.max_cost:.4g} in all (max-cost)"

    def words(self) -> str:
        """Return what was spent, in short."""
        parts = [f"{'about ' if self.usage.estimated else ''}{self.usage.tokens:,} tokens"]
        if self.cost is not None:
            parts.append(f"cost {self.cost:.4f}")
        parts.append(f"{self.seconds_now:.0f} s")
        return ", ".join(parts)
