"""Gated linear attention, forward."""

import torch
import torch.nn.functional as F
from fla.ops.gla import chunk_gla


def run():
    q = torch.randn(4, 4096, 16, 128, device="cuda", dtype=torch.bfloat16)
    k, v = torch.randn_like(q), torch.randn_like(q)
    gate = F.logsigmoid(torch.randn(4, 4096, 16, 128, device="cuda")) / 16
    return chunk_gla(q, k, v, gate)[0]


if __name__ == "__main__":
    run()
