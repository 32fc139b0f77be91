"""A kernel with its launches in all files of a task: a host function may import it from the file that defines it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tritonforge.analysis import launches_elsewhere
from tritonforge.domain.kernel import Kernel


def with_all_sites(kernel: Kernel, texts: Mapping[str, str]) -> Kernel:
    """Return `kernel` with its launch sites in every one of `texts` (file → text), those of its own file first."""
    if kernel.file not in texts or len(texts) == 1:
        return kernel
    own = tuple(site for site in kernel.launch_sites if site.file == kernel.file)
    others = (
        site
        for file in sorted(texts)
        if file != kernel.file
        for site in launches_elsewhere(kernel, texts[kernel.file], file, texts[file])
    )
    sites = (*own, *others)
    return kernel if sites == kernel.launch_sites else dataclasses.replace(kernel, launch_sites=sites)
