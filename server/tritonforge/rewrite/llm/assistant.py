"""Everything a model is used for in one workspace, behind one transport: proposals, launch specs, plain words.

Both the command line and the editor build this, and only after the user agreed that code is sent.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from tritonforge.config import LlmSettings
from tritonforge.domain.errors import UsageError
from tritonforge.domain.exchange import Exchange
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.results import OptimizeResult
from tritonforge.rewrite.llm.client import INSTALL, OpenAiTransport, is_installed
from tritonforge.rewrite.llm.engine import NAME, LlmEngine, exchange_id
from tritonforge.rewrite.llm.limits import Spending
from tritonforge.rewrite.llm.privacy import Hiding
from tritonforge.rewrite.llm.recording import Recorded, Recorder, read_recording
from tritonforge.rewrite.llm.specs import draft_spec
from tritonforge.rewrite.llm.transport import Transport
from tritonforge.rewrite.llm.words import explain
from tritonforge.store import Store
from tritonforge.workload.drafting import Draft

FROM_STORE = "store"
"""What `--replay-llm` takes to replay what is kept in the workspace's store."""


class Assistant:
    """One model for one workspace."""

    def __init__(self, settings: LlmSettings, transport: Transport, root: Path, store: Store | None = None) -> None:
        """Keep exchanges in `store`, where one is given."""
        self.settings = settings
        self._transport = transport
        self._root = str(root)
        self._store = store

    @property
    def model(self) -> str:
        """The model's name."""
        return self._transport.model

    @property
    def endpoint(self) -> str:
        """Where code is sent."""
        return self._transport.endpoint

    def engine(self, say: Callable[[str], None] = lambda _: None) -> LlmEngine:
        """Return an engine for one search, with the limits whole."""
        return LlmEngine(self._transport, self.settings, root=self._root, say=say)

    async def finished(self, engine: LlmEngine, result: OptimizeResult, text: str) -> OptimizeResult:
        """Keep what was asked with what became of it; return the result with what the model has to say to it."""
        words = await self.words(engine, result, text)
        result = await self.kept(engine, result)
        if words:
            result = dataclasses.replace(result, notes=(f"In plain words, by {self.model}: {words}", *result.notes))
        return result

    async def words(self, engine: LlmEngine, result: OptimizeResult, text: str) -> str:
        """Return a few plain sentences about a result; empty where there are none to be had."""
        if engine.unavailable or result.stopped_because == "interrupted":
            return ""
        words, exchange = await explain(self._transport, engine.spending, result, text, Hiding(self._root))
        if exchange is not None:
            engine.exchanges[exchange_id(exchange)] = exchange
        return words

    async def kept(self, engine: LlmEngine, result: OptimizeResult) -> OptimizeResult:
        """Keep every exchange of a search with the trial that came of it; return the result with what was spent."""
        await asyncio.to_thread(self._keep, result, engine.exchanges)
        if not engine.spending.rounds and not engine.over:
            return result
        return dataclasses.replace(result, notes=(engine.summary(), *result.notes))

    async def draft(self, text: str, kernel: Kernel, analysis: FileAnalysis) -> Draft | None:
        """Return a model's launch spec for a kernel without one; None where it has none that can be parsed."""
        kept: list[Exchange] = []
        draft = await draft_spec(
            self._transport,
            Spending(self.settings),
            text,
            kernel,
            analysis,
            hiding=Hiding(self._root),
            keep=kept.append,
        )
        if self._store is not None:
            for one in kept:
                await asyncio.to_thread(self._store.put_exchange, kernel.file, kernel.name, exchange_id(one), one, None)
        return draft

    def _keep(self, result: OptimizeResult, exchanges: Mapping[str, Exchange]) -> None:
        if self._store is None:
            return
        trials = {}
        for trial in result.trials:
            for name, parameters in trial.candidate.rewrites:
                if name == NAME:
                    trials[dict(parameters).get("exchange", "")] = trial
        for key, exchange in exchanges.items():
            self._store.put_exchange(result.kernel.file, result.kernel.name, key, exchange, trials.get(key))

    async def close(self) -> None:
        """Let go of connections."""
        await self._transport.close()


def open_assistant(
    settings: LlmSettings,
    root: Path,
    store: Store | None,
    *,
    record: Path | None = None,
    replay: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Assistant:
    """Return the assistant that the settings describe, or one that answers from a recording.

    Args:
        settings: the `[llm]` table.
        root: the workspace's folder, whose name no prompt holds.
        store: where exchanges are kept, and replayed from.
        record: a file to write every exchange to.
        replay: a recording's path, or `store`: nothing is sent anywhere then.
        environment: where the key comes from; the process's own by default.

    Raises:
        UsageError: when no model is named, its client is not installed, or a recording cannot be read or written.
    """
    if replay is not None:
        if replay == FROM_STORE:
            kept = store.exchanges() if store is not None else ()
            if not kept:
                raise UsageError(
                    "The store holds no exchange with a model.", "Run once with --engine llm, or name a file."
                )
            transport: Transport = Recorded(kept, "the store")
        else:
            transport = Recorded(read_recording(Path(replay)), Path(replay).name)
        settings = dataclasses.replace(settings, model=transport.model)
    elif not settings.enabled:
        raise UsageError(
            "No model is named.", 'Set model = "…" under [llm] in tritonforge.toml, or TRITONFORGE_LLM_MODEL.'
        )
    elif not is_installed():
        raise UsageError("The engine needs the openai package, which is not installed.", INSTALL)
    else:
        transport = OpenAiTransport(settings, environment=environment)
    if record is not None:
        transport = Recorder(transport, record)
    return Assistant(settings, transport, root, store)
