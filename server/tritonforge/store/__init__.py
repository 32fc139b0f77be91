"""Results, calls, launches and trials in SQLite."""
