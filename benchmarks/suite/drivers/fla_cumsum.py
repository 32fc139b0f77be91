"""Running sums of gates within chunks of 64 steps."""

import torch
from fla.ops.utils.cumsum import chunk_local_cumsum


def run():
    return chunk_local_cumsum(torch.randn(4, 4096, 16, 128, device="cuda"), 64)


if __name__ == "__main__":
    run()
