"""Sparsemax of rows of 4096 scores."""

import torch
from liger_kernel.transformers.functional import liger_sparsemax


def run():
    return liger_sparsemax(torch.randn(8192, 4096, device="cuda"), -1)


if __name__ == "__main__":
    run()
