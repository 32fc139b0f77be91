"""Policy of the correctness gate: which inputs, which tolerance, which refusals."""

from tritonforge.verify.gate import Gate, Launched, Trialled, launched, refusal

__all__ = ["Gate", "Launched", "Trialled", "launched", "refusal"]
