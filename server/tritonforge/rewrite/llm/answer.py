"""From what a model wrote to the functions in it: one fenced Python block, or one JSON object that holds the code.

Nothing is run here. Prose is ignored, however long it is; what is not exactly the contract is an `AnswerProblem` whose
sentence goes back to the model.
"""

from __future__ import annotations

import ast
import json
import re
import unicodedata
import warnings
from collections.abc import Callable
from dataclasses import dataclass

MOST_CODE = 60_000
"""Characters of code that are looked at: the longest kernels known have a third of it."""
MOST_NODES = 20_000
_DEPTH = 100
"""How deep a syntax tree may be nested: trees are walked recursively elsewhere."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n]*$", re.MULTILINE)
_PYTHON = frozenset({"python", "py", "python3", "triton"})
_TITLE = re.compile(r"^#\s*title:\s*(.+)$", re.IGNORECASE)

STRUCTURE: dict[str, object] = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "the Python block, without a fence"}},
    "required": ["code"],
    "additionalProperties": False,
}
"""The JSON schema of a structured answer."""


class AnswerProblem(ValueError):
    """Why an answer is no proposal, in one sentence for the model and for people."""


@dataclass(frozen=True)
class Block:
    """The code of an answer: its text, with line feeds alone, and its tree. `title` is its own words for itself."""

    text: str
    tree: ast.Module
    title: str = ""


def read_answer(text: str, *, structured: bool = False, put_back: Callable[[str], str] = str) -> Block:
    """Return the one Python block of an answer; `put_back` puts into its code what a prompt had hidden.

    Raises:
        AnswerProblem: when there is none, or several, or one that is no Python.
    """
    if not text.strip():
        raise AnswerProblem("the answer is empty")
    code = _of_object(text) if structured else None
    if code is None:
        code = _of_fences(text.replace("\r\n", "\n"))
    # Not before: what was hidden may hold a quote or a backslash, which would end or change a JSON text.
    return parse_block(put_back(code))


def _of_object(text: str) -> str | None:
    """Return the code of a structured answer; None where it is not JSON at all, as when the model ignored the wish."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or set(found) != {"code"} or not isinstance(found["code"], str):
        raise AnswerProblem('the JSON answer must be an object with one text, "code"')
    return str(found["code"])


def _of_fences(text: str) -> str:
    blocks: list[tuple[str, str]] = []
    at = 0
    while (opening := _FENCE.search(text, at)) is not None:
        mark = opening[1]
        closing = re.compile(rf"^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE).search(
            text, opening.end()
        )
        if closing is None:
            raise AnswerProblem("the fenced block is not closed: the answer was cut off")
        blocks.append((opening[2].lower(), text[opening.end() + 1 : closing.start()]))
        at = closing.end()
    python = [code for language, code in blocks if language in _PYTHON]
    found = python or [code for language, code in blocks if not language]
    if not found:
        raise AnswerProblem("the answer holds no fenced Python block")
    if len(found) > 1:
        raise AnswerProblem(f"the answer holds {len(found)} fenced Python blocks where one is wanted")
    return found[0]


def parse_block(code: str) -> Block:
    """Return the parsed block.

    Raises:
        AnswerProblem: for what is no Python, or is made to mislead whoever reads it.
    """
    code = code.replace("\r\n", "\n").expandtabs(4)
    if len(code) > MOST_CODE:
        raise AnswerProblem(f"the block has {len(code)} characters; at most {MOST_CODE} are read")
    for character in code:
        # What is invisible or turns the direction of writing shows a reader something else than what runs.
        if character != "\n" and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}:
            raise AnswerProblem(f"the block holds the invisible character U+{ord(character):04X}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        place = f", line {line} of the block" if line else ""
        raise AnswerProblem(
            f"the block is no Python: {getattr(error, 'msg', None) or 'nested too deeply'}{place}"
        ) from error
    _check_size(tree)
    first = code.lstrip().partition("\n")[0]
    title = _TITLE.match(first)
    return Block(code, tree, plain_title(title[1]) if title else "")


def _check_size(tree: ast.Module) -> None:
    level: list[ast.AST] = [tree]
    count = depth = 0
    while level:
        count += len(level)
        depth += 1
        if count > MOST_NODES:
            raise AnswerProblem("the block is too long to be judged")
        if depth > _DEPTH:
            raise AnswerProblem("the block is nested too deeply to be judged")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def plain_title(text: str) -> str:
    """Return a model's title as a few plain words: it is shown in terminals and editors."""
    words = "".join(c if c.isalnum() or c in " -+*/.,()=<>_%" else " " for c in unicodedata.normalize("NFKC", text))
    words = re.sub(r"\s+", " ", words).strip(" .")
    return words if len(words) <= 60 else words[:57].rstrip() + "…"
