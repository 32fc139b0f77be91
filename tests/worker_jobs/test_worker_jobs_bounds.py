"""Which memory a launch may touch."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from tritonforge.worker.interpreter.bounds import buffer_of

pytestmark = pytest.mark.triton


def test_an_empty_view_allows_its_own_storage_and_no_more():
    import torch

    storage = torch.zeros(8)
    buffer = buffer_of("x", storage[4:4])
    assert (buffer.start, buffer.end) == (storage.data_ptr(), storage.data_ptr() + 32)
    assert buffer.elements == 4
