"""What decides whether a performance finding is right: counters of the launch, or the gain when it is treated.

The thresholds of this file were written down before any launch was counted, but for two checks that were mended after
the first run, for reasons that hold whatever it had brought:

- `Seen.least_us`: a launch cannot need more bytes than its lanes ask for. The floor had whole tensors in it, so that a
  copy of every 32nd element "took less time than its bytes need".
- `ordinary` (TF201): without matrix instructions a dot reads its operands from shared memory for every multiply-add,
  so shared memory may be full while arithmetic is not. Where most samples are on the dots, they are what takes the
  time, whichever unit they wait for.

Both scores are in `benchmarks/results/README.md`. The checks are about what the hardware did
(sectors, samples, pipelines, times), where the rules had the compiler's output alone. Every warning says that there is
something to gain, so that each must pass `headroom` too: no unit is at its peak, and the launch takes at least 1.2
times what its bytes need at the bandwidth of a copy. TF103, TF201, TF202, TF204 and
TF301 to TF303 are about units or times of their own, and check those.

Which severities are scored: warnings of all codes below, and of `INFORMATION` those of that severity as well. Left out
are hints (they claim nothing of a launch), TF402 to TF405 (compilations and tuning, which neither a counter nor one
treatment can decide), and TF104, TF105 and TF306, which counters alone bring up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tritonforge.domain.counters import Counters
from tritonforge.domain.finding import Finding

INFORMATION = frozenset(
    {"TF102", "TF106", "TF108", "TF110", "TF205", "TF206", "TF208", "TF301", "TF302", "TF303", "TF305", "TF401"}
)
"""Codes whose findings of severity `information` claim something that a counter or a treatment decides."""

SECTOR = 32
PEAK = 0.80
"""Share of its peak from which a unit has nothing left to give."""
ABOVE_FLOOR = 1.2
LAUNCH_US = 3.0
MEMORY_WAITS = ("long_scoreboard", "lg_throttle", "drain")
SHARED_WAITS = ("short_scoreboard", "mio_throttle", "barrier")
RESULT_WAITS = ("wait", "short_scoreboard", "math_pipe_throttle", "dependency")


@dataclass(frozen=True)
class Seen:
    """What was measured of the launch that a finding is about.

    `time_us` was taken by events, which see some of the launch's start; `treated_us` the same after each treatment;
    `lines` are the first and last line of the loop or operation that the finding names.
    """

    finding: Finding
    counters: Counters | None
    time_us: float
    treated_us: Mapping[str, float] = field(default_factory=dict)
    useful_bytes: float = 0.0
    floor_us: float = 0.0
    lines: tuple[int, int] = (0, 0)

    def metric(self, name: str) -> float | None:
        """Return what was counted under a name of `profiling/nsight/metrics.py`."""
        return self.counters.metrics.get(name) if self.counters is not None else None

    def stalled(self, reasons: Iterable[str]) -> float:
        """Return the share (0–1) of all samples that are for one of `reasons`."""
        stalls = self.counters.stalls if self.counters is not None else {}
        return sum(stalls.get(reason, 0.0) for reason in reasons)

    def claimed(self, name: str) -> float:
        """Return a number of the finding's evidence; 0 where it has none."""
        found = self.finding.evidence.get(name)
        return float(found.value) if found is not None and isinstance(found.value, int | float) else 0.0

    @property
    def kernel_us(self) -> float:
        """The kernel's own time: the shorter of the two, for one includes its start and the other slower clocks."""
        inside = self.counters.time_us if self.counters is not None else None
        return min(self.time_us, inside) if inside else self.time_us

    @property
    def least_us(self) -> float:
        """The time that a copy of the useful bytes takes; no byte is useful that lies in no sector asked for."""
        asked = (self.metric("ideal_global_sectors") or 0.0) * SECTOR
        bulk = self.metric("tma_active")
        if not asked or bulk or not self.useful_bytes:
            return self.floor_us
        return self.floor_us * min(1.0, asked / self.useful_bytes)

    @property
    def best_gain(self) -> float:
        """The largest speedup of a treatment; 1 without one."""
        return max((self.time_us / after for after in self.treated_us.values()), default=1.0)

    def busiest(self) -> float:
        """Return the throughput of the busiest unit (0–1), issue slots included."""
        names = ("dram_throughput", "l2_throughput", "l1_throughput", "tensor_active", "xu_active", "fma_active")
        return max((self.metric(name) or 0.0 for name in (*names, "alu_active", "issue_active")), default=0.0)

    def samples_on_lines(self) -> float | None:
        """Return the share (0–1) of samples on the finding's lines; None where samples have no lines."""
        lines = self.counters.lines if self.counters is not None else {}
        total = sum(one.samples for one in lines.values())
        if not total:
            return None
        first, last = self.lines
        return sum(one.samples for n, one in lines.items() if first <= n <= last) / total

    def sectors_on_lines(self) -> tuple[float, float] | None:
        """Return (sectors, the least that would do) of the finding's lines; None where none were counted there."""
        lines = self.counters.lines if self.counters is not None else {}
        first, last = self.lines
        found = [one for n, one in lines.items() if first <= n <= last and one.sectors]
        return (sum(o.sectors for o in found), sum(o.ideal_sectors for o in found)) if found else None


