"""What a list of kernels shows of a profile, kept for whoever shows one: an editor lists what a terminal found out."""

from __future__ import annotations

from tritonforge.domain.results import ProfileResult
from tritonforge.report import wording
from tritonforge.store import Store
from tritonforge.store.seen import Seen


def remember(store: Store, result: ProfileResult) -> None:
    """Keep the numbers of the launch that matters most (blocks on the disk)."""
    first = min(result.profiles, key=lambda profile: profile.launch.rank, default=None)
    if first is None:
        return
    kernel, time, predicted = first.kernel, first.time_us, result.predictions.get(first.launch.id)
    known = first.bottleneck.kind != "unknown"
    seen = Seen(
        code_hash=kernel.code_hash,
        site_hashes=tuple(site.site_hash for site in kernel.launch_sites),
        target=wording.target(first.target),
        launch=wording.plain_problem(first.launch),
        time_us=time.median if time else predicted.time_us if predicted else None,
        provenance="measured" if time else "predicted",
        interval=time.ci95 if time else predicted.interval if predicted else None,
        fraction=first.roofline.fraction if first.roofline else None,
        bound=first.roofline.bound if first.roofline else "",
        bottleneck=first.bottleneck.kind if known else "",
        reason=first.bottleneck.reason if known else "",
    )
    store.put_seen(kernel.file, kernel.name, seen)
