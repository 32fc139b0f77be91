"""All cases of part (a), in the order in which they run."""

from __future__ import annotations

from suite import pointwise, products, rows, sequences
from suite.case import Case

PLAIN: tuple[Case, ...] = (*pointwise.CASES, *rows.CASES, *products.CASES, *sequences.CASES)
BY_NAME = {case.name: case for case in PLAIN}
