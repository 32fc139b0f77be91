"""From permitted functions to an exact edit of the file: what was judged is what is put in place, and nothing else."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite.llm.answer import AnswerProblem, Block
from tritonforge.rewrite.llm.original import Original, Replaceable, indented
from tritonforge.rewrite.llm.permitted import Permitted, permit


@dataclass(frozen=True)
class Proposal:
    """The text that a proposal makes of a file, and which functions of it differ."""

    text: str
    changed: tuple[str, ...]
    title: str = ""


def propose_text(block: Block, original: Original) -> Proposal:
    """Return the file with the functions of a block in place of its own.

    Raises:
        AnswerProblem: when the block breaks a rule, or changes nothing.
    """
    permitted = permit(block, original)
    edits: list[Edit] = []
    changed: list[str] = []
    for name, node in permitted.functions.items():
        before = original.functions[name]
        more = permitted.helpers if before.kind == "kernel" else ()
        if ast.dump(node) == ast.dump(before.node) and not more:
            continue
        parts = [_text_of(block, one, before.indent) for one in (*more, node)]
        text = f"\n\n\n{before.indent}".join(parts).replace("\n", original.source.newline)
        edits.append(Edit(original.source.file, before.start, before.end, text))
        changed += [one.name for one in (*more, node)]
    if not edits:
        raise AnswerProblem("the proposal changes nothing")
    text = apply_edits(original.source.text, tuple(edits))
    _check_result(text, original, permitted)
    return Proposal(text, tuple(changed), block.title)


def _text_of(block: Block, node: ast.FunctionDef, indent: str) -> str:
    """Return a function of the block with its decorators, ready to stand behind `indent`."""
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    lines = block.text.split("\n")[first - 1 : node.end_lineno]
    lines[-1] = lines[-1].encode("utf-8")[: node.end_col_offset].decode("utf-8")
    return indented("\n".join(lines), indent, node)


def _check_result(text: str, original: Original, permitted: Permitted) -> None:
    """Check that the new file is the old one but for functions that are, tree for tree, those that were judged."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise AnswerProblem(f"the file is no Python with the proposal in it: {error.msg}") from error
    wanted = _Replaced(original, permitted).visit(ast.parse(original.source.text))
    if ast.dump(tree) != ast.dump(wanted):
        raise AnswerProblem("the proposal cannot be put in place exactly")


class _Replaced(ast.NodeTransformer):
    """Puts judged functions into the original's tree, to be compared with the tree of the edited text."""

    def __init__(self, original: Original, permitted: Permitted) -> None:
        self._by_place: dict[tuple[int, int], Replaceable] = {
            (one.node.lineno, one.node.col_offset): one for one in original.functions.values()
        }
        self._permitted = permitted

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | list[ast.AST]:
        """Replace a function of the original by the one that was judged."""
        known = self._by_place.get((node.lineno, node.col_offset))
        new = self._permitted.functions.get(node.name) if known is not None else None
        if known is None or new is None:
            return self.generic_visit(node)
        return [*self._permitted.helpers, new] if known.kind == "kernel" else new
