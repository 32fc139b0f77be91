"""Policy of the correctness gate: which inputs, which tolerance, which refusals."""

from tritonforge.verify.gate import Gate, Trialled

__all__ = ["Gate", "Trialled"]
