"""Which expressions and statements a proposed function may be made of. What is not listed here is refused.

Inside a kernel it is Triton's language over the kernel's own names. On the host it is arithmetic, allocation, views and
launches. Host code runs in the worker, and under the interpreter kernels do too, so both are judged alike strictly.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tritonforge.analysis.scopes import Scope
from tritonforge.rewrite.llm import vocabulary as words
from tritonforge.rewrite.llm.original import Original, Replaceable, bound_names

_BUILTINS = frozenset(dir(builtins))
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift,
    ast.RShift,
)  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """Something that a proposal may not do; `what` completes "the proposal …"."""

    line: int
    what: str


@dataclass
class Rules:
    """Judges the body of one proposed function.

    `before` is what it replaces (None: a new jit helper); `scope` is where it is defined; `helpers` are the names of
    new jit functions. What the functions `sources` use it may use, and the strings `texts`.
    """

    original: Original
    before: Replaceable | None
    function: ast.FunctionDef
    kernel: bool
    helpers: frozenset[str]
    scope: Scope
    sources: tuple[Replaceable, ...]
    texts: frozenset[str] = frozenset()
    _locals: frozenset[str] = field(init=False)
    _callables: frozenset[str] = field(init=False)
    _used: frozenset[str] = field(init=False)
    _bare: frozenset[str] = field(init=False)
    _paths: frozenset[str] = field(init=False)
    _read: frozenset[str] = field(init=False)
    _called: frozenset[str] = field(init=False)
    _grids: frozenset[str] = field(init=False)
    _launched: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Collect what the function binds itself."""
        self._locals = frozenset(bound_names(self.function))
        self._callables = frozenset(_local_functions(self.function))
        self._used = frozenset[str]().union(*(one.names - one.bound for one in self.sources))
        self._bare = frozenset[str]().union(*(one.bare for one in self.sources))
        self._paths = frozenset[str]().union(*(one.paths for one in self.sources))
        self._read = frozenset[str]().union(*(one.read for one in self.sources))
        self._grids = frozenset[str]().union(*(one.grids for one in self.sources))
        self._called = frozenset[str]().union(*(one.called for one in self.sources))
        self._launched = frozenset[str]().union(*(one.launched for one in self.sources))

    def _is_jit(self, name: str) -> bool:
        return name in self.helpers or self.original.is_jit(name, self.scope)

    def statement(self, node: ast.stmt) -> Iterator[Problem]:
        """Yield what is wrong with a statement and all in it."""
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                return
            case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
                yield from self.expression(value)
            case ast.Return() | ast.Pass() | ast.Break() | ast.Continue():
                return
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from self.target(target)
                yield from self.expression(value)
            case ast.AugAssign(target=target, value=value, op=op):
                yield from self.target(target)
                yield from self.expression(value)
                yield from self._operator(op, value, node.lineno)
            case ast.AnnAssign(target=ast.Name() as target, annotation=annotation, value=value):
                yield from self.target(target)
                yield from self.annotation(annotation)
                if value is not None:
                    yield from self.expression(value)
            case ast.If(test=test, body=body, orelse=other):
                yield from self.expression(test)
                yield from self.block((*body, *other))
            case ast.For(target=target, iter=iterated, body=body, orelse=[]):
                if self.kernel and _written_out(node) > words.LARGEST_UNROLL:
                    yield Problem(node.lineno, f"writes loops out to more than {words.LARGEST_UNROLL} rounds")
                yield from self.target(target)
                yield from self.expression(iterated)
                yield from self.block(body)
            case ast.While(test=test, body=body, orelse=[]) if self.kernel:
                if isinstance(test, ast.Constant):
                    yield Problem(node.lineno, "loops for ever")
                yield from self.expression(test)
                yield from self.block(body)
            case ast.Assert(test=test, msg=message):
                yield from self.expression(test)
                if message is not None and not _is_text(message):
                    yield from self.expression(message)
            case ast.FunctionDef() if not self.kernel:
                yield from self._local_function(node)
            case _:
                yield Problem(node.lineno, f"uses {_NAMES.get(type(node), type(node).__name__)}")

    def block(self, nodes: Iterable[ast.stmt]) -> Iterator[Problem]:
        """Yield what is wrong with statements."""
        for node in nodes:
            yield from self.statement(node)

    def _local_function(self, node: ast.FunctionDef) -> Iterator[Problem]:
        """Judge a function in a host function, as grids are written."""
        if node.decorator_list:
            yield Problem(node.lineno, f"decorates {node.name}")
        if getattr(node, "type_params", ()):
            yield Problem(node.lineno, f"gives {node.name} type parameters")
        yield from self.name_bound(node.name, node.lineno)
        yield from self._signature(node.args, node.lineno)
        if node.returns is not None:
            yield from self.annotation(node.returns)
        if any(isinstance(one, ast.FunctionDef) for one in ast.walk(node) if one is not node):
            yield Problem(node.lineno, f"nests functions in {node.name}")
        yield from self.block(node.body)

    def _signature(self, arguments: ast.arguments, line: int) -> Iterator[Problem]:
        """Judge the parameters of a lambda or a local function: names alone."""
        if arguments.defaults or any(default is not None for default in arguments.kw_defaults):
            yield Problem(line, "computes a default argument")
        if arguments.vararg or arguments.kwarg or arguments.posonlyargs or arguments.kwonlyargs:
            yield Problem(line, "takes any number of arguments")
        for one in arguments.args:
            yield from self.name_bound(one.arg, line)
            if one.annotation is not None:
                yield from self.annotation(one.annotation)

    def target(self, node: ast.expr) -> Iterator[Problem]:
        """Yield what is wrong with assigning to `node`."""
        match node:
            case ast.Name(id=name):
                yield from self.name_bound(name, node.lineno)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    yield from self.target(part)
            case ast.Starred():
                yield Problem(node.lineno, "assigns to a starred name")
            case ast.Attribute():
                yield Problem(node.lineno, f"sets the attribute {ast.unparse(node)}")
            case _:
                yield Problem(node.lineno, f"stores into {ast.unparse(node)[:60]}")

    def name_bound(self, name: str, line: int) -> Iterator[Problem]:
        """Yield what is wrong with giving something of its own the name `name`."""
        if self.before is not None and name in self.before.bound:
            return
        if name.startswith("__"):
            yield Problem(line, f"binds the name {name}")
        elif name in _BUILTINS or name in {"tl", "triton", "torch"} or self.scope.lookup(name) is not None:
            yield Problem(line, f"gives {name} another meaning")

    def annotation(self, node: ast.expr) -> Iterator[Problem]:
        """Yield what is wrong with an annotation: it names a type and computes nothing."""
        if isinstance(node, ast.Constant) and (node.value is None or node.value in {"tl.constexpr", "constexpr"}):
            return
        path = self.original.path(node, self.scope)
        if path in {"triton.language.constexpr", "triton.language.tensor", "torch.Tensor", "torch.dtype"}:
            return
        if isinstance(node, ast.Name) and node.id in {"int", "float", "bool"} and node.id not in self._locals:
            return
        if self.before is not None:
            known = {
                ast.dump(one.annotation) for one in ast.walk(self.before.node)
                if isinstance(one, (ast.arg, ast.AnnAssign)) and one.annotation is not None
            }  # fmt: skip
            if ast.dump(node) in known:
                return
        yield Problem(node.lineno, f"has the annotation {ast.unparse(node)[:60]}")

    def expression(self, node: ast.expr) -> Iterator[Problem]:
        """Yield what is wrong with an expression and all in it."""
        match node:
            case ast.Constant():
                yield from self._constant(node)
            case ast.Name(id=name):
                yield from self._name(name, node.lineno)
            case ast.Attribute():
                yield from self._attribute(node)
            case ast.Call():
                yield from self._call(node)
            case ast.BinOp(left=left, op=op, right=right):
                yield from self.expression(left)
                yield from self.expression(right)
                yield from self._operator(op, right, node.lineno)
                if any(_is_text(one) or isinstance(one, (ast.Tuple, ast.List)) for one in (left, right)) and not (
                    isinstance(op, ast.Add)
                ):
                    yield Problem(node.lineno, "computes with a text or a list")
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.expression(value)
            case ast.UnaryOp(operand=operand):
                yield from self.expression(operand)
            case ast.Compare(left=left, comparators=others):
                for one in (left, *others):
                    if not (_is_text(one) and words.PLAIN_WORD.fullmatch(one.value)):  # type: ignore[attr-defined]
                        yield from self.expression(one)
            case ast.IfExp(test=test, body=body, orelse=other):
                for one in (test, body, other):
                    yield from self.expression(one)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    yield from self.expression(part)
            case ast.Subscript(value=value, slice=index):
                yield from self.expression(value)
                if not (_is_text(index) and words.PLAIN_WORD.fullmatch(index.value)):  # type: ignore[attr-defined]
                    yield from self.expression(index)
            case ast.Slice(lower=lower, upper=upper, step=step):
                for bound in (lower, upper, step):
                    if bound is not None:
                        yield from self.expression(bound)
            case ast.Lambda(args=arguments, body=body) if not self.kernel:
                yield from self._signature(arguments, node.lineno)
                yield from self.expression(body)
            case ast.ListComp(elt=element, generators=clauses) | ast.GeneratorExp(elt=element, generators=clauses) if (
                not self.kernel
            ):
                yield from self.expression(element)
                for clause in clauses:
                    yield from self.target(clause.target)
                    for one in (clause.iter, *clause.ifs):
                        yield from self.expression(one)
                    if clause.is_async:
                        yield Problem(node.lineno, "waits in a comprehension")
            case _:
                yield Problem(node.lineno, f"uses {_NAMES.get(type(node), type(node).__name__)}")

    def _constant(self, node: ast.Constant) -> Iterator[Problem]:
        value = node.value
        if isinstance(value, str):
            if value not in self.texts and not (self.kernel and words.PLAIN_WORD.fullmatch(value)):
                yield Problem(node.lineno, "holds a text that the original does not")
        elif isinstance(value, int) and abs(value) > words.LARGEST_INTEGER:
            yield Problem(node.lineno, "holds a number of more than 64 bits")
        elif isinstance(value, (bytes, complex)):
            yield Problem(node.lineno, f"holds a {type(value).__name__}")

    def _operator(self, op: ast.operator, right: ast.expr, line: int) -> Iterator[Problem]:
        if not isinstance(op, _OPERATORS):
            yield Problem(line, f"uses {'powers' if isinstance(op, ast.Pow) else '@'}")
        elif isinstance(op, ast.LShift) and not self.kernel and not isinstance(right, ast.Constant):
            yield Problem(line, "shifts by a number that is not written out")
        elif isinstance(op, ast.LShift) and any(
            isinstance(one, ast.Constant) and isinstance(one.value, int) and abs(one.value) > words.LARGEST_SHIFT
            for one in ast.walk(right)
        ):
            yield Problem(line, f"shifts by more than {words.LARGEST_SHIFT}")

    def _name(self, name: str, line: int) -> Iterator[Problem]:
        """Judge a name that is read as a value."""
        if name.startswith("__"):
            yield Problem(line, f"uses {name}")
        elif name in self._locals:
            return
        elif self.scope.lookup(name) is None and name in _BUILTINS:
            if name not in (words.KERNEL_BUILTINS if self.kernel else words.HOST_BUILTINS):
                yield Problem(line, f"uses {name}")
        elif self._is_jit(name) or (name in self._used and self._is_value(name)):
            return
        elif self.scope.lookup(name) is None:
            yield Problem(line, f"uses the name {name}, which nothing defines")
        elif not self._is_permitted_path(self.original.path(ast.Name(name, ast.Load()), self.scope)):
            yield Problem(line, f"uses {name}, which the original does not")

    def _is_value(self, name: str) -> bool:
        """Tell whether a name from outside may be read: what could be called may not travel, not even as a grid."""
        if self.kernel and name in self._bare:
            return True
        found = self.scope.lookup(name)
        around = found is not None and found[0].is_function and all(b.kind == "parameter" for b in found[1])
        return around or self.original.is_data(name, self.scope)

    def _is_permitted_path(self, path: str | None) -> bool:
        """Tell whether a canonical path through an import is one of Triton's language or harmless on the host."""
        if path is None:
            return False
        language = path.removeprefix("triton.language.") if path.startswith("triton.language.") else None
        if language is not None:
            return language in words.LANGUAGE or language.removeprefix("math.") in words.MATH
        if path.removeprefix("triton.") in words.TRITON and path.startswith("triton."):
            return True
        if self.kernel:
            return False
        if path.startswith("torch."):
            return path.removeprefix("torch.") in words.TORCH
        return path.startswith("math.") and path.removeprefix("math.") in words.HOST_MATH

    def _attribute(self, node: ast.Attribute, *, called: bool = False) -> Iterator[Problem]:
        """Judge `a.b`, read or called."""
        if node.attr.startswith("_"):
            yield Problem(node.lineno, f"reaches into {node.attr}")
            return
        written = ast.unparse(node)
        root = _root(node)
        if isinstance(root, ast.Name) and root.id not in self._locals:
            path = self.original.path(node, self.scope)
            if path is not None:
                # On the host a call of anything else is judged as a whole statement, by `kept`.
                same = written in (self._paths if self.kernel else self._read) and (self.kernel or not called)
                if not self._is_permitted_path(path) and not same:
                    yield Problem(node.lineno, f"uses {written[:60]}")
                return
            if self.scope.lookup(root.id) is not None:
                if called or written not in self._read:
                    yield Problem(node.lineno, f"uses {written[:60]}, which the original does not")
                return
        if called and isinstance(root, ast.Name) and root.id in {"self", "cls", "ctx"} and not self.kernel:
            yield Problem(node.lineno, f"calls {written[:60]}")
            return
        methods = words.VALUE_METHODS if self.kernel else words.TENSOR_METHODS
        attributes = words.VALUE_ATTRIBUTES if self.kernel else words.TENSOR_ATTRIBUTES
        known = node.attr in (methods if called else attributes | methods)
        if not known and not (written in self._read and not called):
            yield Problem(node.lineno, f"{'calls' if called else 'reads'} .{node.attr}")
        yield from self.expression(node.value)

    def _call(self, node: ast.Call) -> Iterator[Problem]:
        yield from self._callee(node)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                yield Problem(node.lineno, "passes on a starred argument")
            else:
                yield from self._argument(argument, node)
        for keyword in node.keywords:
            if keyword.arg is None:
                yield Problem(node.lineno, "passes on keywords that are not written out")
                continue
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else 0
            factor = value if keyword.arg in {"loop_unroll_factor", "num_stages"} and isinstance(value, int) else 0
            if abs(factor) > words.LARGEST_FACTOR:
                yield Problem(node.lineno, f"sets {keyword.arg} to more than {words.LARGEST_FACTOR}")
            if keyword.arg.startswith("_"):
                yield Problem(node.lineno, f"passes {keyword.arg}")
            elif isinstance(node.func, ast.Name) and keyword.arg not in {"start", "strict"} and not self.kernel:
                # `sorted(…, key=f)` calls f.
                yield Problem(node.lineno, f"passes {keyword.arg} to {node.func.id}")
            yield from self._argument(keyword.value, node)

    def _argument(self, value: ast.expr, call: ast.Call) -> Iterator[Problem]:
        yield from self.expression(value)
        called = ast.unparse(call.func).rpartition(".")[2]
        most = {"range": words.LARGEST_RANGE, "static_range": words.LARGEST_UNROLL}.get(called)
        if most is not None:
            for one in ast.walk(value):
                if isinstance(one, ast.Constant) and isinstance(one.value, int) and abs(one.value) > most:
                    yield Problem(call.lineno, f"goes round a loop more than {most} times")

    def _is_grid(self, node: ast.expr) -> bool:
        """Tell whether an expression is a grid that calls nothing: a launch calls whatever callable it is given."""
        if ast.dump(node) in self._grids and not (isinstance(node, ast.Name) and node.id in self._locals):
            return True
        if isinstance(node, ast.IfExp):
            return self._is_grid(node.body) and self._is_grid(node.orelse)
        if isinstance(node, ast.Name):
            return node.id in self._callables or self._is_bound_to_grids(node)
        return isinstance(node, (ast.Tuple, ast.List, ast.Lambda))

    def _is_bound_to_grids(self, name: ast.Name) -> bool:
        """Tell whether a local name is set to tuples alone, or is a parameter that was a grid before."""
        if name.id in _parameters(self.function):
            return ast.dump(name) in self._grids
        targets = {
            id(target): node.value
            for node in ast.walk(self.function)
            if isinstance(node, ast.Assign)
            for target in node.targets
        }
        own = [n for n in ast.walk(self.function) if isinstance(n, ast.Name) and n.id == name.id]
        stores = [node for node in own if isinstance(node.ctx, ast.Store)]
        tuples = (ast.Tuple, ast.List, ast.Lambda, ast.IfExp)
        return bool(stores) and all(
            isinstance(targets.get(id(node)), tuples) and self._is_grid(targets[id(node)]) for node in stores
        )

    def _callee(self, node: ast.Call) -> Iterator[Problem]:
        match node.func:
            case ast.Name(id=name) if name in self._locals:
                if name not in self._callables:
                    yield Problem(node.lineno, f"calls {name}")
            case ast.Name(id=name) if self.scope.lookup(name) is None and name in _BUILTINS:
                yield from self._name(name, node.lineno)
            case ast.Name(id=name):
                path = self.original.path(node.func, self.scope)
                helper = self.kernel and (self._is_jit(name) or name in self._called)
                if not helper and not self._is_permitted_path(path):
                    yield Problem(node.lineno, f"calls {name}")
            case ast.Attribute() as attribute:
                yield from self._attribute(attribute, called=True)
            case ast.Subscript(value=ast.Name(id=name), slice=grid) if not self.kernel:
                known = self._is_jit(name) or name in self._launched
                if name in self._locals or not known:
                    yield Problem(node.lineno, f"launches {name}")
                if not self._is_grid(grid):
                    yield Problem(node.lineno, f"takes {ast.unparse(grid)[:60]} for a grid")
                yield from self.expression(grid)
                for keyword in node.keywords:
                    if keyword.arg in {"stream", "device", "warmup", "pre_run_hooks", "launch_pdl"}:
                        yield Problem(node.lineno, f"launches with {keyword.arg}")
            case _:
                yield Problem(node.lineno, f"calls {ast.unparse(node.func)[:60]}")


