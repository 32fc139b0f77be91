"""Running kernels on the CPU in Triton's interpreter: its gaps filled, every access checked, undefined values poisoned."""
