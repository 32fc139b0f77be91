"""What production code imports: `tuned` picks a kernel's configuration from a file that `tritonforge export` wrote.

Nothing here needs a package, nor anything else of TritonForge: the folder may be copied beside the code that uses it.
"""

from tritonforge.runtime.tuning import Tuned, tuned
from tritonforge.runtime.tuning_file import TuningFileError

__all__ = ["Tuned", "TuningFileError", "tuned"]
