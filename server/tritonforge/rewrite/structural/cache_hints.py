"""`eviction_policy="evict_first"` for what streams through L2 once, where it pushes out what is read again (TF109).

Only with that finding: without a stream that is larger than L2 beside an operand that fits into it there is nothing a
hint could do, and most hints do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.structural.calls import argument, name_of, with_value
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of, replaced


class CacheHints:
    """Streams that make room for what is reused."""

    name = "cache-hints"
    treats = frozenset({"TF109"})
    classes: frozenset[BottleneckClass] = frozenset()

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield a hint on the stream, then one on what is reused as well."""
        finding = next((f for f in text.task.findings if f.code == "TF109"), None)
        if finding is None:
            raise Absent("nothing was seen to push out of L2 what is read again")
        lines = finding.range.start.line, finding.range.end.line
        accesses = [a for a in text.kernel.accesses if a.kind == "load" and lines[0] <= a.range.start.line <= lines[1]]
        streamed = {a.pointer for a in accesses if a.pointer is not None}
        evidence = finding.evidence.get("reused")
        reused = {str(evidence.value)} if evidence is not None else set()
        first = self.hinted(text, streamed, "evict_first")
        if not first:
            raise Absent("the stream has a hint already")
        title = "the stream's lines evicted first"
        yield Change(title, text.edits(replaced(text.function, first)), (("stream", "evict_first"),))
        last = self.hinted(text, reused, "evict_last")
        if last:
            both = text.edits(replaced(text.function, [*first, *last]))
            yield Change(f"{title}, what is reused last", both, (("stream", "evict_first"), ("reused", "evict_last")))

    def hinted(self, text: KernelText, pointers: set[str], policy: str) -> list[tuple[cst.CSTNode, cst.CSTNode]]:
        """Return the loads from `pointers` that have no hint, each with one."""
        made: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        known = {
            " ".join(a.address.split()) for a in text.kernel.accesses if a.kind == "load" and a.pointer in pointers
        }
        for node in nodes_of(text.function):
            if name_of(node, text.tl) != "load" or not isinstance(node, cst.Call) or not node.args:
                continue
            address = re.sub(r"\s+", " ", code(node.args[0].value)).strip()
            hint = argument(node, "load", "eviction_policy") or argument(node, "load", "cache_modifier")
            if address in known and hint is None:
                made.append((node, with_value(node, None, "eviction_policy", cst.SimpleString(f'"{policy}"'))))
        return made
