"""What is here is run by tests, and is no test of ours."""

from __future__ import annotations

collect_ignore_glob = ["*.py"]
