"""What several tests of searches share."""

from __future__ import annotations

import pytest
from optimize_pretended import Target


@pytest.fixture(scope="session")
def search():
    """Search on a target that compiles for real and pretends to have a GPU and a gate (`Target.search`)."""
    with Target() as target:
        yield target.search
