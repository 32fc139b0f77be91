"""Reading what the compiler produced → `Compilation`."""
