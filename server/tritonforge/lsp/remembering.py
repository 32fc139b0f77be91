"""What is kept of a kernel's facts when the server ends, so that a list of kernels shows it the next time."""

from __future__ import annotations

import logging

from tritonforge.backend.facts import KernelFacts
from tritonforge.domain.errors import UsageError
from tritonforge.lsp.workspaces import Workspace
from tritonforge.report import wording
from tritonforge.store.seen import Seen

_log = logging.getLogger("tritonforge.lsp")


def seen_of(facts: KernelFacts) -> Seen | None:
    """Return the facts of a kernel's first launch; None when no launch was looked at."""
    first = facts.first
    if first is None:
        return None
    failed = first.compilation.error if first.compilation is not None else ""
    known = first.bottleneck is not None and first.bottleneck.kind != "unknown"
    return Seen(
        code_hash=facts.kernel.code_hash,
        site_hashes=tuple(site.site_hash for site in facts.kernel.launch_sites),
        target=facts.target,
        launch=wording.problem(first.launch).replace("\N{NO-BREAK SPACE}", " "),
        time_us=first.time_us,
        provenance=first.provenance,
        interval=first.interval,
        fraction=first.fraction,
        bound=first.bound,
        bottleneck=first.bottleneck.kind if known and first.bottleneck else "",
        reason=first.bottleneck.reason if known and first.bottleneck else "",
        error=(failed or "").splitlines()[0] if failed else "",
    )


def remember(workspace: Workspace, facts: KernelFacts) -> None:
    """Keep what is known of a kernel (blocks on the disk)."""
    now = seen_of(facts)
    if now is None:
        return
    try:
        workspace.store().put_seen(facts.kernel.file, facts.kernel.name, now)
    except UsageError as error:
        _log.info("%s is not remembered: %s", facts.kernel.name, error)
