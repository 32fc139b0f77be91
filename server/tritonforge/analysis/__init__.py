"""Source text → `Kernel`: pure functions over `ast`; user code is never imported or run here."""

from tritonforge.analysis.analyze import analyze
from tritonforge.analysis.elsewhere import launches_elsewhere
from tritonforge.analysis.text import SourceText, decode_source

__all__ = ["SourceText", "analyze", "decode_source", "launches_elsewhere"]
