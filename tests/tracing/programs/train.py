"""A training loop as people write it, in which a kernel of the workspace runs forward and backward."""

import torch
import traced_kernels as k

layer = torch.nn.Linear(24, 24, device="cuda")
optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3)
for _ in range(5):
    k.Doubled.apply(layer(torch.randn(4, 24, device="cuda"))).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
