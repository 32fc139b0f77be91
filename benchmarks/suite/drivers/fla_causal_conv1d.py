"""Short convolution of the inputs of a linear attention layer."""

import torch
from fla.modules.causal_conv1d.ops import causal_conv1d


def run():
    x = torch.randn(4, 4096, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, 4, device="cuda", dtype=torch.bfloat16)
    return causal_conv1d(x, weight, activation="silu")[0]


if __name__ == "__main__":
    run()
