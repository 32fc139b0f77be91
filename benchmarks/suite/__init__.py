"""The benchmark suite: plainly written kernels beside references, and kernels of two libraries as shipped."""
