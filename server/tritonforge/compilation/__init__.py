"""Reading what the compiler produced: texts → `Compilation`. Pure text parsing; nothing here imports triton."""

from tritonforge.compilation.architectures import Architecture, architecture, occupancy
from tritonforge.compilation.reader import read
from tritonforge.compilation.waves import waves

__all__ = ["Architecture", "architecture", "occupancy", "read", "waves"]
