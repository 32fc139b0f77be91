"""`Kernel` + `Compilation` + `Profile` → findings and the bottleneck class; one rule per small unit."""
