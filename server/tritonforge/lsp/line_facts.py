"""What is known of one source line, in Markdown: what the hardware did there, or what a model expects of it."""

from __future__ import annotations

from tritonforge.backend.facts import LaunchFacts
from tritonforge.domain.counters import Counters, LineCounters
from tritonforge.report import wording

_SECTOR = 32
_REASONS = 4


def line_facts(launch: LaunchFacts, line: int, *, fresh: bool) -> str:
    """Return what is known of `line` of the text that the facts were found in; empty when that is nothing."""
    heat = launch.heat.lines.get(line)
    parts = []
    if heat is not None and launch.heat.provenance == "measured":
        stalls = sorted(heat.stalls.items(), key=lambda item: -item[1])[:_REASONS]
        reasons = ", ".join(f"{reason.replace('_', ' ')} {wording.percent(share)}" for reason, share in stalls)
        source = f" ({launch.counters.source})" if launch.counters is not None else ""
        parts.append(f"**{wording.percent(heat.share)} of the stall samples**{source}" + _after(reasons))
    elif heat is not None:
        share = wording.percent(heat.share)
        parts.append(f"**About {share} of the time**, {launch.heat.provenance} from the compiled code, not measured")
    if launch.counters is not None and line in launch.counters.lines:
        parts += _counted(launch.counters, launch.counters.lines[line])
    if parts and not fresh:
        parts.append("*Stale: the code has changed since.*")
    return "\n\n".join(parts)


def _after(reasons: str) -> str:
    return f": {reasons}" if reasons else ""


def _counted(counters: Counters, line: LineCounters) -> list[str]:
    said = []
    if line.executed:
        of_all = sum(one.executed for one in counters.lines.values())
        share = f" ({wording.percent(line.executed / of_all)} of all)" if of_all else ""
        said.append(f"{line.executed:,.0f} warp instructions{share}")
    if line.sectors:
        used = min(1.0, line.ideal_sectors / line.sectors)
        said.append(
            f"{wording.size(line.sectors * _SECTOR)} between L1 and L2, of which the lanes need {wording.percent(used)}"
        )
    if line.wavefronts:
        extra = max(0.0, 1.0 - line.ideal_wavefronts / line.wavefronts)
        said.append(f"{line.wavefronts:,.0f} passes through shared memory, {wording.percent(extra)} by bank conflicts")
    return ["; ".join(said)] if said else []
