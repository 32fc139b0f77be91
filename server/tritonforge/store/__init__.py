"""Results, calls, launches and trials in SQLite."""

from tritonforge.store.store import CompiledCall, RecordedCalls, Store, WatchedCall, open_store

__all__ = ["CompiledCall", "RecordedCalls", "Store", "WatchedCall", "open_store"]
