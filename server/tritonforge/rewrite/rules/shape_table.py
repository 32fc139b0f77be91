"""Values by size in the host code, for launches of one place that are the fastest with different values.

An autotuner's list needs no sizes, but not every kernel can have one: a kernel that changes what it reads cannot be run
many times, and no key tells launches apart whose sizes are in the grid or in strides alone. Then the host function asks
for the size itself:

    if n <= 4096:
        BLOCK, num_warps = 256, 2
    else:
        BLOCK, num_warps = 1024, 8
    add_kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK, num_warps=num_warps)

Preconditions: the kernel has no autotuner (a launch of it may not give values); all launches are made at one place, in
a function; each value stands in that function, in a constant of the module that only it reads, or as the kernel's
default, as launch parameters need it, too; one size, which the function knows in front of the first use of a value,
puts the launches into at most four runs with one set of values each.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tritonforge.domain.candidate import Candidate
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch, Scalar, Tensor
from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite.diff import edits_between
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.keyword_arguments import insert_keywords
from tritonforge.rewrite.rules.launch_parameters import rewrite_launch
from tritonforge.rewrite.rules.launch_values import (
    COMPILER_DEFAULTS,
    LaunchNode,
    Refused,
    integer,
    launches_in,
    node_of_site,
)
from tritonforge.rewrite.scopes import Scopes, read
from tritonforge.rewrite.structural.layout import fitted

NAME = "shape-table"
MOST_ROWS = 4
"""Rows of a table: more of them are noise of the measurement more often than not."""
_FIRST_MARK = 910_000_001
_SAID_OF_TENSORS = frozenset({"numel", "size", "dim", "nelement", "len"})

Found = Sequence[tuple[Launch, Mapping[str, int]]]


@dataclass(frozen=True)
class _Key:
    """What the host function calls a size, and the size at each launch."""

    words: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class _Row:
    """Values for sizes up to `most`, the last row's being infinite."""

    most: float
    values: tuple[int, ...]


def shape_table(kernel: Kernel, texts: Mapping[str, str], found: Found) -> Candidate | Refusal:
    """Return the edits that choose values by size in front of the launch.

    Args:
        kernel: as `texts` have it.
        texts: the workspace's files by their names.
        found: every recorded launch with the values that are its fastest; none for those it runs with.
    """
    try:
        table = _Table(kernel, texts, found)
        final = table.text()
    except Refused as refused:
        return Refusal(f"{refused}.".replace("..", "."), NAME)
    except SyntaxError as error:
        return Refusal(f"{kernel.file} cannot be parsed: {error.msg} at line {error.lineno}.", NAME)
    edits = edits_between(table.source.file, table.source.text, final)
    shown = "; ".join(
        f"{f'up to {row.most}' if math.isfinite(row.most) else 'above'}: "
        + ", ".join(f"{name}={value}" for name, value in zip(table.names, row.values, strict=True))
        for row in table.rows
    )
    # Which values stand in the table is said in the title; as parameters they would be taken for those of one launch.
    return Candidate(f"values by {table.key.words} ({shown})", edits, ((NAME, (("by", table.key.words),)),), "rule")


