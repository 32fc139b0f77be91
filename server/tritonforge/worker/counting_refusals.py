"""Why a profiler counted nothing, from what it said, in one sentence with the mend."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RIGHTS = (
    "Run as root or with CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN), or have the machine's owner put "
    "'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into a file of /etc/modprobe.d and reboot."
)


@dataclass(frozen=True)
class Refusal:
    """A sentence, its mend, and whether another try will end alike as long as nobody changes the machine."""

    sentence: str
    mend: str
    lasting: bool


NO_NCU = Refusal(
    "Nsight Compute is not there: no ncu on PATH or in the usual folders.",
    "Install Nsight Compute (it comes with the CUDA toolkit), or put its folder on PATH.",
    lasting=True,
)

_NOT_PERMITTED = Refusal(
    "The driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM).", _RIGHTS, lasting=True
)
_BUSY = Refusal(
    "Another tool is reading the GPU's counters.",
    "Stop it (a profiler, or DCGM: dcgmi profile --pause) and try again.",
    lasting=False,
)
_LOCKED = Refusal(
    "Another Nsight Compute holds the lock file, or left it behind under another user.",
    "Wait for it to end, remove nsight-compute-lock from the temporary folder, or set TMPDIR to another one.",
    lasting=False,
)
_OTHER_DRIVER = Refusal(
    "This Nsight Compute and the GPU's driver do not fit each other.",
    "Install a Nsight Compute of the driver's CUDA version.",
    lasting=True,
)
_OTHER_GPU = Refusal(
    "The profiler cannot count on this GPU.",
    "Use a profiler that knows this GPU; a part of a GPU (MIG) or a virtual one often cannot be profiled.",
    lasting=True,
)
_NO_PROTON = Refusal(
    "This Triton was built without its profiler Proton.",
    "Install a Triton wheel from PyPI, which has it.",
    lasting=True,
)
_NO_LAUNCH = Refusal(
    "Nsight Compute saw no launch.", "Run tritonforge doctor to see whether it works at all.", lasting=False
)
_KNOWN: tuple[tuple[str, Refusal], ...] = (
    (r"ERR_NVGPUCTRPERM|INSUFFICIENT_PRIVILEGES|permission to access NVIDIA GPU Performance", _NOT_PERMITTED),
    (r"driver resource was unavailable|CUPTI_ERROR_(HARDWARE_BUSY|MULTIPLE_SUBSCRIBERS)", _BUSY),
    (r"nsight-compute-lock|InterprocessLock", _LOCKED),
    (r"driver is not compatible with Nsight Compute|driver version is (too old|insufficient)", _OTHER_DRIVER),
    (r"not supported on (this|the current|vGPU|MIG)|Unsupported GPU|ERR_UNSUPPORTED", _OTHER_GPU),
    (r"CUPTI_ERROR_(NOT_SUPPORTED|MIG|VIRTUALIZED|LEGACY_PROFILER_NOT_SUPPORTED)", _OTHER_GPU),
    (r"No module named 'triton\.profiler'|libproton|Unknown mode|unsupported mode", _NO_PROTON),
    (r"No kernels were profiled", _NO_LAUNCH),
)
"""What is looked for, whatever the case of its letters. In order: a later sentence often follows from an earlier."""
_ERROR = re.compile(r"^==ERROR==\s*(.+)$", re.MULTILINE)


def refusal_of(said: str, status: int | None, tool: str) -> Refusal:
    """Return why `tool` counted nothing.

    Args:
        said: everything it and the profiled program have printed.
        status: its exit status, None when it ran out of time.
        tool: its name, for the sentence.
    """
    for pattern, refusal in _KNOWN:
        if re.search(pattern, said, re.IGNORECASE):
            return refusal
    if status is None:
        return Refusal(
            f"{tool} did not end in time.", "Give it a smaller launch, or use --counters pcsampling.", lasting=False
        )
    errors = _ERROR.findall(said)
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    detail = " ".join((errors[0] if errors else last).split())[:200].rstrip(".")
    ending = f"exited with status {status}" if status >= 0 else f"was ended by signal {-status}"
    return Refusal(
        f"{tool} {ending}{f': {detail}' if detail else ''}.", "Run tritonforge doctor --verbose.", lasting=False
    )