Verdict = tuple[bool | None, str]
"""Right or wrong (None: it could not be decided), and the numbers that decided it."""


def headroom(seen: Seen) -> bool:
    """Tell whether a launch has something to gain."""
    at_peak = any((seen.metric(name) or 0.0) >= PEAK for name in ("dram_throughput", "tensor_active"))
    return not at_peak and seen.kernel_us >= ABOVE_FLOOR * max(seen.least_us, LAUNCH_US / 2)


def _say(**numbers: float | str | None) -> str:
    shown = {n: (f"{v:.3g}" if isinstance(v, float) else str(v)) for n, v in numbers.items() if v is not None}
    return ", ".join(f"{n} {v}" for n, v in shown.items())


def _warned(seen: Seen, fact: bool, said: str) -> Verdict:
    """Return the verdict on a fact, which of a warning is right only where there is something to gain."""
    if seen.finding.severity != "warning" or not fact or headroom(seen):
        return fact, said
    return False, f"{said}, but there is nothing to gain"


def uncoalesced(seen: Seen) -> Verdict:
    """TF101: lines that waste half of their sectors or more make up 40 % of all sectors, by count."""
    counters = seen.counters
    every, least = seen.metric("global_sectors"), seen.metric("ideal_global_sectors")
    if counters is None or not every or least is None:
        return None, "no sectors counted"
    lines = [one for one in counters.lines.values() if one.sectors]
    total = sum(one.sectors for one in lines)
    wasteful = sum(one.sectors for one in lines if one.ideal_sectors <= 0.55 * one.sectors)
    share = wasteful / total if total else float(least <= 0.55 * every)
    return _warned(seen, share >= 0.4, _say(wasteful_share=share, used=least / every))


def narrow(seen: Seen) -> Verdict:
    """TF102: requests fetch no more sectors than lanes of the claimed width need; a warning's loads are waited for."""
    loads, stores = seen.metric("sectors_per_load"), seen.metric("sectors_per_store")
    known = [value for value in (loads, stores) if value]
    if not known:
        return None, "no requests counted"
    fits = min(known) <= 1.5 * max(1.0, seen.claimed("lane_bytes"))
    if seen.finding.severity == "warning":
        waiting = seen.stalled(MEMORY_WAITS)
        return _warned(seen, fits and waiting >= 0.2, _say(sectors_per_request=min(known), waiting=waiting))
    return fits, _say(sectors_per_request=min(known), lane_bytes=seen.claimed("lane_bytes"))


