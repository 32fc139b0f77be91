"""Kernels on the CPU in Triton's interpreter: gaps filled, accesses checked, undefined values poisoned."""
