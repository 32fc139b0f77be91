"""Tests of a workspace, run by pytest inside a traced program."""

import pytest
import torch
import traced_kernels as k


@pytest.mark.parametrize("n", range(4))
def test_add(n):
    x = torch.arange(80, device="cuda", dtype=torch.float32)
    torch.testing.assert_close(k.add(x), 2 * x)
    k.add(torch.ones(81 + n, device="cuda"))