def redundant(seen: Seen) -> Verdict:
    """TF103: sectors asked for are 1.3 times the useful ones or more, and the time is not what one pass needs."""
    sectors, dram = seen.metric("global_sectors"), seen.metric("dram_bytes")
    useful = seen.claimed("useful_bytes") or seen.useful_bytes
    if sectors is None or not useful:
        return None, "no sectors counted"
    asked = sectors * SECTOR / useful
    again = dram / useful if dram is not None else None
    slower = seen.kernel_us / max(seen.floor_us, 1e-9)
    fact = asked >= 1.3 and ((again or 0.0) >= 1.2 or slower >= 1.3)
    return fact, _say(asked_over_useful=asked, dram_over_useful=again, time_over_floor=slower)


def spilled(seen: Seen) -> Verdict:
    """TF106: local memory is used; of a warning, a quarter as many bytes as global ones, or more warps help by 5 %."""
    local, every = seen.metric("local_sectors"), seen.metric("global_sectors")
    if local is None:
        return None, "local memory not counted"
    share = local / every if every else 0.0
    said = _say(local_sectors=local, local_over_global=share, best_gain=seen.best_gain)
    if seen.finding.severity != "warning":
        return local > 0, said
    return _warned(seen, share >= 0.25 or (local > 0 and seen.best_gain >= 1.05), said)


def contended(seen: Seen) -> Verdict:
    """TF107: 30 % of the samples are on the atomics, or the launch takes the time that was claimed for them."""
    on = seen.samples_on_lines()
    enough = seen.kernel_us >= 2.0 * seen.floor_us and seen.kernel_us >= 0.5 * seen.claimed("atomic_time")
    fact = (on or 0.0) >= 0.3 or enough
    return _warned(
        seen,
        fact,
        _say(samples=on, kernel_us=seen.kernel_us, floor_us=seen.floor_us, claimed=seen.claimed("atomic_time")),
    )


def gathered(seen: Seen) -> Verdict:
    """TF108: the access uses at most 60 % of the sectors that it fetches."""
    found = seen.sectors_on_lines()
    if found is None:
        return None, "no sectors on the line"
    return found[1] <= 0.6 * found[0], _say(used=found[1] / found[0])


def converted(seen: Seen) -> Verdict:
    """TF110: shared memory moves a quarter of what was claimed over global bytes; of a warning it is waited for."""
    wavefronts, sectors = seen.metric("shared_wavefronts"), seen.metric("global_sectors")
    if wavefronts is None or not sectors:
        return None, "shared memory not counted"
    ratio = wavefronts * 128 / (sectors * SECTOR)
    fact = ratio >= 0.25 * seen.claimed("shared_to_global_bytes")
    waiting, busy = seen.stalled(SHARED_WAITS), seen.metric("l1_throughput") or 0.0
    said = _say(shared_over_global=ratio, waiting=waiting, l1_throughput=busy)
    if seen.finding.severity == "warning":
        fact = fact and (waiting >= 0.3 or busy >= 0.5)
    return _warned(seen, fact, said)


def ordinary(seen: Seen) -> Verdict:
    """TF201: tensor cores do nothing, need less than half of the time, and arithmetic is busy or samples on the dot."""
    tensor = seen.metric("tensor_active")
    if tensor is None:
        return None, "tensor cores not counted"
    matrix = (seen.metric("instructions.mma") or 0.0) + (seen.metric("instructions.wgmma") or 0.0)
    busy = max(seen.metric("fma_active") or 0.0, seen.metric("issue_active") or 0.0)
    there = max(seen.claimed("dot_time_on_tensor_cores"), seen.floor_us)
    on = seen.samples_on_lines() or 0.0
    fact = tensor < 0.01 and not matrix and seen.kernel_us >= 2.0 * there and (busy >= 0.3 or on >= 0.5)
    return fact, _say(tensor=tensor, busy=busy, samples=on, kernel_us=seen.kernel_us, there_us=there)


def weak_path(seen: Seen) -> Verdict:
    """TF202: no warpgroup instruction runs, and the tensor cores are what is busiest, at 30 % or more."""
    tensor, wgmma = seen.metric("tensor_active"), seen.metric("instructions.wgmma") or 0.0
    if tensor is None:
        return None, "tensor cores not counted"
    return wgmma == 0 and tensor >= 0.3, _say(tensor=tensor, wgmma=wgmma)


