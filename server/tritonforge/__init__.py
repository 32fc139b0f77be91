"""TritonForge: profile, diagnose and optimise Triton kernels, every rewrite verified first."""

__version__ = "0.1.0"
