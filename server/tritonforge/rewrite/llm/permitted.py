"""The allow-list: which proposals may go on to be compiled. Nothing of a proposal has run when this judges it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tritonforge.rewrite.llm.answer import AnswerProblem, Block
from tritonforge.rewrite.llm.decorators import decorator_problems, parameter_problems
from tritonforge.rewrite.llm.expressions import Problem, Rules
from tritonforge.rewrite.llm.kept import is_kept
from tritonforge.rewrite.llm.original import Original, Replaceable, imported

MOST_HELPERS = 4


@dataclass(frozen=True)
class Permitted:
    """What may be put in place: the functions that replace the original's, by name, and new jit helpers."""

    functions: dict[str, ast.FunctionDef]
    helpers: tuple[ast.FunctionDef, ...] = ()


def permit(block: Block, original: Original) -> Permitted:
    """Return the functions of a block that keeps every rule.

    Raises:
        AnswerProblem: with the first line that does not.
    """
    functions: dict[str, ast.FunctionDef] = {}
    helpers: list[ast.FunctionDef] = []
    for node in block.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _check_import(node, original)
        elif not isinstance(node, ast.FunctionDef):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a text above the functions says nothing and does nothing
            raise _refused(Problem(node.lineno, "holds something other than functions"))
        elif node.name in functions or any(node.name == one.name for one in helpers):
            raise _refused(Problem(node.lineno, f"defines {node.name} twice"))
        elif node.name in original.ambiguous:
            raise _refused(Problem(node.lineno, f"replaces {node.name}, of which the file has several"))
        elif node.name in original.functions:
            functions[node.name] = node
        else:
            helpers.append(node)
    if original.entry.node.name not in functions:
        raise AnswerProblem(f"the block does not define {original.entry.node.name}")
    _check_helpers(helpers, original)
    _check_letters([*functions.values(), *helpers], original)
    added = frozenset(one.name for one in helpers)
    for node in (*functions.values(), *helpers):
        problem = next(_problems(node, original, added), None)
        if problem is not None:
            raise _refused(problem)
    _check_signature(functions, original)
    return Permitted(functions, tuple(helpers))


def _refused(problem: Problem) -> AnswerProblem:
    return AnswerProblem(f"line {problem.line} of the block: the proposal {problem.what}")


def _check_import(node: ast.Import | ast.ImportFrom, original: Original) -> None:
    """Accept an import that the file has already: models repeat them, and nothing is done with it."""
    for pair in imported(node):
        if pair not in original.imports:
            raise _refused(Problem(node.lineno, f"imports {ast.unparse(node).partition('import ')[2]}"))


def _check_helpers(helpers: list[ast.FunctionDef], original: Original) -> None:
    if len(helpers) > MOST_HELPERS:
        raise AnswerProblem(f"the block adds {len(helpers)} functions; at most {MOST_HELPERS} are taken")
    for node in helpers:
        if original.entry.scope.lookup(node.name) is not None or original.index.module.lookup(node.name) is not None:
            raise _refused(
                Problem(node.lineno, f"replaces {node.name}, which is neither the kernel nor its host function")
            )


def _check_letters(functions: list[ast.FunctionDef], original: Original) -> None:
    """Refuse names of foreign letters, but for the original's own: some look like others, and a reader is misled."""
    own = {name for one in original.functions.values() for node in ast.walk(one.node) for name in _names_in(node)}
    for function in functions:
        for node in ast.walk(function):
            for name in _names_in(node):
                if not name.isascii() and name not in own:
                    line = getattr(node, "lineno", function.lineno)
                    raise _refused(Problem(line, f"has the name {ascii(name)[1:-1]}, which is not of plain letters"))


def _names_in(node: ast.AST) -> Iterator[str]:
    for field in ("id", "arg", "attr", "name"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield value


def _problems(node: ast.FunctionDef, original: Original, helpers: frozenset[str]) -> Iterator[Problem]:
    before = original.functions.get(node.name)
    if getattr(node, "type_params", ()):
        yield Problem(node.lineno, "has type parameters")
    if before is not None and before.kind == "host":
        yield from _host(node, before, original, helpers)
        return
    entry = original.entry
    rules = _rules(node, before, original, helpers, (entry,))
    if before is None:
        yield from rules.name_bound(node.name, node.lineno)
    yield from decorator_problems(rules)
    yield from parameter_problems(rules)
    yield from _body(node, before, rules)


def _host(node: ast.FunctionDef, before: Replaceable, original: Original, helpers: frozenset[str]) -> Iterator[Problem]:
    """Judge a host function: it is called as it was, so only its body may differ."""
    same = (
        ast.dump(node.args) == ast.dump(before.node.args)
        and [ast.dump(one) for one in node.decorator_list] == [ast.dump(one) for one in before.node.decorator_list]
        and _dump(node.returns) == _dump(before.node.returns)
    )
    if not same:
        yield Problem(node.lineno, f"changes the parameters or decorators of {node.name}, which others call")
        return
    yield from _body(node, before, _rules(node, before, original, helpers, (original.entry, before)))


def _rules(
    node: ast.FunctionDef,
    before: Replaceable | None,
    original: Original,
    helpers: frozenset[str],
    sources: tuple[Replaceable, ...],
) -> Rules:
    kernel = before is None or before.kind == "kernel"
    return Rules(
        original,
        before,
        node,
        kernel=kernel,
        helpers=helpers,
        scope=(before or original.entry).scope,
        sources=sources if kernel else sources[1:],
        texts=frozenset[str]().union(*(one.texts for one in sources)),
    )


def _body(node: ast.FunctionDef, before: Replaceable | None, rules: Rules) -> Iterator[Problem]:
    for number, statement in enumerate(node.body):
        problem = next(rules.statement(statement), None)
        if problem is not None and not (before is not None and is_kept(before, node, number)):
            yield problem


def _check_signature(functions: dict[str, ast.FunctionDef], original: Original) -> None:
    """Other parameters of the kernel need every function that launches it to change with them."""
    kernel = functions[original.entry.node.name]
    if _names(kernel) == _names(original.entry.node):
        return
    missing = [one.node.name for one in original.hosts if one.node.name not in functions]
    elsewhere = [site.host for site in original.kernel.launch_sites if site.file != original.kernel.file]
    if missing or elsewhere or original.ambiguous:
        name = next(iter([*missing, *sorted(original.ambiguous)]), "code of another file")
        raise AnswerProblem(f"the kernel's parameters differ, but {name} still launches it with those it had")


def _names(node: ast.FunctionDef) -> list[str]:
    return [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def _dump(node: ast.expr | None) -> str:
    return "" if node is None else ast.dump(node)
