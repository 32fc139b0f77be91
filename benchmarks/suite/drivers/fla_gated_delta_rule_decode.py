"""One step of decoding of a model with the gated delta rule, for 64 sequences."""

import torch
import torch.nn.functional as F
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule


def run():
    q = torch.randn(64, 1, 16, 128, device="cuda", dtype=torch.bfloat16)
    k = F.normalize(torch.randn(64, 1, 16, 128, device="cuda"), dim=-1).to(torch.bfloat16)
    v = torch.randn_like(q)
    gate = F.logsigmoid(torch.randn(64, 1, 16, device="cuda"))
    beta = torch.rand(64, 1, 16, device="cuda", dtype=torch.bfloat16)
    state = torch.randn(64, 16, 128, 128, device="cuda")
    return fused_recurrent_gated_delta_rule(q, k, v, gate, beta=beta, initial_state=state, output_final_state=True)


if __name__ == "__main__":
    run()
