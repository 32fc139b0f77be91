"""Accesses whose neighbouring lanes are far apart in memory, read off the address with the launch's own strides.

Only addresses in which *no* block index moves by one element count: a transposed load has such an index, and the
compiler stages it through shared memory at full bandwidth.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import integers, item_bytes, tensors, traffic
from tritonforge.domain.kernel import Access

SECTOR = 32
"""Bytes that memory hands out at once (an L2 sector)."""
_WASTEFUL = 0.5


@dataclass(frozen=True)
class Strided:
    """`access` steps by `stride` elements of `size` bytes between lanes: `efficiency` (0–1) of each sector is used."""

    access: Access
    stride: int
    size: int
    share: float

    @property
    def efficiency(self) -> float:
        """Useful bytes over sector bytes."""
        return self.size / min(SECTOR, max(self.stride, 1) * self.size)


def strided_access(case: Case) -> Strided | None:
    """Return the most wasteful access that makes up a good part of the launch's traffic, or None."""
    known = traffic(case)
    if known is None or known.moved <= 0:
        return None
    found: list[Strided] = []
    for access in case.kernel.accesses:
        tensor = tensors(case.launch).get(access.pointer or "")
        stride = _least_stride(case, access)
        if tensor is None or stride is None:
            continue
        moved = (known.loads if access.kind == "load" else known.stores).get(access.pointer, 0.0)
        size = item_bytes(tensor.dtype)
        strided = Strided(access, stride, size, 0.0)
        sectors = moved / strided.efficiency
        share = sectors / (known.moved - moved + sectors)
        found.append(Strided(access, stride, size, share))
    worst = max(found, key=lambda s: s.share, default=None)
    if worst is None or worst.efficiency > _WASTEFUL or worst.share < 0.5:
        return None
    return worst


def _least_stride(case: Case, access: Access) -> int | None:
    """Return the least step in elements between lanes, or None when some block index moves by one or is unknown."""
    if not access.block:
        return None
    try:
        tree = ast.parse(access.address, mode="eval").body
    except SyntaxError:
        return None
    values = integers(case.launch)
    loop_variables = {loop.variable for loop in case.kernel.loops}
    strides: list[int] = []
    for term in _terms(tree):
        names = {n.id for n in ast.walk(term) if isinstance(n, ast.Name)}
        indexes = {n for n in names if case.kernel.parameter(n) is None and n not in loop_variables and n != "tl"}
        if not indexes:
            continue
        step = _step(term, values)
        if step is None or step <= 1:
            return None
        strides.append(step)
    return min(strides, default=None)


def _terms(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return [*_terms(node.left), *_terms(node.right)]
    return [node]


def _step(term: ast.expr, values: dict[str, int]) -> int | None:
    """The product of the known integers that multiply a term's index; None when a factor is not known."""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        left, right = _step(term.left, values), _step(term.right, values)
        return left * right if left is not None and right is not None else None
    if isinstance(term, ast.Constant):
        return term.value if type(term.value) is int else None
    if isinstance(term, ast.Name):
        return values.get(term.id, 1)
    return 1
