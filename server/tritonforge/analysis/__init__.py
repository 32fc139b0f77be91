"""Source text → `Kernel`: pure functions over `ast`; user code is never imported or run here."""
