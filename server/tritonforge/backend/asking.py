"""The engines of a search: the rules, and where the user agreed a language model, which also words the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tritonforge.backend.tasks import Optimize, Reported, Said, Tell
from tritonforge.domain.errors import UsageError
from tritonforge.domain.results import OptimizeResult
from tritonforge.rewrite import Engine, Thinker, default_engines
from tritonforge.rewrite.llm.assistant import Assistant, open_assistant
from tritonforge.rewrite.llm.engine import LlmEngine
from tritonforge.store import Store


@dataclass
class Asking:
    """The engines of one search, and afterwards what the model has to say to its result."""

    engines: tuple[Engine | Thinker, ...]
    assistant: Assistant | None = None
    model: LlmEngine | None = None
    words: str = field(default="", init=False)

    async def finished(self, result: OptimizeResult, text: str) -> OptimizeResult:
        """Keep what was asked, and have the result put into plain words."""
        if self.assistant is None or self.model is None:
            return result
        try:
            self.words = await self.assistant.words(self.model, result, text)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None:
                raise
            task.uncancel()  # the search is over, and what it found is kept: only its words are not waited for
        return await self.assistant.kept(self.model, result)


@asynccontextmanager
async def engines(task: Optimize, store_of: Callable[[], Store], tell: Tell) -> AsyncIterator[Asking]:
    """Yield the engines for a search: the rules, and the model where the user agreed. `store_of` may block."""
    assistant = None
    if task.model:
        settings = task.source.settings
        store = await asyncio.to_thread(store_of)
        try:
            assistant = open_assistant(settings.llm, settings.root, store)
        except UsageError as error:
            tell(Said(str(error), warning=True))
    if assistant is None:
        yield Asking(default_engines())
        return
    try:
        engine = assistant.engine(lambda text: tell(Reported(f"{task.kernel.name}: {text}")))
        yield Asking((*default_engines(), engine), assistant, engine)
    finally:
        await assistant.close()
