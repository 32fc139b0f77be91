"""`Kernel` + findings → candidates, behind one protocol."""
