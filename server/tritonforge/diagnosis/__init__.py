"""`Kernel` + `Compilation` + `Profile` → findings and the bottleneck class; one rule per small unit.

Build a `Case` for each launch from whatever is known of it, then ask `diagnose` for findings and `classify` for the
primary bottleneck.
"""

from __future__ import annotations

from tritonforge.diagnosis.case import Case, Gpu
from tritonforge.diagnosis.classify import classify
from tritonforge.diagnosis.diagnose import diagnose

__all__ = ["Case", "Gpu", "classify", "diagnose"]
