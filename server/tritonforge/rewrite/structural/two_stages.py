"""Sums that all programs add to one place, in two stages: partial results first, then their sum.

Every program stores what it has to a row of its own, and the host sums the rows. No program waits for another, and the
result does not depend on their order.

Preconditions: `tl.atomic_add` on an address that does not depend on the programs' axis, outside loops and branches, its
result unused; the place it adds to is made by `torch.zeros` in the host function, right for this and passed to this
launch alone; the sum is one element, or a run of `n` that the mask bounds with a parameter whose value the launch
passes; programs along the axis are no more than a few thousand for each element.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, name_of, value_of
from tritonforge.rewrite.structural.flow import flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced

MOST_PARTIAL_BYTES = 1 << 28


class TwoStages:
    """Partial sums in place of atomics."""

    name = "two-stages"
    treats = frozenset({"TF107", "TF507"})
    classes: frozenset[BottleneckClass] = frozenset({"atomic-contention", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        atomics = [
            n.value
            for n in nodes_of(text.function)
            if isinstance(n, cst.Expr) and isinstance(n.value, cst.Call) and name_of(n.value, text.tl) == "atomic_add"
        ]
        if not atomics:
            raise Absent("no atomic adds up what nobody reads")
        if any(not self._stands_plain(text, call) for call in atomics):
            raise Refused("an atomic stands in a loop or under a condition")
        flow = flow_of(text.function, text.kernel, text.tl)
        host = Host(text)
        if len(host.nodes) != 1 or host.nodes[0].host is None:
            raise Refused("the kernel is launched in several places")
        made: list[tuple[cst.CSTNode, Replacement]] = []
        edits: list[Edit] = []
        for call in atomics:
            address = call.args[0].value
            own = flow.of(address)
            idle = [axis for axis in range(3) if axis not in own.programs and text.launch.config.grid[axis] > 1]
            if len(idle) != 1 or own.shape is None or len(own.shape) > 1:
                raise Refused("which programs add to one place cannot be told")
            (axis,) = idle
            pointer = self._pointer(text, call)
            size = self._size(text, call) if own.shape else ""
            made.append((call, self._store(text, call, axis, pointer, size)))
            edits += self._host_edits(text, host, pointer, axis, size)
        yield Change("partial sums in place of atomics", (*text.edits(replaced(text.function, made)), *edits))

    def _stands_plain(self, text: KernelText, call: cst.Call) -> bool:
        return any(
            isinstance(s, cst.SimpleStatementLine) and any(n is call for n in nodes_of(s))
            for s in text.function.body.body
        )

    def _pointer(self, text: KernelText, call: cst.Call) -> str:
        address = call.args[0].value
        while isinstance(address, cst.BinaryOperation) and isinstance(address.operator, cst.Add):
            address = address.left
        name = code(address)
        parameter = text.kernel.parameter(name)
        uses = sum(isinstance(n, cst.Name) and n.value == name for n in nodes_of(text.function.body))
        if parameter is None or uses != 1:
            raise Refused(f"{name} is no pointer that the atomic alone uses")
        return name

    def _size(self, text: KernelText, call: cst.Call) -> str:
        mask = value_of(call, "atomic_add", "mask")
        words = code(mask) if mask is not None else ""
        if words.isidentifier():
            values = [
                n.value
                for n in nodes_of(text.function)
                if isinstance(n, cst.Assign) and code(n.targets[0].target) == words
            ]
            words = code(values[0]) if len(values) == 1 else ""
        match = re.fullmatch(r"\w+\s*<\s*(\w+)", words)
        if match is None or text.kernel.parameter(match.group(1)) is None:
            raise Refused("how many sums there are cannot be told from the atomic's mask")
        return match.group(1)

    def _store(self, text: KernelText, call: cst.Call, axis: int, pointer: str, size: str) -> cst.Call:
        row = f"{text.tl}.program_id({axis})"
        address = call.args[0].value
        words = code(address)
        start = f"{pointer} + {row} * {size}" if size else f"{pointer} + {row}"
        new = start + words[len(pointer) :]
        sem, scope = argument(call, "atomic_add", "sem"), argument(call, "atomic_add", "scope")
        kept = [a for a in call.args if a is not sem and a is not scope]
        kept[0] = kept[0].with_changes(value=cst.parse_expression(new))
        kept[-1] = kept[-1].with_changes(comma=call.args[-1].comma)
        return call.with_changes(func=cst.parse_expression(f"{text.tl}.store"), args=kept)

    def _host_edits(self, text: KernelText, host: Host, pointer: str, axis: int, size: str) -> list[Edit]:
        node = host.nodes[0]
        given = host.argument(0, pointer)
        assert node.host is not None
        if not isinstance(given, ast.Name):
            raise Refused(f"what is passed for {pointer} is no variable of the host function")
        variable = text.scopes.resolve(given)
        value = variable.single if variable is not None else None
        if variable is None or variable.scope is not node.host or not isinstance(value, ast.Call):
            raise Refused(f"{given.id} is not made in the host function")
        if not re.fullmatch(r"torch\.zeros", text.source.segment(value.func)) or len(value.args) != 1:
            raise Refused(f"{given.id} does not begin as torch.zeros(…)")
        extent = value.args[0]
        written = text.source.segment(extent)
        if size:
            passed = host.argument(0, size)
            plain = written.strip("()").rstrip(",") if isinstance(extent, ast.Tuple) else written
            if passed is None or text.source.segment(passed) != plain:
                raise Refused(f"{given.id} has not the {size} elements that the kernel adds up")
        elif written not in {"1", "(1,)", "[1]"}:
            raise Refused(f"{given.id} has more than the one element that the kernel adds up")
        programs = host.extent(0, axis)
        if not host.says_at_launch(0, programs) or host.grids[0].meta:
            raise Refused("the number of programs is not known where the partial sums are allocated")
        count = text.launch.config.grid[axis]
        elements = count * (text.value(size) or 1 if size else 1)
        if elements * 4 > MOST_PARTIAL_BYTES:
            raise Refused(f"{count} rows of partial sums take more memory than they are worth")
        before = [r for r in variable.reads if r is not given and r.lineno <= (node.call.end_lineno or 0)]
        statement = next(a for a in host.scopes.ancestors(node.call) if isinstance(a, ast.stmt))
        if before or not isinstance(statement, ast.Expr):
            raise Refused(f"{given.id} is read before it is complete")
        names = {n.id for n in ast.walk(programs) if isinstance(n, ast.Name)}
        set_late = [
            n
            for n in ast.walk(node.host)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in names and n.lineno >= value.lineno
        ]
        if set_late:
            raise Refused("the number of programs is not known where the partial sums are allocated")
        taken = {n.id for n in ast.walk(node.host) if isinstance(n, ast.Name)}
        partial = next(n for n in (f"partial_{given.id}", f"{given.id}_partial", f"{given.id}_parts") if n not in taken)
        rows = text.source.segment(programs)
        shape = f"({rows}, {size and text.source.segment(host.argument(0, size) or extent)})" if size else rows
        line = text.source.line_text(statement.lineno)
        indent = line[: len(line) - len(line.lstrip())]
        target = next(
            n
            for n in ast.walk(node.host)
            if isinstance(n, ast.Assign) and n.value is value and isinstance(n.targets[0], ast.Name)
        ).targets[0]
        keep = "" if size else ", keepdim=True"
        dtype = f", dtype={partial}.dtype"
        end = text.source.span(statement)[1]
        return [
            text.source.replace(target, partial),
            text.source.replace(value.func, "torch.empty"),
            text.source.replace(extent, shape),
            text.source.replace(given, partial),
            text.source.insert(end, f"{text.source.newline}{indent}{given.id} = {partial}.sum(dim=0{keep}{dtype})"),
        ]
