"""What runs inside a traced program: it is put there by a `sitecustomize` and must never be noticed.

Nothing here may change what the program does: every entry from the outside catches its own failures and switches
itself off. The package is shipped under another name, so that it cannot be taken for an installed `tritonforge`.
"""
