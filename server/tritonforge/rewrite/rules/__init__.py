"""The rule engine's rewrites, one module each."""
