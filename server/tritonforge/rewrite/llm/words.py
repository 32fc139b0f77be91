"""What a model says in plain words: a bottleneck named, a suggestion explained. Shown beside facts, never instead."""

from __future__ import annotations

import re
import unicodedata

from tritonforge.domain.exchange import Exchange, Question
from tritonforge.domain.results import OptimizeResult
from tritonforge.report import wording
from tritonforge.rewrite.llm import rules_of_the_game
from tritonforge.rewrite.llm.asking import ask_once
from tritonforge.rewrite.llm.describing import finding_words
from tritonforge.rewrite.llm.limits import Spending
from tritonforge.rewrite.llm.privacy import Hiding
from tritonforge.rewrite.llm.sizing import Section, fitted, joined, tokens_of
from tritonforge.rewrite.llm.transport import Transport

MOST_WORDS = 480
"""Characters of an explanation that are shown."""
ANSWER_TOKENS = 400
LONGEST_S = 30.0

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|<?\b[a-z][a-z0-9+.-]*://\S+>?|\bwww\.\S+", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_FENCE = re.compile(r"(`{3,}|~{3,}).*?(?:\1|$)", re.DOTALL)


async def explain(
    transport: Transport, spending: Spending, result: OptimizeResult, text: str, hiding: Hiding
) -> tuple[str, Exchange | None]:
    """Return a few plain sentences about a result, empty where there are none to be had; and the exchange.

    `text` is the file's as it was optimised. Never raises but for a cancellation.
    """
    hiding.about(result.kernel.file)
    prompt = fitted(_sections(result, text, hiding), spending.settings.context_tokens - 2 * ANSWER_TOKENS)
    if prompt is None or spending.left_s <= 0:
        return "", None
    asked = joined(prompt[0])
    size = tokens_of(asked) + tokens_of(rules_of_the_game.WORDS)
    if spending.answer_tokens(size) < ANSWER_TOKENS:
        return "", None
    question = Question("words", result.kernel.name, rules_of_the_game.WORDS, asked, ANSWER_TOKENS)
    exchange = await ask_once(transport, spending, question, LONGEST_S)
    answer = exchange.answer if exchange is not None else None
    return (plain_words(answer.text) if answer is not None else ""), exchange


def _sections(result: OptimizeResult, text: str, hiding: Hiding) -> list[Section]:
    lines = text.splitlines()
    kernel = result.kernel
    source = "\n".join(lines[kernel.range.start.line - 1 : kernel.range.end.line])
    facts = [f"- target: {result.target.gpu or result.target.name}"]
    for launch in result.launches[:2]:
        time = result.baseline_us.get(launch.id)
        facts.append(f"- launch: {wording.problem(launch)}; {wording.time_us(time)} {result.provenance}")
    facts += [f"- bottleneck {one.kind}: {one.reason}" for one in result.bottlenecks[:1]]
    out = [
        Section("kernel", f"# The kernel {kernel.name}\n\n````python\n{hiding.code(source)}\n````"),
        Section("facts", "# Facts\n\n" + hiding.words("\n".join(facts))),
        Section(
            "findings", "# Findings\n\n" + finding_words(result.findings, lines, hiding) if result.findings else ""
        ),
    ]
    best = result.best
    if best is not None:
        title = f"{best.trial.candidate.title}: {wording.factor(best.speedup)} faster, {best.provenance}"
        body = "\n".join(line for line in best.diff.splitlines() if not line.startswith(("--- ", "+++ ")))
        out.append(
            Section(
                "change",
                f"# The verified change\n\n{hiding.words(title)}\n\n````diff\n{hiding.code(body, part=True)}\n````",
            )
        )
    return out


def plain_words(text: str) -> str:
    """Return a model's words as one short plain paragraph: no markup, no links, no control characters."""
    text = _FENCE.sub(" ", text)
    text = _LINK.sub(lambda found: found[1] or "", text)
    text = _TAG.sub("", text)
    text = "".join(
        " " if c.isspace() else c
        for c in text
        if c.isspace() or unicodedata.category(c) not in {"Cc", "Cf", "Co", "Cs"}
    )
    text = re.sub(r"[*_`#>|\[\]<]+", "", text)
    text = re.sub(r"\s+", " ", text).strip()
    if len(text) <= MOST_WORDS:
        return text
    cut = text[:MOST_WORDS]
    end = max(cut.rfind(mark) for mark in (". ", "! ", "? "))
    return cut[: end + 1] if end > MOST_WORDS // 3 else cut.rstrip() + "…"
