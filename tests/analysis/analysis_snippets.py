"""Shared pieces of the analysis tests: a tiny kernel, and how to look at what was found."""

from __future__ import annotations

import textwrap

from tritonforge.analysis import SourceText, analyze
from tritonforge.domain.kernel import FileAnalysis, Kernel, LaunchSite, LaunchValue
from tritonforge.domain.source import Range

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n\n"

KERNEL = """
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

"""


def look(body: str, *, kernel: str = KERNEL) -> FileAnalysis:
    """Analyse the imports, the tiny kernel and `body`; the whole must be without errors."""
    found = analyze(IMPORTS + kernel + textwrap.dedent(body), "file.py")
    assert found.errors == ()
    return found


def source_of(body: str, *, kernel: str = KERNEL) -> str:
    return IMPORTS + kernel + textwrap.dedent(body)


def cut(source: str, where: Range | None) -> str:
    assert where is not None
    return SourceText(source).slice(where)


def only_kernel(found: FileAnalysis) -> Kernel:
    (kernel,) = found.kernels
    return kernel


def only_site(found: FileAnalysis) -> LaunchSite:
    (site,) = only_kernel(found).launch_sites
    return site


def value(site: LaunchSite, name: str) -> LaunchValue:
    return {**dict(site.constexprs), **dict(site.options)}[name]
