"""The engine: asks a model, reads its answers, and hands on what the rules permit as candidates like any other."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence

from tritonforge.config import LlmSettings
from tritonforge.domain.candidate import Candidate, Origin, Trial
from tritonforge.domain.codec import encode
from tritonforge.domain.exchange import Exchange, Question, Usage
from tritonforge.rewrite.diff import edits_between
from tritonforge.rewrite.llm import describing, rules_of_the_game
from tritonforge.rewrite.llm.answer import AnswerProblem, read_answer
from tritonforge.rewrite.llm.limits import Spending
from tritonforge.rewrite.llm.original import Original
from tritonforge.rewrite.llm.privacy import Hiding
from tritonforge.rewrite.llm.prompt import Told, proposal_prompt
from tritonforge.rewrite.llm.proposal import propose_text
from tritonforge.rewrite.llm.sizing import tokens_of
from tritonforge.rewrite.llm.transport import ModelUnavailable, Transport
from tritonforge.rewrite.protocol import Refusal, Task

NAME = "llm"
"""The rewrite that a model's candidates carry, with the exchange that they come from."""
MOST_FAILURES = 3
"""After so many exchanges in a row that brought no answer at all, a model is not asked any more."""


class LlmEngine:
    """Asks one model for one kernel, one proposal a round; limits are the user's.

    Every exchange is kept in `exchanges`, in order, with the id by which candidates name theirs.
    """

    def __init__(
        self,
        transport: Transport,
        settings: LlmSettings,
        *,
        root: str = "",
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`root` is the workspace's folder, which no prompt names. `say` is told what is going on."""
        self._transport = transport
        self._settings = settings
        self._hiding = Hiding(root)
        self._say = say
        self.spending = Spending(settings)
        self.exchanges: dict[str, Exchange] = {}
        self._told: list[Told] = []
        self._waiting: dict[int, str] = {}
        self._failures = 0
        self._gone = ""

    @property
    def origin(self) -> Origin:
        """Return `llm`."""
        return "llm"

    @property
    def model(self) -> str:
        """The model's name."""
        return self._transport.model

    @property
    def over(self) -> str:
        """Why it is not asked any more."""
        return self._gone or self.spending.over()

    @property
    def unavailable(self) -> str:
        """Why asking it anything is of no use any more; empty where it merely has proposed enough."""
        return self._gone

    @property
    def status(self) -> str:
        """How far it is."""
        return f"round {self.spending.rounds} of {self._settings.max_rounds}, {self.spending.words()}"

    async def think(self, task: Task, trials: Sequence[Trial] = ()) -> Candidate | Refusal:
        """Ask for one proposal; see `protocol.Thinker`."""
        self._learn(task, trials)
        if self.over:
            return Refusal(self.over, NAME)
        file, text = task.kernel.file, task.texts.get(task.kernel.file)
        self._hiding.about(file)
        original = await asyncio.to_thread(_original, text, task) if text is not None else None
        if text is None or original is None:
            self._gone = f"{task.kernel.name} cannot be replaced in its file"
            return Refusal(self._gone, NAME)
        question = self._question(task, original, trials)
        if isinstance(question, Refusal):
            return question
        self.spending.rounds += 1
        number = self.spending.rounds
        exchange = await self._ask(question)
        if isinstance(exchange, Refusal):
            return exchange
        key = exchange_id(exchange)
        self.exchanges[key] = exchange
        if exchange.answer is None:
            self._failures += 1
            if self._failures >= MOST_FAILURES:
                self._gone = f"it failed {self._failures} times in a row, the last time because {exchange.error}"
            return self._declined(number, exchange.error, exchange)
        self._failures = 0
        text_of, structured = exchange.answer.text, self._settings.structured_output
        try:
            block = await asyncio.to_thread(read_answer, text_of, structured=structured, put_back=self._hiding.back)
        except AnswerProblem as problem:
            return self._refused(number, "", problem, exchange)
        try:
            proposal = await asyncio.to_thread(propose_text, block, original)
        except AnswerProblem as problem:
            return self._refused(number, block.text, problem, exchange)
        self._waiting[number] = block.text
        what = proposal.title or f"{' and '.join(proposal.changed[-2:])} rewritten"
        return Candidate(
            title=f"{what} (proposal {number} of {self._transport.model})",
            edits=edits_between(file, text, proposal.text),
            rewrites=((NAME, self._parameters(key, number, exchange)),),
            origin="llm",
            treats=tuple(sorted({finding.code for finding in task.findings})),
        )

    def _question(self, task: Task, original: Original, trials: Sequence[Trial]) -> Question | Refusal:
        instructions = rules_of_the_game.PROPOSAL
        if self._settings.structured_output:
            instructions += "\n" + rules_of_the_game.STRUCTURED
        room = self._settings.context_tokens - self._settings.answer_tokens - tokens_of(instructions)
        prompt = proposal_prompt(task, original, trials, self._told, self._hiding, most_tokens=room)
        if prompt is None:
            self._gone = f"{task.kernel.name} is too long for its window of {self._settings.context_tokens:,} tokens"
            return Refusal(self._gone, NAME)
        size = tokens_of(instructions) + tokens_of(prompt.text)
        allowed = self.spending.answer_tokens(size)
        if not allowed:
            self._gone = self.spending.why_none(size)
            return Refusal(self._gone, NAME)
        return Question("proposal", task.kernel.name, instructions, prompt.text, allowed)

    async def _ask(self, question: Question) -> Exchange | Refusal:
        used = Usage(tokens_of(question.instructions) + tokens_of(question.prompt), 0, estimated=True)
        self.spending.begin()
        try:
            async with asyncio.timeout(max(0.1, self.spending.left_s)):
                exchange = await self._transport.ask(question, say=self._say)
            used = exchange.answer.usage if exchange.answer is not None else used
        except ModelUnavailable as error:
            used = Usage()
            self._gone = str(error).rstrip(".")
            return Refusal(f"{self.model}: {error}", NAME)
        except TimeoutError:
            self._gone = f"it took {self.spending.seconds_now:.0f} s (max-seconds)"
            return Refusal(f"{self.model}: {self._gone}.", NAME)
        finally:
            self.spending.end(used)
        return exchange

    def _refused(self, number: int, code: str, problem: AnswerProblem, exchange: Exchange) -> Refusal:
        cut = exchange.answer is not None and exchange.answer.finish == "length"
        why = f"{problem}{'; the answer was cut off at its longest' if cut else ''}"
        self._told.append(Told(number, code, f"refused before anything ran: {why}"))
        return self._declined(number, why, exchange)

    def _declined(self, number: int, why: str, exchange: Exchange) -> Refusal:
        parameters = self._parameters(exchange_id(exchange), number, exchange)
        tried = Candidate(f"proposal {number} of {self.model}", (), ((NAME, parameters),), "llm")
        return Refusal(why, NAME, tried)

    def _parameters(self, key: str, number: int, exchange: Exchange) -> tuple[tuple[str, str], ...]:
        sent = {name: "none" if value is None else str(value) for name, value in exchange.sent.items()}
        return (("exchange", key), ("model", exchange.model), ("proposal", str(number)), *sorted(sent.items()))

    def _learn(self, task: Task, trials: Sequence[Trial]) -> None:
        """Take note of what became of its proposals."""
        for trial in trials:
            which = proposal_number(trial.candidate)
            if which is not None and which in self._waiting:
                code = self._waiting.pop(which)
                self._told.append(Told(which, code, describing.outcome_words(trial, task)))
        # What became of none: it was the same as something tried before.
        for number, code in self._waiting.items():
            self._told.append(Told(number, code, "the same as an earlier version; propose something else"))
        self._waiting.clear()
        self._told.sort(key=lambda one: one.number)

    def summary(self) -> str:
        """Return one sentence for the result: how often it was asked and what that took."""
        spending = self.spending
        why = f"; it was not asked again because {self.over}" if self._gone else ""
        times = "once" if spending.rounds == 1 else f"{spending.rounds} times"
        return f"The model {self.model} at {self._transport.endpoint} was asked {times}: {spending.words()}{why}."


def _original(text: str, task: Task) -> Original | None:
    try:
        return Original(text, task.kernel)
    except (SyntaxError, LookupError, RecursionError):
        return None


def exchange_id(exchange: Exchange) -> str:
    """Return the id of an exchange: a short hash of what was asked and answered."""
    told = json.dumps(encode(dataclasses.replace(exchange, at=0.0, seconds=0.0)), sort_keys=True)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def proposal_number(candidate: Candidate) -> int | None:
    """Return which proposal of a model a candidate is; None where it is none, or was refined since."""
    if candidate.origin == "rule" or not candidate.rewrites or candidate.rewrites[-1][0] != NAME:
        return None
    return next((int(value) for name, value in candidate.rewrites[-1][1] if name == "proposal"), None)
