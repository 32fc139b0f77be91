"""Gated linear recurrence of HGRN, step by step."""

import torch
import torch.nn.functional as F
from fla.ops.hgrn import fused_recurrent_hgrn


def run():
    x = torch.randn(8, 4096, 2048, device="cuda", dtype=torch.bfloat16)
    gate = F.logsigmoid(torch.randn(8, 4096, 2048, device="cuda")).to(torch.bfloat16)
    return fused_recurrent_hgrn(x, gate)[0]


if __name__ == "__main__":
    run()
