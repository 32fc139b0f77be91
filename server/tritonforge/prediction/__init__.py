"""The time model: `Compilation` + launch + a GPU's ceilings → predicted time with an interval."""

from tritonforge.prediction.gpus import GPUS, GpuSpec, gpu_for
from tritonforge.prediction.model import predict, rank
from tritonforge.prediction.traffic import unique_bytes

__all__ = ["GPUS", "GpuSpec", "gpu_for", "predict", "rank", "unique_bytes"]
