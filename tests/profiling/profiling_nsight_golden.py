"""The counters of the 19 recorded launches of an H200, kept as JSON so that they can be used where no report can be read.

`python tests/profiling/profiling_nsight_golden.py` writes the file anew from the report.
"""

import json
import lzma
from pathlib import Path

from tritonforge.domain.codec import decode, encode
from tritonforge.domain.counters import Counters
from tritonforge.profiling.nsight import counters_of, read_report

FOLDER = Path(__file__).parents[1] / "data" / "h200"
REPORT = FOLDER / "pathologies.ncu-rep.xz"
KEPT = FOLDER / "counters.json.xz"


def unpack_report(folder: Path) -> Path:
    """Write the recorded report into `folder` as Nsight Compute had written it."""
    path = folder / "pathologies.ncu-rep"
    path.write_bytes(lzma.decompress(REPORT.read_bytes()))
    return path


def kept() -> dict[str, Counters]:
    """Return the kept counters by the name of the case, in the order of the launches."""
    return {name: decode(Counters, value) for name, value in json.loads(lzma.decompress(KEPT.read_bytes())).items()}


def derive(report: Path) -> dict[str, Counters]:
    """Return the same, read from the report: each launch ran in an NVTX range named after its case."""
    return {launch.ranges[-1]: counters_of(launch) for launch in read_report(report)}


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        text = json.dumps({name: encode(one) for name, one in derive(unpack_report(Path(scratch))).items()})
    KEPT.write_bytes(lzma.compress(text.encode(), preset=9))