def small_tile(seen: Seen) -> Verdict:
    """TF203: tensor cores work less than half of the time, fed by busy caches or waiting for memory."""
    tensor = seen.metric("tensor_active")
    if tensor is None:
        return None, "tensor cores not counted"
    caches = max(seen.metric("l1_throughput") or 0.0, seen.metric("l2_throughput") or 0.0)
    waiting = seen.stalled((*MEMORY_WAITS, "barrier"))
    fact = tensor < 0.5 and (caches >= 0.5 or waiting >= 0.3)
    return _warned(seen, fact, _say(tensor=tensor, caches=caches, waiting=waiting))


def slow_math(seen: Seen) -> Verdict:
    """TF204: the special-function units are half busy, or half of the issue slots are full with samples on the line."""
    units, issue, on = seen.metric("xu_active"), seen.metric("issue_active"), seen.samples_on_lines()
    if units is None or issue is None:
        return None, "pipelines not counted"
    fact = units >= 0.5 or (issue >= 0.5 and (on is None or on >= 0.25))
    return fact, _say(special=units, issue=issue, samples=on)


def repeated(seen: Seen) -> Verdict:
    """TF205: the load's line fetches half of the share of bytes that was claimed for its repetitions."""
    found, every = seen.sectors_on_lines(), seen.metric("global_sectors")
    if found is None or not every:
        return None, "no sectors on the line"
    share = found[0] / every
    return share >= 0.5 * seen.claimed("share_of_bytes"), _say(share=share, claimed=seen.claimed("share_of_bytes"))


def unpipelined(seen: Seen) -> Verdict:
    """TF206: tensor cores are mostly idle and a quarter of the samples wait for memory, or stages help by 5 %."""
    tensor, waiting = seen.metric("tensor_active"), seen.stalled((*MEMORY_WAITS, "barrier"))
    if tensor is None:
        return None, "tensor cores not counted"
    fact = (tensor < 0.5 and waiting >= 0.25) or seen.best_gain >= 1.05
    return _warned(seen, fact, _say(tensor=tensor, waiting=waiting, best_gain=seen.best_gain))


def scalar_loop(seen: Seen) -> Verdict:
    """TF207: half of the samples are in the loop, while memory is not busy."""
    on, dram = seen.samples_on_lines(), seen.metric("dram_throughput")
    if on is None or dram is None:
        return None, "no samples on lines"
    return _warned(seen, on >= 0.5 and dram < 0.6, _say(samples=on, dram=dram))


def chained(seen: Seen) -> Verdict:
    """TF208: less than half of the issue slots are used, and 30 % of the samples wait for results."""
    issue, waiting = seen.metric("issue_active"), seen.stalled(RESULT_WAITS)
    if issue is None:
        return None, "issue slots not counted"
    return issue < 0.5 and waiting >= 0.3, _say(issue=issue, waiting=waiting)


def low_occupancy(seen: Seen) -> Verdict:
    """TF301: no more warps are resident than claimed, and no unit is at its peak; a warning's warps wait for memory."""
    reached = seen.metric("occupancy")
    if reached is None:
        return None, "occupancy not counted"
    busy, waiting = seen.busiest(), seen.stalled((*MEMORY_WAITS, *SHARED_WAITS))
    fact = reached <= seen.claimed("occupancy") + 0.05 and busy < PEAK
    if seen.finding.severity == "warning":
        fact = fact and waiting >= 0.3
    return fact, _say(occupancy=reached, claimed=seen.claimed("occupancy"), busiest=busy, waiting=waiting)


