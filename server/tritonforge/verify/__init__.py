"""Policy of the correctness gate: which inputs, which tolerance, which refusals."""
