"""A question beside the search, such as for a spec or an explanation: put once, and gone without where it fails."""

from __future__ import annotations

import asyncio

from tritonforge.domain.exchange import Exchange, Question, Usage
from tritonforge.rewrite.llm.limits import Spending
from tritonforge.rewrite.llm.sizing import tokens_of
from tritonforge.rewrite.llm.transport import ModelUnavailable, Transport


async def ask_once(transport: Transport, spending: Spending, question: Question, longest_s: float) -> Exchange | None:
    """Return the exchange; None where the model is not to be had, or takes longer than `longest_s` or what is left."""
    used = Usage(tokens_of(question.instructions) + tokens_of(question.prompt), 0, estimated=True)
    spending.begin()
    try:
        async with asyncio.timeout(min(longest_s, spending.left_s)):
            exchange = await transport.ask(question)
        used = exchange.answer.usage if exchange.answer is not None else used
    except (ModelUnavailable, TimeoutError):
        return None
    finally:
        spending.end(used)
    return exchange
