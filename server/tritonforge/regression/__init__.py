"""Baselines, the noise model, and `check`: has a kernel become slower since somebody said that it was fine?

`baseline_file` reads and writes the committed file, `noise` says which differences are more than noise, `machine`
whether the GPU is fit to measure on, `compiled` what can be said without one, `measuring` and `checking` do it.
"""

BASELINE = ".tritonforge/baseline.json"
"""Where a workspace keeps what `check` compares with, unless another file is named."""