def idle_sms(seen: Seen) -> Verdict:
    """TF302: SMs work no larger a part of the time than have programs; the kernel takes longer than an empty launch."""
    mean, most = seen.metric("sm_cycles"), seen.metric("sm_cycles_most")
    if mean is None or not most:
        return None, "SMs not counted"
    busy = mean / most
    fact = busy <= 1.15 * seen.claimed("busy_sms") + 0.05 and seen.kernel_us >= LAUNCH_US
    dram = seen.metric("dram_throughput") or 0.0
    return fact and dram < PEAK, _say(busy=busy, claimed=seen.claimed("busy_sms"), dram=dram, kernel_us=seen.kernel_us)


def tail(seen: Seen) -> Verdict:
    """TF303: SMs work less than 85 % of the time of the busiest one, as was claimed within 0.2."""
    mean, most = seen.metric("sm_cycles"), seen.metric("sm_cycles_most")
    if mean is None or not most:
        return None, "SMs not counted"
    busy = mean / most
    return busy < 0.85 and busy <= seen.claimed("busy") + 0.2, _say(busy=busy, claimed=seen.claimed("busy"))


def small_block(seen: Seen) -> Verdict:
    """TF304: starting programs takes the time (within 40 % of what was claimed), or fewer warps help by 10 %."""
    start = seen.claimed("start_time")
    near = bool(start) and 0.6 <= seen.kernel_us / start <= 1.6
    fact = near or seen.best_gain >= 1.1
    return _warned(seen, fact, _say(kernel_us=seen.kernel_us, start_us=start, best_gain=seen.best_gain))


def large_block(seen: Seen) -> Verdict:
    """TF305: instructions set the pace (issue slots half full); of a row that spills, local memory is used."""
    if "spill_bytes" in seen.finding.evidence:
        local = seen.metric("local_sectors")
        return (None, "local memory not counted") if local is None else (local > 0, _say(local_sectors=local))
    issue, lanes = seen.metric("issue_active"), seen.metric("unmasked_lanes")
    if issue is None:
        return None, "issue slots not counted"
    return issue >= 0.5 and (seen.metric("dram_throughput") or 0.0) < 0.6, _say(issue=issue, unmasked_lanes=lanes)


def launch_bound(seen: Seen) -> Verdict:
    """TF401: the profiler sees the kernel run for less than two empty launches."""
    inside = seen.counters.time_us if seen.counters is not None else None
    if inside is None:
        return None, "not timed by the profiler"
    return inside <= 2 * LAUNCH_US, _say(kernel_us=inside)


CHECKS: Mapping[str, Callable[[Seen], Verdict]] = {
    "TF101": uncoalesced,
    "TF102": narrow,
    "TF103": redundant,
    "TF106": spilled,
    "TF107": contended,
    "TF108": gathered,
    "TF110": converted,
    "TF201": ordinary,
    "TF202": weak_path,
    "TF203": small_tile,
    "TF204": slow_math,
    "TF205": repeated,
    "TF206": unpipelined,
    "TF207": scalar_loop,
    "TF208": chained,
    "TF301": low_occupancy,
    "TF302": idle_sms,
    "TF303": tail,
    "TF304": small_block,
    "TF305": large_block,
    "TF401": launch_bound,
}


def is_scored(finding: Finding) -> bool:
    """Tell whether a finding is one that this file can decide."""
    if finding.code not in CHECKS:
        return False
    return finding.severity in {"warning", "error"} or (
        finding.severity == "information" and finding.code in INFORMATION
    )


def treatments(finding: Finding, options: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the options that treat a finding, by title; none for a finding that counters decide alone."""
    warps, stages = options.get("num_warps", 4), options.get("num_stages", 3)
    if finding.code == "TF304":
        return {f"num_warps={n}": {"num_warps": n} for n in (warps // 2, warps // 4) if n >= 1}
    if finding.code == "TF106" and warps <= 8:
        return {f"num_warps={2 * warps}": {"num_warps": 2 * warps}}
    if finding.code == "TF206":
        return {f"num_stages={n}": {"num_stages": n} for n in (2, 3, 4) if n > stages}
    return {}


def judged(seen: Seen) -> Verdict:
    """Decide whether a finding is right."""
    return CHECKS[seen.finding.code](seen)
