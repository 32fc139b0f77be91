"""Where a benchmark ran: what a result is published with."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import subprocess
import sys


def environment() -> dict[str, object]:
    """Say where this runs: GPU, driver, versions, cores, date. A Python of its own is asked: no CUDA starts here."""
    probe = (
        "import json, platform, torch, triton; g = torch.cuda.is_available(); print(json.dumps({"
        "'python': platform.python_version(), 'torch': torch.__version__, 'triton': triton.__version__,"
        "'gpu': torch.cuda.get_device_name(0) if g else None, 'cuda': torch.version.cuda}))"
    )
    found = json.loads(subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True).stdout)
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader"],
        check=False, capture_output=True, text=True,
    ) if found["gpu"] else None  # fmt: skip
    found["driver"] = smi.stdout.strip() if smi and smi.returncode == 0 else None
    found["machine"] = platform.machine()
    found["cores"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found["date"] = dt.datetime.now(dt.UTC).date().isoformat()
    return found
