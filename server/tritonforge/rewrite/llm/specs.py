"""A launch spec from a model, for a kernel that has none. It is parsed and never run: a person sees it first."""

from __future__ import annotations

import re
from collections.abc import Callable

from tritonforge.domain.errors import UsageError
from tritonforge.domain.exchange import Exchange, Question
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.launch import Tensor, tensors_of
from tritonforge.rewrite.llm import rules_of_the_game
from tritonforge.rewrite.llm.answer import AnswerProblem
from tritonforge.rewrite.llm.asking import ask_once
from tritonforge.rewrite.llm.limits import Spending
from tritonforge.rewrite.llm.original import Original
from tritonforge.rewrite.llm.privacy import Hiding
from tritonforge.rewrite.llm.prompt import constant_lines
from tritonforge.rewrite.llm.sizing import Section, fitted, joined, tokens_of
from tritonforge.rewrite.llm.transport import Transport
from tritonforge.workload.drafting import Draft, first_spec
from tritonforge.workload.specified import hosts_of
from tritonforge.workload.specs import parse_specs

TRIES = 2
ANSWER_TOKENS = 600
LONGEST_S = 30.0
MOST_BYTES = 4 << 30
_BLOCK = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n]*\n(.*?)\n[ \t]*(?:`{3,}|~{3,})[ \t]*$", re.DOTALL | re.MULTILINE)
_HEAD = re.compile(r"^\s*#?\s*(?:tritonforge\s*:)?\s*(?:launch\b)?\s*", re.IGNORECASE)


async def draft_spec(
    transport: Transport,
    spending: Spending,
    text: str,
    kernel: Kernel,
    analysis: FileAnalysis,
    *,
    hiding: Hiding,
    keep: Callable[[Exchange], None] = lambda _: None,
) -> Draft | None:
    """Return a model's spec for what launches `kernel`, where the rule-made one belongs; None where none is any good.

    Never raises but for a cancellation.
    """
    hiding.about(kernel.file)
    rule = first_spec(kernel, analysis)
    try:
        original = Original(text, kernel)
    except (SyntaxError, LookupError, RecursionError):
        return None
    problem = ""
    for _ in range(TRIES):
        question = _question(original, rule, hiding, problem, spending)
        exchange = await ask_once(transport, spending, question, LONGEST_S) if question is not None else None
        if exchange is None:
            return None
        keep(exchange)
        if exchange.answer is None:
            return None
        try:
            words = read_spec(exchange.answer.text)
            check_spec(words, rule, kernel, analysis)
        except (AnswerProblem, UsageError) as error:
            problem = hiding.words(str(error))
        else:
            return Draft(words, rule.function, rule.line, rule.subject)
    return None


def read_spec(text: str) -> str:
    """Return the words of a spec in an answer: one fenced block, or one line that is nothing else.

    Raises:
        AnswerProblem: when there is no such thing.
    """
    found = _BLOCK.findall(text.replace("\r\n", "\n"))
    if len(found) > 1:
        raise AnswerProblem(f"the answer holds {len(found)} fenced blocks where one is wanted")
    body = found[0] if found else text.strip()
    if not found and "\n" in body:
        raise AnswerProblem("the answer holds no fenced block")
    words = " ".join(_HEAD.sub("", line) for line in body.split("\n") if line.strip())
    if not words.strip():
        raise AnswerProblem("the answer is empty")
    if len(words) > 2000 or not words.isprintable():
        raise AnswerProblem("the answer is no launch spec")
    return " ".join(words.split())


def check_spec(words: str, rule: Draft, kernel: Kernel, analysis: FileAnalysis) -> None:
    """Check that a spec can be parsed and is of a size that a machine can hold.

    Raises:
        UsageError: with the place that is wrong.
    """
    host = next((one for one in hosts_of(kernel, analysis) if one.name == rule.function), None)
    calls = parse_specs(
        words,
        file=analysis.file,
        function=rule.function,
        host=host if rule.subject == "function" else None,
        kernel=kernel if rule.subject == "kernel" else None,
    )
    for call in calls:
        tensors = [t for value in (*call.arguments, *(v for _, v in call.keywords)) for t in tensors_of(value)]
        size = sum(_bytes(tensor) for tensor in tensors)
        if size > MOST_BYTES:
            raise UsageError(f"the arguments take {size / 2**30:.1f} GiB.", "Choose smaller sizes.")


def _bytes(tensor: Tensor) -> int:
    width = re.search(r"(\d+)", tensor.dtype)
    return tensor.span * max(1, int(width[1]) // 8 if width else 1)


def _question(original: Original, rule: Draft, hiding: Hiding, problem: str, spending: Spending) -> Question | None:
    functions = [original.entry, *original.hosts]
    source = "\n\n\n".join(["\n".join(constant_lines(original)), *map(original.segment, functions)])
    parts = [
        Section("source", f"# The source\n\n````python\n{hiding.code(source)}\n````"),
        Section("wish", f"Write the launch spec that belongs above {rule.function}."),
        Section("rule", f"A first guess, whose sizes may be wrong: {hiding.words(rule.text)}"),
        Section("problem", f"Your last answer was refused: {problem}" if problem else ""),
    ]
    found = fitted(parts, spending.settings.context_tokens - 2 * ANSWER_TOKENS)
    if found is None or spending.left_s <= 0:
        return None
    prompt = joined(found[0])
    size = tokens_of(prompt) + tokens_of(rules_of_the_game.SPEC)
    if spending.answer_tokens(size) < ANSWER_TOKENS:
        return None
    return Question("spec", original.kernel.name, rules_of_the_game.SPEC, prompt, ANSWER_TOKENS)