class _Table:
    def __init__(self, kernel: Kernel, texts: Mapping[str, str], found: Found) -> None:
        self.kernel = kernel
        if kernel.autotune is not None:
            raise Refused(f"{kernel.name} is autotuned, and a launch of it may give no values")
        order = {p.name: p.index for p in kernel.parameters}
        wanted = {name for _, values in found for name in values}
        names = sorted(wanted, key=lambda n: (order.get(n, len(order)), n != "num_warps", n))
        every = [_values(launch, values, names) for launch, values in found]
        if len(set(every)) < 2:
            raise Refused("every launch is fastest with the same values")
        places = {(one.call_site.file, one.call_site.line) for one, _ in found}
        if len(places) > 1:
            raise Refused("the launches are made in several places")
        self.launches = [launch for launch, _ in found]
        file = self.launches[0].call_site.file
        if file not in texts:
            raise Refused(f"the text of {file} is not at hand")
        self.source, self.scopes = read(file, texts[file])
        self.marks = {name: _FIRST_MARK + number for number, name in enumerate(names)}
        if any(str(mark) in text for mark in self.marks.values() for text in texts.values()):
            raise Refused("the file has numbers that would be mistaken")
        marked = rewrite_launch(kernel, texts, self.marks, self.launches[0], in_branches=False)
        if isinstance(marked, Refusal):
            raise Refused(marked.reason.rstrip("."))
        self.constants: dict[str, str] = {}
        self.place = self._place()
        inside = self._inside(marked.edits)
        self.after, self.after_scopes = read(file, apply_edits(self.source.text, inside))
        self.node = launches_in(self.after_scopes)[self.place]
        # The same for every size: set as it is, and no column of the table.
        self.fixed = {name: every[0][at] for at, name in enumerate(names) if len({row[at] for row in every}) == 1}
        self.names = [name for name in names if name not in self.fixed]
        columns = [at for at, name in enumerate(names) if name in self.names]
        self.every = [tuple(row[at] for at in columns) for row in every]
        self.first = self._first_use()
        self.key, self.rows = self._best_key()

    def _place(self) -> int:
        """Return which of the file's launches it is."""
        nodes = launches_in(self.scopes)
        line = self.launches[0].call_site.line
        sites = [s for s in self.kernel.launch_sites if s.file == self.source.file]
        own = [n for s in sites for n in [node_of_site(self.source, nodes, s)] if n is not None]
        at = [n for n in own if n.call.lineno <= line <= (n.call.end_lineno or 0)] or own
        if len(at) != 1:
            raise Refused(f"which launch of {self.kernel.name} was recorded cannot be told")
        if at[0].host is None:
            raise Refused("the launch stands in no function, which could ask for sizes")
        return nodes.index(at[0])

    @property
    def _before(self) -> LaunchNode:
        return launches_in(self.scopes)[self.place]

    def _inside(self, edits: Sequence[Edit]) -> tuple[Edit, ...]:
        """Return the edits in the function that launches; notes which values a constant or the kernel's default sets.

        Raises:
            Refused: a value stands where no size is known.
        """
        source, host = self.source, self._before.host
        assert host is not None
        start, end = source.line_starts[host.lineno - 1], source.span(host)[1]
        body = source.span(host.body[0])[0]
        comments = [(a, b) for _, a, b, said in source.tokens if said.startswith("#")]
        name_of = {str(mark): name for name, mark in self.marks.items()}
        kept = []
        for edit in edits:
            if edit.file == source.file and any(a <= edit.start and edit.end <= b for a, b in comments):
                continue
            if edit.file == source.file and body <= edit.start and edit.end <= end:
                kept.append(edit)
                continue
            name = name_of.get(edit.text)
            if name is None or (edit.file == source.file and start <= edit.start < body):
                raise Refused("a value is set by who calls the function, or where no size is known")
            self.constants[name] = self._constant(edit) if edit.file == source.file else ""
        return tuple(kept)

    def _constant(self, edit: Edit) -> str:
        """Return the module's constant that an edit sets; empty where it sets the kernel's default.

        Raises:
            Refused: it is neither, or something else reads the constant.
        """
        for node in self.scopes.nodes:
            if isinstance(node, ast.expr) and integer(node) is not None and self.source.span(node)[0] == edit.start:
                around = next(a for a in self.scopes.ancestors(node) if isinstance(a, ast.stmt))
                if isinstance(around, ast.FunctionDef) and around.name == self.kernel.simple_name:
                    return ""
                target = around.targets[0] if isinstance(around, ast.Assign) and len(around.targets) == 1 else None
                if not isinstance(target, ast.Name) or self.scopes.scope_of(around) is not self.scopes.tree:
                    break
                reads = [n for n in self.scopes.nodes if _reads_of_module(self.scopes, n, {target.id})]
                host = self._before.host
                assert host is not None
                if not all(self.scopes.inside(n, host) for n in reads):
                    raise Refused(f"{target.id} is read outside of the function that launches")
                return target.id
        raise Refused("a value is set where no size is known")

    # Which size.

    def _uses(self) -> Iterator[ast.expr]:
        """Yield where the function uses a value: a mark, or a constant that becomes one."""
        host = self.node.host
        assert host is not None
        constants = set(self.constants.values())
        for node in ast.walk(host):
            if integer(node) in self.marks.values() or _reads_of_module(self.after_scopes, node, constants):
                assert isinstance(node, ast.expr)
                yield node
        yield self.node.call

    def _first_use(self) -> ast.stmt:
        """Return the first statement of the function's own body that uses a value."""
        host = self.node.host
        assert host is not None
        uses = list(self._uses())
        return next(s for s in host.body if any(self.after_scopes.inside(use, s) for use in uses))

    def _best_key(self) -> tuple[_Key, tuple[_Row, ...]]:
        found = [(key, rows) for key in self._keys() if (rows := _rows(key.sizes, self.every)) is not None]
        if not found:
            raise Refused("no size that the function knows there tells the launches apart")
        key, rows = min(found, key=lambda pair: len(pair[1]))
        if len(rows) > MOST_ROWS:
            raise Refused(f"by {key.words}, the fastest values change {len(rows) - 1} times")
        return key, rows

    def _keys(self) -> Iterator[_Key]:
        given = [
            dict((*one.problem.arguments, *one.problem.constexprs, *one.config.constexprs)) for one in self.launches
        ]
        tensors: list[_Key] = []
        for parameter in self.kernel.parameters:
            node = self._argument(parameter.name)
            values = [one.get(parameter.name) for one in given]
            if node is None or parameter.name in self.marks or parameter.role == "stride":
                continue
            words = self._said(node)
            if words is None:
                continue
            if all(isinstance(v, Scalar) and type(v.value) is int for v in values):
                yield _Key(words, tuple(v.value for v in values if isinstance(v, Scalar) and type(v.value) is int))
            shapes = [v.shape for v in values if isinstance(v, Tensor)]
            if len(shapes) == len(values) and len({len(s) for s in shapes}) == 1 and words.isidentifier():
                axes = range(len(shapes[0]))
                tensors += [_Key(f"{words}.shape[{axis}]", tuple(s[axis] for s in shapes)) for axis in axes]
                tensors.append(_Key(f"{words}.numel()", tuple(math.prod(s) for s in shapes)))
        yield from tensors

    def _argument(self, name: str) -> ast.expr | None:
        call, parameter = self.node.call, self.kernel.parameter(name)
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        if parameter is None or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        return call.args[parameter.index] if parameter.index < len(call.args) else None

    def _said(self, node: ast.expr, depth: int = 0) -> str | None:
        """Return an argument of the launch in words that mean the same in front of the first use; None without any."""
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.BinOp) or depth > 3:
            return None
        words = self.after.segment(node)
        start = self.after.span(node)[0]
        if any(isinstance(n, ast.Call) and _called(n) not in _SAID_OF_TENSORS for n in ast.walk(node)):
            return None
        names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        for name in sorted(names, key=lambda n: -self.after.span(n)[0]):
            if self._is_set_before(name):
                continue
            variable = self.after_scopes.resolve(name)
            value = variable.single if variable is not None else None
            own = variable is not None and variable.scope is self.node.host
            inner = self._said(value, depth + 1) if own and isinstance(value, ast.expr) else None
            if inner is None:
                return None
            at = self.after.span(name)[0] - start
            plain = isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
            words = words[:at] + (inner if plain or name is node else f"({inner})") + words[at + len(name.id) :]
        return words if "\n" not in words else None

    def _is_set_before(self, name: ast.Name) -> bool:
        """Tell whether a variable has its only value in front of the first use."""
        variable = self.after_scopes.resolve(name)
        host = self.node.host
        if variable is None or isinstance(variable.scope, ast.Module):
            return True
        if variable.scope is not host or host is None:
            return False
        if variable.parameter is not None:
            return not variable.values
        early = host.body[: host.body.index(self.first)]
        stores = [n for s in early for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        plain = [s for s in early if isinstance(s, ast.Assign | ast.AnnAssign)]
        return (
            len(variable.values) == 1
            and any(n.id == name.id for n in stores)
            and any(self.after_scopes.inside(n, s) for n in stores if n.id == name.id for s in plain)
        )

    # What is written.

    def text(self) -> str:
        """Return the file with the table in it."""
        source, host = self.after, self.node.host
        assert host is not None
        taken = {n.id for n in ast.walk(host) if isinstance(n, ast.Name)} | {
            n.arg for n in ast.walk(host) if isinstance(n, ast.arg)
        }
        edits: list[Edit] = []
        called: dict[str, str] = {}
        gone: list[ast.stmt] = []
        for name in self.names:
            target = self._own_variable(name)
            if target is not None:
                called[name], line = target
                gone.append(line)
                continue
            constant = self.constants.get(name, "")
            lower = (constant or name).lower()
            wishes = (lower, f"{lower}_here") if constant else (name, lower, f"{lower}_here")
            called[name] = next(w for w in wishes if w not in taken)
            taken.add(called[name])
        by_mark = {mark: called.get(name, str(self.fixed.get(name))) for name, mark in self.marks.items()}
        for node in ast.walk(host):
            mark = integer(node)
            if mark in by_mark and isinstance(node, ast.expr) and not _within(self.after_scopes, node, gone):
                edits.append(source.replace(node, by_mark[mark]))
        by_constant = {constant: by_mark[self.marks[name]] for name, constant in self.constants.items() if constant}
        for node in ast.walk(host):
            if _reads_of_module(self.after_scopes, node, set(by_constant)):
                assert isinstance(node, ast.Name)
                edits.append(source.replace(node, by_constant[node.id]))
        defaults = [(name, by_mark[self.marks[name]]) for name, constant in self.constants.items() if not constant]
        if defaults:
            edits += insert_keywords(source, self.node.call, defaults)
        edits += self._written([called[name] for name in self.names], gone)
        return fitted(self.source.text, apply_edits(source.text, tuple(edits)))

    def _own_variable(self, name: str) -> tuple[str, ast.stmt] | None:
        """Return the local variable that a line of the function's body sets to a value alone."""
        host = self.node.host
        assert host is not None
        for line in host.body:
            if isinstance(line, ast.Assign) and integer(line.value) == self.marks[name] and len(line.targets) == 1:
                target = line.targets[0]
                alone = self.after.line_text(line.lineno).split("#")[0].strip() == self.after.segment(line)
                if isinstance(target, ast.Name) and alone:
                    return target.id, line
        return None

    def _written(self, called: Sequence[str], gone: Sequence[ast.stmt]) -> Iterator[Edit]:
        source, first = self.after, self.first
        line = source.line_text(first.lineno)
        indent = line[: len(line) - len(line.lstrip())]
        start = source.line_starts[first.lineno - 1]
        if source.span(first)[0] != start + len(indent):
            raise Refused("the launch shares its line with another statement")
        step = "\t" if indent.startswith("\t") else "    "
        lines = ["# What is fastest depends on the size."]
        left = ", ".join(called)
        for number, row in enumerate(self.rows):
            if math.isfinite(row.most):
                lines.append(f"{'el' if number else ''}if {self.key.words} <= {row.most}:")
            else:
                lines.append("else:")
            lines.append(f"{step}{left} = {', '.join(map(str, row.values))}")
        block = "".join(f"{indent}{one}{source.newline}" for one in lines)
        if first in gone:
            # The table stands in its line's place.
            end = source.line_starts[first.end_lineno or first.lineno]
            yield Edit(source.file, start, end, block)
        else:
            yield source.insert(start, block)
        for other in gone:
            if other is not first:
                last = other.end_lineno or other.lineno
                yield Edit(source.file, source.line_starts[other.lineno - 1], source.line_starts[last], "")


def _values(launch: Launch, values: Mapping[str, int], names: Sequence[str]) -> tuple[int, ...]:
    given = (*launch.problem.constexprs, *launch.config.constexprs, *launch.config.options)
    running = {name: one.value for name, one in given if isinstance(one, Scalar)}
    all_of_them = [values.get(name, running.get(name, COMPILER_DEFAULTS.get(name))) for name in names]
    found = tuple(value for value in all_of_them if type(value) is int)
    if len(found) != len(names):
        raise Refused("what a launch ran with is not known")
    return found


def _rows(sizes: Sequence[int], every: Sequence[tuple[int, ...]]) -> tuple[_Row, ...] | None:
    """Return the runs of launches, by size, that have the same values; None where one size has two."""
    pairs = sorted(set(zip(sizes, every, strict=True)))
    if len(dict(pairs)) != len(pairs):
        return None
    rows: list[_Row] = []
    for (size, values), (larger, other) in pairwise(pairs):
        if values != other:
            rows.append(_Row(_between(size, larger), values))
    return (*rows, _Row(math.inf, pairs[-1][1]))


def _between(low: int, high: int) -> int:
    """Return where to part two sizes: the power of two between them that is nearest by factors, else the lower one."""
    middle = math.sqrt(max(low, 1) * high)
    powers = [1 << bit for bit in range(high.bit_length() + 1) if low <= 1 << bit < high]
    return min(powers, key=lambda one: abs(math.log(one / middle)), default=low)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _reads_of_module(scopes: Scopes, node: ast.AST, names: set[str]) -> bool:
    """Tell whether a node reads one of these variables of the module."""
    if not isinstance(node, ast.Name) or node.id not in names:
        return False
    variable = scopes.resolve(node)
    return variable is not None and isinstance(variable.scope, ast.Module)


def _within(scopes: Scopes, node: ast.AST, lines: Sequence[ast.stmt]) -> bool:
    return any(scopes.inside(node, line) for line in lines)