def _written_out(loop: ast.For) -> int:
    """Return how many rounds the compiler writes out for a loop over `static_range` and for those in it."""
    rounds = 1
    match loop.iter:
        case ast.Call(func=ast.Attribute(attr="static_range"), args=arguments):
            bounds = [one.value for one in arguments if isinstance(one, ast.Constant) and isinstance(one.value, int)]
            known = bool(bounds) and len(bounds) == len(arguments)
            first, last = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1]) if known else (0, 0)
            rounds = abs(last - first) // max(1, abs(bounds[2]) if len(bounds) > 2 else 1) if known else 1
    inner = [node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.For)]
    return max(1, rounds) * max(map(_written_out, inner), default=1)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _parameters(function: ast.FunctionDef) -> set[str]:
    return {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _local_functions(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a host function binds to lambdas or functions of its own and to nothing else."""
    made: dict[str, bool] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef) and node is not function:
            made[node.name] = made.get(node.name, True)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    made.setdefault(target.id, True)
    lambdas = {
        id(target)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
        for target in node.targets
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in lambdas:
            made[node.id] = False
        elif isinstance(node, ast.arg):
            made[node.arg] = False
    yield from (name for name, alone in made.items() if alone)


_NAMES: dict[type[ast.AST], str] = {
    ast.JoinedStr: "an f-string", ast.NamedExpr: ":=", ast.Await: "await", ast.Yield: "yield", ast.YieldFrom: "yield",
    ast.Lambda: "a lambda", ast.Dict: "a dict", ast.Set: "a set", ast.DictComp: "a comprehension",
    ast.SetComp: "a comprehension", ast.ListComp: "a comprehension", ast.GeneratorExp: "a comprehension",
    ast.Starred: "a starred expression", ast.Import: "an import", ast.ImportFrom: "an import", ast.Global: "global",
    ast.Nonlocal: "nonlocal", ast.Try: "try", ast.TryStar: "try", ast.With: "with", ast.AsyncWith: "async",
    ast.AsyncFor: "async", ast.AsyncFunctionDef: "async", ast.ClassDef: "a class", ast.FunctionDef: "a nested function",
    ast.Delete: "del", ast.Raise: "raise", ast.Match: "match", ast.While: "while", ast.For: "for … else",
}  # fmt: skip
