"""Results, calls, launches and trials in SQLite."""

from tritonforge.store.store import RecordedCalls, Store, open_store

__all__ = ["RecordedCalls", "Store", "open_store"]
