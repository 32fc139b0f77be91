"""The time model: `Compilation` + launch + a GPU's ceilings → predicted time with an interval."""

from tritonforge.prediction.doubt import disagreement
from tritonforge.prediction.gpus import GPUS, GpuSpec, gpu_for
from tritonforge.prediction.model import predict
from tritonforge.prediction.traffic import Footprint, footprint_of, unique_bytes

__all__ = ["GPUS", "Footprint", "GpuSpec", "disagreement", "footprint_of", "gpu_for", "predict", "unique_bytes"]
