"""Functions that a rewrite writes in front of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import Refused, kernel_function
from tritonforge.rewrite.structural.kernel_text import KernelText


def helper_edit(text: KernelText, lines: Sequence[str]) -> Edit:
    """Return the edit that writes the function of `lines`, compiled by Triton, in front of the kernel and its comments.

    Raises:
        Refused: the kernel is not at module level.
    """
    source = text.own_source
    node = kernel_function(text.own_scopes, text.kernel)
    if node is None or node.col_offset:
        raise Refused("the kernel is written inside of something, where no helper can stand beside it")
    line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    while line > 1 and source.line_text(line - 1).startswith("#"):
        line -= 1
    written = [f"@{text.own_triton}.jit", *lines, "", "", ""]
    return source.insert(source.line_starts[line - 1], source.newline.join(written))
