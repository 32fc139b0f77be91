"""Results, calls, launches and trials in SQLite."""

from tritonforge.store.store import CompiledCall, RecordedCalls, Store, WatchedCall, open_store
from tritonforge.store.tried import TriedVersion

__all__ = ["CompiledCall", "RecordedCalls", "Store", "TriedVersion", "WatchedCall", "open_store"]
