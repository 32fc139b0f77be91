"""Whether a value at a launch is one that differs from call to call: told by its name and by what it is set to."""

from __future__ import annotations

import re

from tritonforge.domain.kernel import Kernel

_LENGTHS = re.compile(
    r"(?:(?:max|min|total|cu|num|n)_?)?(?:seq(?:uence)?_?len(?:gth)?s?|seqlens?(?:_[qk])?|tokens?|rows|elements?|elem|numel"
    r"|batch(?:_?size)?|samples|points|nnz)|(?-i:bs|bsz)",
    re.IGNORECASE,
)
"""Names of extents that follow the data: how many tokens, rows, samples. Widths of a model are not among them."""
_COUNTERS = re.compile(
    r"(?:global_|cur(?:rent)?_|train_)?(?:step|iter(?:ation)?|epoch)(?:_?idx)?|(?:\w+_)?seed|lr|learning_rate",
    re.IGNORECASE,
)
"""Names of values that a training loop changes from call to call."""
_BUCKETED = re.compile(r"bucket|next_power_of|bit_length|log2|cdiv|round|//|>>|min\(|max\(", re.IGNORECASE)


def is_length(name: str, written: str | None) -> bool:
    """Tell whether a parameter, or the name that a launch passes for it, is an extent that follows the data.

    Values that the host rounds or buckets first are not.
    """
    if written is not None and _BUCKETED.search(written):
        return False
    names = [name] if written is None else [name, written]
    if written is not None and re.search(r"\.numel\(\)$|\.nelement\(\)$|^len\(", written.strip()):
        return True
    return any(_LENGTHS.fullmatch(each.strip()) for each in names)


def is_counter(name: str) -> bool:
    """Tell whether a parameter's name is that of a value that a training loop changes: a step, a seed, a rate."""
    return _COUNTERS.fullmatch(name) is not None


def written_for(kernel: Kernel, name: str) -> tuple[str | None, ...]:
    """Return what each launch site writes for a parameter, None where it does not show."""
    return tuple(dict(site.arguments).get(name) for site in kernel.launch_sites)
