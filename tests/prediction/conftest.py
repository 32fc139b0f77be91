import sys
from pathlib import Path

# The golden artefacts are read by one module, which lies beside the tests of what reads them in earnest.
sys.path.append(str(Path(__file__).parents[1] / "compilation"))
