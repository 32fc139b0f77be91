"""`--engine`, `--record-llm`, `--replay-llm`: which engines a search asks. Naming a model's engine is the consent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from tritonforge.cli.running import Progress, Workspace, warn
from tritonforge.cli.selecting import Selected
from tritonforge.domain.errors import NoLaunchKnown, UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.results import OptimizeResult

if TYPE_CHECKING:
    from tritonforge.rewrite import Engine, Thinker
    from tritonforge.rewrite.llm.assistant import Assistant


@dataclass(frozen=True)
class EngineChoice:
    """What the user chose: `rules`, `llm` or `both`, and the recordings that go with a model."""

    name: str = "rules"
    record: Path | None = None
    replay: str | None = None


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the options; the command gets them as one `engine: EngineChoice`."""

    def chosen(engine: str, record_llm: Path | None, replay_llm: str | None, **others: Any) -> Any:
        if engine == "rules" and (record_llm is not None or replay_llm is not None):
            option = "--record-llm" if record_llm is not None else "--replay-llm"
            raise UsageError(f"{option} is about a model.", "Add --engine llm or --engine both.")
        return command(engine=EngineChoice(engine, record_llm, replay_llm), **others)

    chosen.__name__, chosen.__doc__ = command.__name__, command.__doc__
    chosen.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option(
            "--replay-llm", metavar="FILE", help="Take the model's answers from a recording, or 'store'; sends nothing."
        ),
        click.option(
            "--record-llm", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
            help="Write every exchange with the model to a file of JSON Lines.",
        ),
        click.option(
            "--engine", type=click.Choice(["rules", "llm", "both"]), default="rules", show_default=True,
            help="What proposes rewrites. llm and both send the kernel and its host function to the model of [llm].",
        ),
    ):  # fmt: skip
        chosen = option(chosen)
    return chosen


class Engines:
    """The engines of one run of the command; searches may run side by side."""

    def __init__(self, name: str, assistant: Assistant | None, progress: Progress) -> None:
        """`assistant` is None where only rules are asked."""
        self._name = name
        self._assistant = assistant
        self._progress = progress

    def begin(self, kernel: Kernel) -> tuple[Engine | Thinker, ...]:
        """Return the engines for one search; a model's limits begin anew."""
        from tritonforge.rewrite import default_engines

        rules = default_engines() if self._name != "llm" else ()
        if self._assistant is None:
            return rules
        # What an endpoint says is shown as it is, whatever brackets are in it.
        model = self._assistant.engine(lambda text: self._progress.say(escape(f"{kernel.name}: {text}")))
        return (*rules, model)

    async def finished(self, asked: Sequence[Engine | Thinker], result: OptimizeResult, text: str) -> OptimizeResult:
        """Return the result of a search that `asked` these engines of `begin`, with what the model has to say.

        Raises:
            UsageError: when nothing but a model was asked, and it could not be.
        """
        if self._assistant is None:
            return result
        from tritonforge.rewrite.llm.engine import LlmEngine

        model = next((one for one in asked if isinstance(one, LlmEngine)), None)
        if model is None:
            return result
        if self._name == "llm" and model.unavailable and not model.exchanges:
            raise UsageError(f"{model.unavailable}.")
        self._progress.say(f"{result.kernel.name}: the model sums up …")
        return await self._assistant.finished(model, result, text)

    async def with_draft(self, file: Selected, kernel: Kernel, work: Awaitable[OptimizeResult]) -> OptimizeResult:
        """Do `work`; where no launch is known, let the model draft a spec for the user to read and put into the file.

        Raises:
            NoLaunchKnown: as `work` does, with the model's draft as the mend where there is one.
        """
        try:
            return await work
        except NoLaunchKnown as error:
            if self._assistant is None:
                raise
            self._progress.say(f"{kernel.name}: the model drafts a launch spec …")
            draft = await self._assistant.draft(file.text, kernel, file.analysis)
            if draft is None:
                raise
            where = f"{draft.function} (line {draft.line})"
            mend = (
                f"{error.mend}\n{self._assistant.model} drafted this spec, and nothing of it was run: read it, put it "
                f"above {where}, and run again:\n{draft.comment()}"
            )
            raise NoLaunchKnown(error.message, mend.strip()) from None


@asynccontextmanager
async def open_engines(choice: EngineChoice, workspace: Workspace, progress: Progress) -> AsyncIterator[Engines]:
    """Yield the engines that were chosen, and say where code is sent.

    Raises:
        UsageError: when a model is wanted and none is named, or a recording cannot be used.
    """
    if choice.name == "rules":
        yield Engines("rules", None, progress)
        return
    from tritonforge.rewrite.llm.assistant import open_assistant

    assistant = open_assistant(
        workspace.settings.llm, workspace.root, workspace.store, record=choice.record, replay=choice.replay
    )
    if choice.replay is None:
        warn(f"kernels and their host functions are sent to {assistant.model} at {assistant.endpoint}.")
    try:
        yield Engines(choice.name, assistant, progress)
    finally:
        await assistant.close()


def thinking_words(step_thinking: str) -> str:
    """Return what a progress line says of a model that is being asked."""
    return f" · model: {step_thinking}" if step_thinking else ""
