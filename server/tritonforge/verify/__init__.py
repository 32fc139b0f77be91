"""Policy of the correctness gate: which inputs, which tolerance, which refusals."""

from tritonforge.verify.gate import Gate
from tritonforge.verify.judgement import Trialled, refusal
from tritonforge.verify.launched import Launched, launched
from tritonforge.verify.references import Named, named_reference, reference_beside
from tritonforge.verify.replaying import Place, read_id

__all__ = [
    "Gate",
    "Launched",
    "Named",
    "Place",
    "Trialled",
    "launched",
    "named_reference",
    "read_id",
    "reference_beside",
    "refusal",
]
